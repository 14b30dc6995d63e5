"""Read a row of token trees in one forward pass of a decoder, under a mask by which a node sees its ancestors only.

The result is the decoder's output, without the projection to the vocabulary. `flex` is a third reader.

    masked     the model's own attention under a mask of all pairs of nodes
    blocked    sdpa, 128 nodes at a time: of a row of 4,000 nodes, 128 of them under a branch of 400, 128 x 528 pairs

The ancestors of a stretch of nodes are those of its first node and nodes of the stretch, so its keys are known without
a mask of the whole row, and attention costs grow with the length of branches, not of rows.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cpmi_dagster.errors import ModelError
from cpmi_dagster.models.attention import UNKNOWN_TERMS, check_terms, shown_mask
from cpmi_dagster.tree_forward.trees import Integers, PackedRow

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

STRETCH = 128
IMPLEMENTATION = "cpmi_blocked"


def upload(array: np.ndarray, device: "torch.device") -> "torch.Tensor":
    """Copy an array to a device; to CUDA from pinned memory, which does not wait for running kernels."""
    import torch

    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def check_token_ids(model: "PreTrainedModel", identity: str, tokens: Iterable[int]) -> None:
    """Refuse token ids beyond a model's embeddings, as of another model's tokenizer.

    Raises:
        ModelError: a token has no embedding.
    """
    embeddings: Any = model.get_input_embeddings()
    largest, count = max(tokens, default=0), embeddings.weight.shape[0]
    if largest >= count:
        raise ModelError(
            f"{identity} has embeddings of {count} tokens, but its tokenizer writes token id {largest}; give the model "
            "the tokenizer that it was trained with"
        )


@dataclass(frozen=True)
class RowReader:
    """Reads rows, one forward pass each.

    Attributes:
        name: name in the settings.
        model: language model or decoder.
        implementation: attention implementation of transformers while rows are read; None = the model's own.
        mask: row and padded length -> arguments of `forward` that describe the tree, attention_mask included.
        padded: row length -> length with padding.
    """

    name: str
    model: "PreTrainedModel"
    implementation: str | None
    mask: Callable[[PackedRow, int], dict[str, Any]]
    padded: Callable[[int], int] = lambda tokens: tokens

    def read(self, row: PackedRow) -> Any:
        """The decoder's output; `last_hidden_state` has the shape (1, nodes with padding, width)."""
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
    """A reader with the model's own attention and a 4-D mask, for models with a custom attention.

    sdpa takes booleans (True = attend), other attentions numbers to add. Without a mask, transformers would take
    restarted position ids for packed sequences and separate branches from their prefix.
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
    """Whether node i attends to node j, which is i or an ancestor of i: `j <= i < end[j]`.

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


class Block(NamedTuple):
    """Nodes `start` to `stop` of a row and the nodes that they attend to.

    Attributes:
        keys: node indices, [keys].
        added: added to attention scores, [stop - start, keys]; minus infinity if a node does not see a key.
    """

    start: int
    stop: int
    keys: "torch.Tensor"
    added: "torch.Tensor"


def blocked_reader(model: "PreTrainedModel") -> RowReader:
    """A reader with blocked sdpa, for models with a replaceable attention implementation."""
    from transformers import AttentionInterface

    AttentionInterface.register(IMPLEMENTATION, blocked_attention)

    def mask(row: PackedRow, size: int) -> dict[str, Any]:
        blocks = blocks_of(row.end, model.device, model.dtype)
        return {"attention_mask": shown_mask(size, model.device), "tree_blocks": blocks}

    return RowReader("blocked", model, IMPLEMENTATION, mask)


def blocks_of(end: Integers, device: "torch.device", dtype: "torch.dtype") -> list[Block]:
    """The blocks of a row, `STRETCH` nodes each.

    Args:
        end: index after each node's last descendant, nodes in preorder, [nodes].
    """
    import torch

    blocks = []
    for start in range(0, len(end), STRETCH):
        stop = min(start + STRETCH, len(end))
        queries = np.arange(start, stop)
        keys = np.concatenate([np.flatnonzero(end[:start] > start), queries])
        seen = (keys[None, :] <= queries[:, None]) & (queries[:, None] < end[keys][None, :])
        added = torch.zeros(seen.shape, dtype=dtype, device=device).masked_fill_(~upload(seen, device), -torch.inf)
        blocks.append(Block(start, stop, upload(keys, device), added))
    return blocks


def blocked_attention(
    module: "torch.nn.Module",
    query: "torch.Tensor",
    key: "torch.Tensor",
    value: "torch.Tensor",
    attention_mask: "torch.Tensor | None",
    scaling: float | None = None,
    dropout: float = 0.0,
    tree_blocks: "list[Block] | None" = None,
    **terms: Any,
) -> "tuple[torch.Tensor, None]":
    """Attention as transformers calls it: query (1, heads, nodes, width), key and value (1, groups, nodes, width).

    Raises:
        ModelError: the model did not pass `tree_blocks` on, or its attention has a term that is not computed here.
    """
    import torch

    check_terms(module, tree_blocks, terms, UNKNOWN_TERMS)
    groups, heads = key.shape[1], query.shape[1] // key.shape[1]
    parts = []
    for start, stop, keys, added in tree_blocks or ():
        seen, read = (states.index_select(2, keys.to(query.device)) for states in (key, value))
        # heads of a group share keys: as further queries they need no copies of the keys
        output = torch.nn.functional.scaled_dot_product_attention(
            query[:, :, start:stop].reshape(1, groups, heads * (stop - start), -1),
            seen,
            read,
            attn_mask=added.to(query.device).repeat(heads, 1),
            scale=scaling,
        )
        parts.append(output.reshape(1, groups * heads, stop - start, -1))
    return torch.cat(parts, dim=2).transpose(1, 2), None
