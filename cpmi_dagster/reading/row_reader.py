"""Read a row of token trees in one forward pass of a decoder, under a mask that shows each node its ancestors.

The result is the decoder's own output, without the projection to the vocabulary: what is taken of it, and at which
nodes, is another's matter.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cpmi_dagster.reading.packing import PackedRow

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


def upload(array: np.ndarray, device: "torch.device") -> "torch.Tensor":
    """An array as a tensor on a device; from pinned memory, so that the copy does not wait for the device's work."""
    import torch

    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


@dataclass(frozen=True)
class RowReader:
    """Reads a whole row in one forward pass.

    Attributes:
        name: name in the settings.
        model: a language model, or a decoder alone.
        implementation: attention implementation of transformers, in place while rows are read; None = the model's own.
        mask: arguments of the model's forward that describe a row's structure, attention_mask included.
        padded: length of a row with its padding.
    """

    name: str
    model: "PreTrainedModel"
    implementation: str | None
    mask: Callable[[PackedRow, int], dict[str, Any]]
    padded: Callable[[int], int] = lambda tokens: tokens

    def read(self, row: PackedRow) -> Any:
        """The decoder's output for a row; `last_hidden_state` has the shape (1, nodes with padding, width)."""
        size = self.padded(len(row))
        padding = (0, size - len(row))
        decoder: Any = self.model.get_decoder()
        return decoder(
            input_ids=upload(np.pad(row.tokens, padding)[None], self.model.device),
            position_ids=upload(np.pad(row.depth, padding)[None], self.model.device),
            use_cache=False,
            **self.mask(row, size),
        )


def masked_reader(model: "PreTrainedModel") -> RowReader:
    """A reader with the model's own attention and a 4-D mask: for short rows, and models with a custom attention.

    sdpa takes booleans (True = attend), others a number to add. The mask is always passed: without one, transformers
    reads restarted position ids as packed sequences, and separates branches from their prefix.
    """
    # private in transformers 5.23: the name of the attention implementation
    takes_booleans = model.config.get_text_config()._attn_implementation == "sdpa"

    def mask(row: PackedRow, size: int) -> dict[str, Any]:
        import torch

        allowed = ancestor_mask(upload(row.end, model.device))[None, None]
        if takes_booleans:
            return {"attention_mask": allowed}
        blocked = torch.full(allowed.shape, torch.finfo(model.dtype).min, dtype=model.dtype, device=model.device)
        return {"attention_mask": blocked.masked_fill(allowed, 0)}

    return RowReader("masked", model, None, mask)


def ancestor_mask(end: "torch.Tensor") -> "torch.Tensor":
    """True where node i may attend to node j: j is i or an ancestor of i, that is, `j <= i < end[j]`.

    node   0 1 2 3
    end    4 2 4 4
           0  x . . .
           1  x x . .
           2  x . x .
           3  x . x x

    Args:
        end: index after each node's last descendant, nodes in preorder, [nodes].

    Returns:
        [nodes (i), nodes (j)], boolean.
    """
    import torch

    index = torch.arange(len(end), device=end.device)
    return (index[None, :] <= index[:, None]) & (index[:, None] < end[None, :])
