"""Choose a model's reader of token trees: the first whose values on a small tree equal those of its sequences.

    reader     attention                                             tried
    flex       FlexAttention with a block mask of the trees          on CUDA; compiled once per row length
    blocked    sdpa, 128 nodes at a time against their ancestors     on every device
    masked     the model's own attention under a 4-D mask            if the others fail

A model may ignore a mask, take positions from the row (ALiBi) or cap its logits, and its configuration need not say so;
a comparison of values shows it.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cpmi_dagster.errors import ModelError, first_line
from cpmi_dagster.models.attention import attention_implementation, layer_windows
from cpmi_dagster.models.memory import is_out_of_memory
from cpmi_dagster.tree_forward import Reader
from cpmi_dagster.tree_forward.flex import flex_reader
from cpmi_dagster.tree_forward.row_readers import RowReader, blocked_reader, masked_reader
from cpmi_dagster.tree_forward.trees import Branch, PackedRow, Piece, lay_out, tree_of, whole

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

Take = Callable[[Any, PackedRow], "torch.Tensor"]
"""Decoder output and row -> values at the row's places, [values, ...]."""
READERS: dict[Reader, Callable[["PreTrainedModel"], RowReader]] = {
    "flex": flex_reader,
    "blocked": blocked_reader,
    "masked": masked_reader,
}
BY_DEVICE: dict[str, tuple[Reader, ...]] = {
    "cuda": ("flex", "blocked", "masked"),
    "cpu": ("blocked", "masked"),
}
ADVICE = "score it with `--scorer reference`"
logger = logging.getLogger(__name__)


class Probe(NamedTuple):
    """Sequences that a reader is tested with.

    Attributes:
        branches: sequences with a common beginning.
        take: computes the values that are compared.
        expected: their values, each sequence read alone, [values, ...].
        tolerance: largest difference that rounding makes; attending to a wrong branch makes a larger one.
    """

    branches: Sequence[Branch]
    take: Take
    expected: "torch.Tensor"
    tolerance: float


def choose_reader(model: "PreTrainedModel", wanted: Reader, probe: Probe) -> RowReader:
    """The first reader whose values on the probe's tree equal those of its sequences.

    Args:
        wanted: reader name; auto = by the model's device.

    Raises:
        ModelError: a layer is not full attention, or no reader gives the model's own values.
    """
    check_full_attention(model, longest=max(len(branch.tokens) for branch in probe.branches))
    (piece,) = whole(tree_of(probe.branches))
    candidates = BY_DEVICE.get(model.device.type, BY_DEVICE["cpu"]) if wanted == "auto" else (wanted,)
    obstacles = []
    for name in candidates:
        reader = READERS[name](model)
        obstacle = _find_obstacle(reader, piece, probe)
        if obstacle is None:
            return reader
        logger.warning(
            "%s does not read trees correctly with the reader `%s`: %s", type(model).__name__, name, obstacle
        )
        obstacles.append(f"{name}: {obstacle}")
    raise ModelError(
        f"{type(model).__name__} does not read token trees as it reads text ({'; '.join(obstacles)}); {ADVICE}"
    )


def check_full_attention(model: "PreTrainedModel", longest: int) -> None:
    """Refuse a model with layers that do not see a whole branch: recurrent states, short windows.

    Args:
        longest: tokens of the longest branch.

    Raises:
        ModelError: a layer does not attend to `longest` tokens; the message names its type.
    """
    for layer_type, window in layer_windows(model).items():
        if window is not None and window >= longest:
            continue
        seen = ", not full attention" if window is None else f" that see {window} tokens of a branch of {longest}"
        raise ModelError(
            f"{type(model).__name__} has layers of type `{layer_type}`{seen}, so it cannot read token trees; {ADVICE}"
        )


def _find_obstacle(reader: RowReader, piece: Piece, probe: Probe) -> str | None:
    """Why a reader's values differ from the expected ones; None if they do not."""
    import torch

    row = lay_out([piece])
    try:
        with torch.inference_mode(), attention_implementation(reader.model, reader.implementation):
            values = probe.take(reader.read(row), row).cpu().double()
    except Exception as error:  # whatever a model raises, it cannot read trees this way
        if is_out_of_memory(error):
            raise
        return first_line(error)
    expected = probe.expected.cpu().double()[torch.from_numpy(piece.values)]
    difference = (values - expected).abs()
    if torch.equal(values.isnan(), expected.isnan()) and not (difference > probe.tolerance).any():
        return None
    return f"values are off by up to {difference.max():.2g}"
