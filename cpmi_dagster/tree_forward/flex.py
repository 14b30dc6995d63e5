"""FlexAttention with a block mask of the trees, for GPUs and long rows.

Row of 512 nodes, blocks of 128; `end` tells which later blocks of queries see a block of keys in part or in full:

    queries \\ keys   0      1      2      3
    0                mask                         mask: some pairs     full: all pairs
    1                full   mask
    2                full   .      mask            . : skipped
    3                full   .      mask   mask

A kernel is compiled for every row length, so rows are padded to few lengths.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cpmi_dagster.models.attention import check_terms, shown_mask
from cpmi_dagster.tree_forward.row_readers import RowReader, upload
from cpmi_dagster.tree_forward.trees import Integers, PackedRow

if TYPE_CHECKING:
    import torch
    from torch.nn.attention.flex_attention import BlockMask
    from transformers import PreTrainedModel

BLOCK = 128
IMPLEMENTATION = "cpmi_flex"
COARSE_LENGTHS = 8
UNKNOWN_TERMS = ("position_bias", "s_aux")


def flex_reader(model: "PreTrainedModel") -> RowReader:
    """A reader with FlexAttention; compiled on CUDA, plain elsewhere."""
    from transformers import AttentionInterface

    AttentionInterface.register(IMPLEMENTATION, flex_attention_of_trees)

    def mask(row: PackedRow, size: int) -> dict[str, Any]:
        # one per device that has layers: `BlockMask.to` does not move the tensor that its function closes over
        masks = cache(partial(block_mask, row.end, size))
        return {"attention_mask": shown_mask(size, model.device), "tree_masks": masks}

    return RowReader("flex", model, IMPLEMENTATION, mask, padded_length)


def padded_length(tokens: int) -> int:
    """The next length that kernels are compiled for, eight between powers of two: 4,100 nodes -> 4,608.

    A row is padded by at most an eighth of its length or one block.
    """
    coarse = max(BLOCK, (1 << max(tokens - 1, 1).bit_length() - 1) // COARSE_LENGTHS)
    return -(-tokens // coarse) * coarse


def block_mask(end: Integers, size: int, device: "torch.device") -> "BlockMask":
    """The block mask of a row, without a mask of all pairs.

    Args:
        end: index after each node's last descendant, [nodes].
        size: nodes with padding, a multiple of `BLOCK`; a padding node sees itself only.
    """
    from torch.nn.attention.flex_attention import BlockMask

    ends = np.concatenate([end, np.arange(len(end), size) + 1])
    some, full = block_kinds(ends)
    last = upload(ends, device)

    def sees(batch: "torch.Tensor", head: "torch.Tensor", query: "torch.Tensor", key: "torch.Tensor") -> "torch.Tensor":
        return (key <= query) & (query < last[key])

    lists = []
    for kinds in (some, full):
        # the number of key blocks that a query block sees, and the indices of these first in each row
        counts, numbers = kinds.sum(axis=1, dtype=np.int32), np.argsort(~kinds, axis=1, kind="stable").astype(np.int32)
        lists += [upload(counts[None, None], device), upload(numbers[None, None], device)]
    return BlockMask.from_kv_blocks(*lists, BLOCK_SIZE=BLOCK, mask_mod=sees, seq_lengths=(size, size))


def block_kinds(end: Integers) -> tuple[np.ndarray, np.ndarray]:
    """Which blocks of keys a block of queries sees in part, and which in full.

    Args:
        end: index after each node's last descendant, [nodes], a multiple of `BLOCK` nodes.

    Returns:
        Two boolean arrays, [query blocks, key blocks]; no pair of blocks is true in both.
    """
    blocks = end.reshape(-1, BLOCK)
    first = np.arange(len(blocks)) * BLOCK
    earlier = np.tri(len(blocks), k=-1, dtype=bool)
    full = earlier & (blocks.min(axis=1)[None, :] >= first[:, None] + BLOCK)
    touched = earlier & (blocks.max(axis=1)[None, :] > first[:, None])
    return (touched & ~full) | np.eye(len(blocks), dtype=bool), full


def flex_attention_of_trees(
    module: "torch.nn.Module",
    query: "torch.Tensor",
    key: "torch.Tensor",
    value: "torch.Tensor",
    attention_mask: "torch.Tensor | None",
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    tree_masks: "Callable[[torch.device], BlockMask] | None" = None,
    **terms: Any,
) -> "tuple[torch.Tensor, None]":
    """Attention as transformers calls it: query (1, heads, nodes, width), key and value (1, groups, nodes, width)."""
    check_terms(module, tree_masks, terms, UNKNOWN_TERMS)
    assert tree_masks is not None  # checked above
    attend, mask = _kernel(query.is_cuda), tree_masks(query.device)
    cap = None if softcap is None else _soft_cap(softcap)
    attended = attend(query, key, value, score_mod=cap, block_mask=mask, scale=scaling, enable_gqa=True)
    return attended.transpose(1, 2).contiguous(), None


@cache
def _kernel(compiled: bool) -> Callable[..., Any]:
    import torch
    from torch.nn.attention.flex_attention import flex_attention

    if not compiled:
        return flex_attention
    # a kernel per length and no fallback, which would build a matrix of all pairs; private in torch 2.13
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 64)
    return torch.compile(flex_attention, dynamic=False, fullgraph=True)


@cache
def _soft_cap(cap: float) -> Callable[..., "torch.Tensor"]:
    def capped(score: "torch.Tensor", *place: "torch.Tensor") -> "torch.Tensor":
        import torch

        return cap * torch.tanh(score / cap)

    return capped
