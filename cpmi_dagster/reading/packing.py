"""Pack token trees into rows without padding; a row is one forward pass.

    sizes [500, 900, 400, 120], row_tokens 1024  ->  rows [1, 3], [0, 2]

A tree larger than a row is cut between subtrees; a piece is a stretch of nodes with its ancestors:

    nodes of the tree    0 1 2 3 4 | 5 6 7            cut before 5, whose ancestors are 0 and 3
    pieces               0 1 2 3 4   0 3 5 6 7        0 and 3 are read twice, their values are taken once

Pieces of a row do not see each other: no node of a piece is an ancestor in another, and position ids restart in each.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cpmi_dagster.reading.trees import Integers, TokenTree

SMALLEST_STRETCH = 64


@dataclass(frozen=True)
class Piece:
    """A stretch of a tree's nodes with their ancestors, and the values that are taken in the stretch.

    Attributes:
        start, stop: the stretch, node indices of the tree.
        nodes: node indices in the tree, ascending: ancestors, then stretch, [nodes].
        end: index in the piece after each node's last descendant, [nodes].
        values: value indices in the tree, [values].
        places: node of the piece for each value, [values].
    """

    tree: TokenTree
    start: int
    stop: int
    nodes: Integers
    end: Integers
    values: Integers
    places: Integers

    def __len__(self) -> int:
        """Nodes."""
        return len(self.nodes)


@dataclass(frozen=True)
class PackedRow(TokenTree):
    """Pieces side by side; node indices count along the row."""

    pieces: tuple[Piece, ...]


def rows_of(pieces: Iterable[Piece], row_tokens: int) -> list[PackedRow]:
    """Rows of at most `row_tokens` with these pieces, cut if needed; a longer branch makes its row longer."""
    small = [part for piece in pieces for part in cut(piece, row_tokens)]
    return [lay_out([small[item] for item in row]) for row in pack([len(piece) for piece in small], row_tokens)]


def whole(*trees: TokenTree) -> list[Piece]:
    """Each tree in one piece."""
    return [_piece(tree, 0, len(tree)) for tree in trees]


def cut(piece: Piece, room: int) -> list[Piece]:
    """Cut a piece into smaller ones; each value is taken in one of them.

    Args:
        room: most nodes of a piece; below a branch of that length, a piece has `SMALLEST_STRETCH` nodes more.
    """
    if len(piece) <= room:
        return [piece]
    tree, start, pieces = piece.tree, piece.start, []
    while start < piece.stop:
        stretch = max(room - int(tree.depth[start]), min(SMALLEST_STRETCH, room))
        stop = min(start + stretch, piece.stop)
        if stop < piece.stop:
            # the shortest branch to the next piece costs the fewest nodes that are read twice
            middle = start + (stretch + 1) // 2
            candidates = tree.depth[middle : stop + 1]
            stop = middle + len(candidates) - 1 - int(np.argmin(candidates[::-1]))
        pieces.append(_piece(tree, start, stop))
        start = stop
    # a stretch without values is read only as ancestors of one that has some
    return [part for part in pieces if len(part.values)]


def _piece(tree: TokenTree, start: int, stop: int) -> Piece:
    """The nodes from `start` to `stop` and the first node's ancestors, which are all that the stretch has."""
    ancestors = np.flatnonzero(tree.end[:start] > start)
    nodes = np.concatenate([ancestors, np.arange(start, stop)])
    ordered = tree.places[tree.by_place]
    first, last = np.searchsorted(ordered, [start, stop])
    return Piece(
        tree=tree,
        start=start,
        stop=stop,
        nodes=nodes,
        end=np.searchsorted(nodes, tree.end[nodes]),
        values=tree.by_place[first:last],
        places=ordered[first:last] - start + len(ancestors),
    )


def pack(sizes: Sequence[int], row_tokens: int) -> list[list[int]]:
    """Assign items to rows by first-fit decreasing.

    Args:
        sizes: tokens of each item.
        row_tokens: most tokens of a row; a larger item is alone in its row.

    Returns:
        Item indices of each row.
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


def lay_out(pieces: Sequence[Piece]) -> PackedRow:
    """Concatenate pieces into a row."""
    starts = np.cumsum([0, *(len(piece) for piece in pieces[:-1])])
    placed = list(zip(starts, pieces, strict=True))
    return PackedRow(
        pieces=tuple(pieces),
        tokens=np.concatenate([piece.tree.tokens[piece.nodes] for piece in pieces]),
        depth=np.concatenate([piece.tree.depth[piece.nodes] for piece in pieces]),
        end=np.concatenate([piece.end + start for start, piece in placed]),
        places=np.concatenate([piece.places + start for start, piece in placed]),
        predicted=np.concatenate([piece.tree.predicted[piece.values] for piece in pieces]),
    )
