"""A token tree: every distinct prefix of some sequences once, and the nodes at which a value is taken.

Sequences `q a`, `q s a`; at each of their last nodes, log p of `b` and of `c` is taken:

    node      0    1    2    3
    token     q    a    s    a          q ── a            predicts b, c
    depth     0    1    1    2          └─ s ── a         predicts b, c
    end       4    2    4    4          places [1, 1, 3, 3], predicted [b, c, b, c]

Nodes are in preorder, so the descendants of j are the nodes from j + 1 to end[j] - 1, and node i may attend to j
exactly when `j <= i < end[j]`: the same test for one tree and for many side by side.
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
"""The node before the first: the last token of a prompt that the tree is put under."""
NO_TOKEN = -1
"""What is predicted at a place whose state is taken."""


class Branch(NamedTuple):
    """A sequence of tokens, the indices of those at which a value is taken, and the token that each of them predicts.

    Where states are taken, no tokens are predicted.
    """

    tokens: TokenIds | list[int]
    places: Sequence[int]
    predicted: Sequence[int] = ()


@dataclass(frozen=True)
class TokenTree:
    """Nodes in preorder, one tree or several side by side, and the places at which values are taken.

    Attributes:
        tokens: token id of each node, [nodes].
        depth: tokens before it on its branch, [nodes]; its position id.
        end: index after its last descendant, [nodes].
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
        """Values in the order of their nodes, [values]."""
        return np.argsort(self.places, kind="stable")

    def under(self, prompt: TokenIds) -> "TokenTree":
        """The tree of these branches below a prompt, whose last token becomes their root.

        Args:
            prompt: token ids of BOS, template and question; at least one.
        """
        shift = len(prompt)
        return TokenTree(
            tokens=np.concatenate([np.array(prompt, np.int64), self.tokens]),
            depth=np.concatenate([np.arange(shift), self.depth + shift]),
            end=np.concatenate([np.full(shift, shift + len(self)), self.end + shift]),
            places=self.places + shift,
            predicted=self.predicted,
        )


def tree_of(branches: Iterable[Branch]) -> TokenTree:
    """The tree of some sequences; values are in their order."""
    growing = GrowingTree()
    for tokens, places, predicted in branches:
        path = growing.extend(ROOT, tokens)[1:]
        growing.places += [path[place] for place in places]
        growing.predicted += predicted or [NO_TOKEN] * len(places)
    return growing.in_preorder()


@dataclass
class GrowingTree:
    """Nodes in the order they are added; a parent always precedes its children.

    Attributes:
        places, predicted: as of `TokenTree`; whoever adds a path says what is taken along it.
    """

    places: list[int] = field(default_factory=list)
    predicted: list[int] = field(default_factory=list)
    _tokens: list[int] = field(default_factory=list)
    _parents: list[int] = field(default_factory=list)
    _children: dict[tuple[int, int], int] = field(default_factory=dict)

    def extend(self, node: int, tokens: Iterable[int]) -> list[int]:
        """The nodes from `node` along the tokens, both ends included; missing ones are added."""
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
        """The tree with every subtree in consecutive nodes."""
        parents = self._parents
        count = len(parents)
        # one cell more than there are nodes: the last one, at index ROOT
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
