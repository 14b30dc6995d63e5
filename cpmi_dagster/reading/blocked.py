"""Blocked sdpa: 128 nodes at a time attend to their ancestors only.

    row of 4,000 nodes, 128 of them under a branch of 400: 128 x 528 pairs, not 128 x 4,000

The ancestors of a stretch of nodes are those of its first node and nodes of the stretch, so its keys are known without
a mask of the whole row, and attention costs grow with the length of branches, not of rows.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cpmi_dagster.models.attention import UNKNOWN_TERMS, check_terms, shown_mask
from cpmi_dagster.reading.packing import PackedRow
from cpmi_dagster.reading.row_reader import RowReader, upload
from cpmi_dagster.reading.trees import Integers

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

STRETCH = 128
IMPLEMENTATION = "cpmi_blocked"


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
