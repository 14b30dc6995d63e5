"""Lay trees side by side in rows of at most `row_tokens`, without padding.

    sizes [500, 900, 400, 120], row_tokens 1024  ->  rows [1, 3], [0, 2]

A row is one forward pass. Trees in a row cannot see each other, since no node of one is an ancestor of a node of
another, and position ids start anew in each.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cpmi_dagster.scoring.trees import Integers, TokenTree


@dataclass(frozen=True)
class Row:
    """Trees one after the other; the arrays are those of `TokenTree`, with node indices counted along the row."""

    trees: tuple[TokenTree, ...]
    tokens: Integers
    depth: Integers
    end: Integers
    predictors: Integers
    predicted: Integers


def pack(sizes: Sequence[int], row_tokens: int) -> list[list[int]]:
    """Put items into rows, largest first, each into the first row with room (first-fit decreasing).

    Args:
        sizes: tokens of each item.
        row_tokens: tokens a row holds; a larger item gets a row of its own.

    Returns:
        Indices of the items in each row.
    """
    rows: list[list[int]] = []
    room: list[int] = []
    for item in sorted(range(len(sizes)), key=lambda index: -sizes[index]):
        row = next((row for row, free in enumerate(room) if free >= sizes[item]), len(rows))
        if row == len(rows):
            rows.append([])
            room.append(row_tokens)
        rows[row].append(item)
        room[row] -= sizes[item]
    return rows


def lay_out(trees: Sequence[TokenTree]) -> Row:
    """The row in which the trees stand in this order."""
    starts = np.cumsum([0, *(len(tree) for tree in trees[:-1])])
    placed = list(zip(starts, trees, strict=True))
    return Row(
        trees=tuple(trees),
        tokens=np.concatenate([tree.tokens for tree in trees]),
        depth=np.concatenate([tree.depth for tree in trees]),
        end=np.concatenate([tree.end + start for start, tree in placed]),
        predictors=np.concatenate([tree.predictors + start for start, tree in placed]),
        predicted=np.concatenate([tree.predicted for tree in trees]),
    )
