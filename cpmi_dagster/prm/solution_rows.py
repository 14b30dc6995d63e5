"""Solutions in a row, one after the other; what one begins with as its neighbour does is not written again.

    solutions          row
    q s a              node    0  1  2  3  4  5
    q s b c            token   q  s  a  b  c  p        q ── s ─┬─ a
    p                  depth   0  1  2  2  3  0                └─ b ── c
                       end     5  5  3  5  5  6        p

The nodes of a row are in preorder, as those of `scoring/trees.py`: node i may attend to j when `j <= i < end[j]`.
Solutions are sorted, so neighbours share most; when a row is full, another one begins.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cpmi_dagster.prm.inputs import EncodedSolution

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class SolutionRow:
    """Some solutions, to be read in one pass.

    Attributes:
        tokens: token id of each node, [nodes].
        depth: tokens before it in its solutions, [nodes]; its position id.
        end: index after its last descendant, [nodes].
        members: numbers of the solutions.
        steps: of each, the nodes at which its steps end.
    """

    tokens: Integers
    depth: Integers
    end: Integers
    members: Sequence[int]
    steps: Sequence[Integers]

    def __len__(self) -> int:
        """Nodes."""
        return len(self.tokens)


def solution_rows(encoded: Sequence[EncodedSolution], row_tokens: int) -> Iterator[SolutionRow]:
    """All solutions in rows.

    Args:
        encoded: solutions; they are numbered in this order.
        row_tokens: most nodes of a row; a longer solution gets a row of its own.
    """
    row = _GrowingRow()
    for number in sorted(range(len(encoded)), key=lambda number: encoded[number].token_ids):
        tokens = np.array(encoded[number].token_ids, np.int64)
        shared = row.shared(tokens)
        if row.members and row.size + len(tokens) - shared > row_tokens:
            yield row.finished()
            row, shared = _GrowingRow(), 0
        row.add(number, tokens, shared, encoded[number].step_positions)
    if row.members:
        yield row.finished()


class _GrowingRow:
    """A row to which solutions are added in sorted order; `last` are the last one's tokens, `branch` their nodes."""

    def __init__(self) -> None:
        self.size = 0
        self.last = self.branch = np.empty(0, np.int64)
        self.members: list[int] = []
        self.steps: list[Integers] = []
        self._tokens: list[Integers] = []
        self._depth: list[Integers] = []
        self._ended: list[tuple[Integers, int]] = []

    def shared(self, tokens: Integers) -> int:
        """With how many tokens of the last solution these begin."""
        most = min(len(tokens), len(self.last))
        different = np.flatnonzero(tokens[:most] != self.last[:most])
        return int(different[0]) if len(different) else most

    def add(self, number: int, tokens: Integers, shared: int, step_positions: Sequence[int]) -> None:
        """Write down what is not shared with the last solution."""
        self._ended.append((self.branch[shared:], self.size))
        fresh = np.arange(self.size, self.size + len(tokens) - shared)
        self.branch = np.concatenate([self.branch[:shared], fresh])
        self.last, self.size = tokens, self.size + len(fresh)
        self._tokens.append(tokens[shared:])
        self._depth.append(np.arange(shared, len(tokens)))
        self.members.append(number)
        self.steps.append(self.branch[np.array(step_positions, np.int64)])

    def finished(self) -> SolutionRow:
        """The row."""
        end = np.empty(self.size, np.int64)
        for nodes, place in [*self._ended, (self.branch, self.size)]:
            end[nodes] = place
        tokens, depth = np.concatenate(self._tokens), np.concatenate(self._depth)
        return SolutionRow(tokens, depth, end, self.members, self.steps)
