"""Choose how a model reads rows of trees: the first reader whose values agree with the model's own on a small tree.

    reader     how the model gets the tree's structure                   tried
    flex       FlexAttention with a block mask of the trees              on CUDA; compiled once a length of row
    blocked    sdpa, 128 nodes at a time against the nodes they can see  on every device
    masked     a 4-D mask of the whole row                               for models with an attention of their own

A model may ignore a mask, take positions from the row (ALiBi), or cap its logits, and its configuration need not say
so. Comparing a small tree with its sequences written out shows it.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cpmi_dagster.errors import ModelError, first_line
from cpmi_dagster.models.attention import attention_implementation, layer_windows
from cpmi_dagster.models.memory import is_out_of_memory
from cpmi_dagster.reading import Reader
from cpmi_dagster.reading.blocked import blocked_reader
from cpmi_dagster.reading.flex import flex_reader
from cpmi_dagster.reading.packing import PackedRow, Piece, lay_out, whole
from cpmi_dagster.reading.row_reader import RowReader, masked_reader
from cpmi_dagster.reading.trees import Branch, tree_of

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

Take = Callable[[Any, PackedRow], "torch.Tensor"]
"""From a decoder's output and the row that it read to the values at the row's places, [values, ...]."""
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
    """Sequences to try a reader on.

    Attributes:
        branches: sequences that begin alike.
        take: what is compared.
        expected: the values at their places, each sequence read alone as the model reads text, [values, ...].
        tolerance: largest difference that is rounding; a wrong branch in view makes a larger one.
    """

    branches: Sequence[Branch]
    take: Take
    expected: "torch.Tensor"
    tolerance: float


def choose_reader(model: "PreTrainedModel", wanted: Reader, probe: Probe) -> RowReader:
    """The first reader whose values on a small tree are those of the tree's sequences.

    Args:
        wanted: a reader by name; auto = by the model's device.

    Raises:
        ModelError: its layers are not full attention, or no reader agrees with the model itself.
    """
    check_full_attention(model, longest=max(len(branch.tokens) for branch in probe.branches))
    (piece,) = whole(tree_of(probe.branches))
    candidates = BY_DEVICE.get(model.device.type, BY_DEVICE["cpu"]) if wanted == "auto" else (wanted,)
    obstacles = []
    for name in candidates:
        reader = READERS[name](model)
        obstacle = _obstacle(reader, piece, probe)
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


def _obstacle(reader: RowReader, piece: Piece, probe: Probe) -> str | None:
    """Why a reader's values of a tree are not those expected; None if they are."""
    import torch

    row = lay_out([piece])
    try:
        with torch.inference_mode(), attention_implementation(reader.model, reader.implementation):
            values = probe.take(reader.read(row), row).cpu().double()
    except Exception as error:  # any error of the model means that it cannot read trees this way
        if is_out_of_memory(error):
            raise
        return first_line(error)
    expected = probe.expected.cpu().double()[torch.from_numpy(piece.values)]
    difference = (values - expected).abs()
    if torch.equal(values.isnan(), expected.isnan()) and not (difference > probe.tolerance).any():
        return None
    return f"values are off by up to {difference.max():.2g}"
