"""A token tree: every distinct prefix of some sequences once, and the nodes at which values are taken.

Sequences `q a`, `q s a`; the values are log p of `b` and of `c` after each:

    node      0    1    2    3
    token     q    a    s    a          q ── a            predicts b, c
    depth     0    1    1    2          └─ s ── a         predicts b, c
    end       4    2    4    4          places [1, 1, 3, 3], predicted [b, c, b, c]

Nodes are in preorder, so the descendants of j are the nodes j + 1 to end[j] - 1, and node i attends to j if
`j <= i < end[j]`, in one tree and in several side by side.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpmi_dagster.models.tokens import TokenIds

Integers = NDArray[np.int64]

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
