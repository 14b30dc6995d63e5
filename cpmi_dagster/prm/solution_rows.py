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
    members: list[int] = []
    shares: list[int] = []
    size, last = 0, np.empty(0, np.int64)
    for number in sorted(range(len(encoded)), key=lambda number: encoded[number].token_ids):
        tokens = np.array(encoded[number].token_ids, np.int64)
        both = min(len(tokens), len(last))
        different = np.flatnonzero(tokens[:both] != last[:both])
        shared = int(different[0]) if len(different) else both
        if members and size + len(tokens) - shared > row_tokens:
            yield _row(encoded, members, shares)
            members, shares, size, shared = [], [], 0, 0
        members.append(number)
        shares.append(shared)
        size, last = size + len(tokens) - shared, tokens
    if members:
        yield _row(encoded, members, shares)


def _row(encoded: Sequence[EncodedSolution], members: list[int], shares: list[int]) -> SolutionRow:
    """Sorted solutions as a row; each begins with `shares` tokens of the one before."""
    solutions = [encoded[number] for number in members]
    lengths = [len(solution.token_ids) for solution in solutions]
    starts = np.cumsum([0, *(length - shared for length, shared in zip(lengths, shares, strict=True))])
    end = np.full(starts[-1], starts[-1])
    branch, steps = np.empty(0, np.int64), []
    for solution, shared, start, after in zip(solutions, shares, starts, starts[1:], strict=False):
        # what the branch of the solution before has beyond the common beginning ends here
        end[branch[shared:]] = start
        branch = np.concatenate([branch[:shared], np.arange(start, after)])
        steps.append(branch[np.array(solution.step_positions, np.int64)])
    parts = [np.array(each.token_ids[shared:], np.int64) for each, shared in zip(solutions, shares, strict=True)]
    depth = np.concatenate([np.arange(shared, length) for shared, length in zip(shares, lengths, strict=True)])
    return SolutionRow(np.concatenate(parts), depth, end, members, steps)
