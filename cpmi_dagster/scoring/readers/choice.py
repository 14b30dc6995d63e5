"""Choose how a model reads trees: the first reader whose values agree with the model's own on a small tree.

A model may ignore a mask, take positions from the row (ALiBi), or cap its logits, and its configuration need not say
so. Comparing a small tree with its sequences written out shows it.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cpmi_dagster.contracts.contexts import contexts_of
from cpmi_dagster.errors import ModelError, first_line
from cpmi_dagster.models.attention import layer_windows
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.models.memory import is_out_of_memory
from cpmi_dagster.models.tokens import piece_ids, start_ids
from cpmi_dagster.scoring.admission import TokenizedTrajectory
from cpmi_dagster.scoring.packing import Piece, lay_out, whole
from cpmi_dagster.scoring.readers.blocked import blocked_reader
from cpmi_dagster.scoring.readers.flex import flex_reader
from cpmi_dagster.scoring.readers.reader import MaskReader, masked_reader
from cpmi_dagster.scoring.reference import token_logprobs, written_out
from cpmi_dagster.scoring.settings import Reader
from cpmi_dagster.scoring.windows import trees_of
from cpmi_dagster.trajectories.templates import render_step, render_target

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ADVICE = "score it with `--scorer reference`"
READERS: dict[Reader, Callable[[LoadedModel], MaskReader]] = {
    "flex": flex_reader,
    "blocked": blocked_reader,
    "masked": masked_reader,
}
BY_DEVICE: dict[str, tuple[Reader, ...]] = {
    "cuda": ("flex", "blocked", "masked"),
    "cpu": ("blocked", "masked"),
}
QUESTION, STEPS, ANSWERS = "Ana has 48 shells. ", ("48 / 2 = 24", "48 + 24 = 72"), ("72", "74", "24")
# on CUDA the tree is long enough for blocks that are seen in full and blocks that are skipped
REPEATS = {"cuda": 100, "cpu": 1}
# bounds of rounding by precision; a wrong branch in view makes a larger difference
TOLERANCE = {"float64": 1e-3, "float32": 1e-3, "float16": 0.1, "bfloat16": 0.5}
logger = logging.getLogger(__name__)


def reader_of(model: LoadedModel, wanted: Reader = "auto") -> MaskReader:
    """How this model reads trees; tried out once per model.

    Args:
        wanted: a reader by name; auto = by hardware.

    Raises:
        ModelError: its layers are not full attention, or no reader agrees with the model itself.
    """
    place = f"reader {wanted}"
    if place not in model.remembered:
        model.remembered[place] = _choose(model, wanted)
    return model.remembered[place]


def check_full_attention(model: "PreTrainedModel", longest: int) -> None:
    """Refuse a model with layers that do not see a whole branch, as recurrent states and short windows do not.

    Args:
        longest: tokens of the longest branch.

    Raises:
        ModelError: its layers are not full attention over `longest` tokens; the message names them.
    """
    for layer_type, window in layer_windows(model).items():
        if window is not None and window >= longest:
            continue
        seen = ", not full attention" if window is None else f" that see {window} tokens where a branch has {longest}"
        raise ModelError(
            f"{type(model).__name__} has layers of type `{layer_type}`{seen}, so it cannot read token trees; {ADVICE}"
        )


def _choose(model: LoadedModel, wanted: Reader) -> MaskReader:
    """The first reader whose values on a small tree are those of the tree's sequences written out."""
    question = QUESTION * REPEATS.get(model.device.type, 1) + "\n"
    steps, targets = list(map(render_step, STEPS)), list(map(render_target, ANSWERS))
    ids = piece_ids(model.tokenizer, [question, *steps, *targets])
    trajectory = TokenizedTrajectory(
        trajectory_id="probe",
        prompts=(start_ids(model.tokenizer) + ids[question],),
        steps=tuple(ids[step] for step in steps),
        targets=dict(enumerate(ids[target] for target in targets)),
        contexts=contexts_of(["marginal", "prefix"], len(steps)),
    )
    check_full_attention(model.model, longest=trajectory.longest_sequence)
    sequences = (token_logprobs(model, before, target) for _, before, target in written_out([trajectory]))
    expected = np.concatenate([logprobs.cpu().double().numpy() for logprobs in sequences])
    (piece,) = whole(*trees_of([trajectory]))
    candidates = BY_DEVICE.get(model.device.type, BY_DEVICE["cpu"]) if wanted == "auto" else (wanted,)
    obstacles = []
    for name in candidates:
        reader = READERS[name](model)
        obstacle = _obstacle(reader, model, piece, expected)
        if obstacle is None:
            logger.info("%s reads token trees with the reader `%s`", model.identity, name)
            return reader
        logger.warning("%s does not read trees correctly with the reader `%s`: %s", model.identity, name, obstacle)
        obstacles.append(f"{name}: {obstacle}")
    raise ModelError(
        f"{type(model.model).__name__} does not read token trees as it reads text ({'; '.join(obstacles)}); {ADVICE}"
    )


def _obstacle(reader: MaskReader, model: LoadedModel, piece: Piece, expected: NDArray[np.float64]) -> str | None:
    """Why a reader's values of a tree are not those expected; None where they are."""
    try:
        values = reader.logprobs(lay_out([piece])).cpu().numpy()
    except Exception as error:  # any error of the model means that it cannot read trees this way
        if is_out_of_memory(error):
            raise
        return first_line(error)
    ordered = np.empty(len(values))
    ordered[piece.targets] = values
    tolerance = TOLERANCE[str(model.model.dtype).removeprefix("torch.")]
    difference = np.abs(ordered - expected)
    if np.array_equal(np.isnan(ordered), np.isnan(expected)) and not (difference > tolerance).any():
        return None
    return f"log-probabilities are off by up to {difference.max():.2g}"
