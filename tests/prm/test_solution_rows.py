"""A row holds every solution as a branch of its own and writes a common beginning once."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.prm.inputs import EncodedSolution
from cpmi_dagster.prm.solution_rows import SolutionRow, solution_rows

texts = st.lists(st.integers(0, 2), min_size=1, max_size=8)


@st.composite
def solutions(draw: st.DrawFn) -> list[EncodedSolution]:
    """A few solutions over three tokens, so that many begin alike; some occur twice."""
    encoded = []
    for tokens in draw(st.lists(texts, min_size=1, max_size=12)):
        ends = draw(st.sets(st.integers(0, len(tokens) - 1), min_size=1))
        encoded.append(EncodedSolution(tokens, sorted(ends)))
    return encoded


def branch(row: SolutionRow, node: int) -> np.ndarray:
    """The nodes that a node may attend to, itself among them."""
    return np.flatnonzero((np.arange(len(row)) <= node) & (node < row.end))


@given(solutions(), st.integers(1, 40))
def test_the_end_of_a_step_sees_the_solution_up_to_there_and_nothing_else(encoded, row_tokens):
    for row in solution_rows(encoded, row_tokens):
        for member, steps in zip(row.members, row.steps, strict=True):
            for node, position in zip(steps, encoded[member].step_positions, strict=True):
                seen = branch(row, node)
                assert row.tokens[seen].tolist() == encoded[member].token_ids[: position + 1]
                assert row.depth[seen].tolist() == list(range(position + 1))


@given(solutions(), st.integers(1, 40))
def test_every_solution_is_in_one_row_and_rows_keep_their_length(encoded, row_tokens):
    rows = list(solution_rows(encoded, row_tokens))
    assert sorted(member for row in rows for member in row.members) == list(range(len(encoded)))
    assert all(len(row) <= row_tokens or len({tuple(encoded[m].token_ids) for m in row.members}) == 1 for row in rows)


@given(solutions())
def test_a_beginning_that_solutions_share_is_written_once(encoded):
    (row,) = solution_rows(encoded, 1000)
    beginnings = {
        tuple(solution.token_ids[:length]) for solution in encoded for length in range(1, len(solution.token_ids) + 1)
    }
    assert len(row) == len(beginnings)
