"""Token trees: every distinct prefix of some sequences once, the nodes at which values are taken, and rows of trees.

Sequences `q a`, `q s a`; the values are log p of `b` and of `c` after each:

    node      0    1    2    3
    token     q    a    s    a          q ── a            predicts b, c
    depth     0    1    1    2          └─ s ── a         predicts b, c
    end       4    2    4    4          places [1, 1, 3, 3], predicted [b, c, b, c]

Nodes are in preorder, so the descendants of j are the nodes j + 1 to end[j] - 1, and node i attends to j if
`j <= i < end[j]`, in one tree and in several side by side.

Trees are packed into rows without padding; a row is one forward pass:

    sizes [500, 900, 400, 120], row_tokens 1024  ->  rows [1, 3], [0, 2]

A tree larger than a row is cut between subtrees; a piece is a stretch of nodes with its ancestors:

    nodes of the tree    0 1 2 3 4 | 5 6 7            cut before 5, whose ancestors are 0 and 3
    pieces               0 1 2 3 4   0 3 5 6 7        0 and 3 are read twice, their values are taken once

Pieces of a row do not see each other: no node of a piece is an ancestor in another, and position ids restart in each.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpmi_dagster.models.tokens import TokenIds

Integers = NDArray[np.int64]

SMALLEST_STRETCH = 64
ROOT = -1
"""The parent of the first node: the last token of the prompt, if there is one."""
NO_TOKEN = -1
"""The predicted token of a place whose hidden state is the value."""


class Branch(NamedTuple):
    """A token sequence, the indices at which values are taken, and the predicted tokens (none for hidden states)."""

    tokens: TokenIds | list[int]
    places: Sequence[int]
    predicted: Sequence[int] = ()


@dataclass(frozen=True)
class TokenTree:
    """Nodes in preorder, of one tree or several side by side, and the places of values.

    Attributes:
        tokens: token id of each node, [nodes].
        depth: number of ancestors, the position id, [nodes].
        end: index after the last descendant, [nodes].
        places: node of each value, [values].
        predicted: token id whose log-probability is the value, or `NO_TOKEN`, [values].
    """

    tokens: Integers
    depth: Integers
    end: Integers
    places: Integers
    predicted: Integers

    def __len__(self) -> int:
        """Nodes."""
        return len(self.tokens)

    @cached_property
    def by_place(self) -> Integers:
        """Value indices in the order of their nodes, [values]."""
        return np.argsort(self.places, kind="stable")

    def under(self, prompt: TokenIds) -> "TokenTree":
        """Put this tree below a prompt: token ids of BOS, template and question, at least one."""
        shift = len(prompt)
        return TokenTree(
            tokens=np.concatenate([np.array(prompt, np.int64), self.tokens]),
            depth=np.concatenate([np.arange(shift), self.depth + shift]),
            end=np.concatenate([np.full(shift, shift + len(self)), self.end + shift]),
            places=self.places + shift,
            predicted=self.predicted,
        )


def tree_of(branches: Iterable[Branch]) -> TokenTree:
    """Build the tree of some sequences; values are in their order."""
    growing = GrowingTree()
    for tokens, places, predicted in branches:
        path = growing.extend(ROOT, tokens)[1:]
        growing.places += [path[place] for place in places]
        growing.predicted += predicted or [NO_TOKEN] * len(places)
    return growing.in_preorder()


@dataclass
class GrowingTree:
    """Nodes in the order in which they are added; the caller appends to `places` and `predicted` of `TokenTree`."""

    places: list[int] = field(default_factory=list)
    predicted: list[int] = field(default_factory=list)
    _tokens: list[int] = field(default_factory=list)
    _parents: list[int] = field(default_factory=list)
    _children: dict[tuple[int, int], int] = field(default_factory=dict)

    def extend(self, node: int, tokens: Iterable[int]) -> list[int]:
        """The path from `node` along the tokens, both ends included; adds missing nodes."""
        path = [node]
        for token in tokens:
            child = self._children.setdefault((node, token), len(self._tokens))
            if child == len(self._tokens):
                self._tokens.append(token)
                self._parents.append(node)
            path.append(child)
            node = child
        return path

    def in_preorder(self) -> TokenTree:
        """The tree with nodes in preorder."""
        parents = self._parents
        count = len(parents)
        # the last cell, at index ROOT, is that of the root
        sizes, depth, place, free = ([value] * (count + 1) for value in (1, -1, ROOT, 0))
        for node in range(count - 1, -1, -1):
            sizes[parents[node]] += sizes[node]
        for node in range(count):
            depth[node] = depth[parents[node]] + 1
            place[node] = free[parents[node]]
            free[parents[node]] += sizes[node]
            free[node] = place[node] + 1
        places = np.array(place, np.int64)
        order = np.argsort(places[:count])
        return TokenTree(
            tokens=np.array(self._tokens, np.int64)[order],
            depth=np.array(depth[:count], np.int64)[order],
            end=(places[:count] + np.array(sizes[:count], np.int64))[order],
            places=places[np.array(self.places, np.int64)],
            predicted=np.array(self.predicted, np.int64),
        )


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
