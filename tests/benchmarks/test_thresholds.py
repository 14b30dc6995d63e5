"""Counts below thresholds by following the words, and who chooses among how many of them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.benchmarks.resampling import question_weights
from cpmi_dagster.benchmarks.thresholds import Chosen, Tally, totals_at

QUESTIONS, CELLS = 3, 2
valued = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, CELLS - 1), st.integers(0, QUESTIONS - 1)), min_size=1, max_size=30
)


def tally_of(rows: list[tuple[int, int, int]]) -> Tally:
    """Of (value, cell, question), each adding 1."""
    values, cells, questions = (np.array(column) for column in zip(*rows, strict=True))
    return Tally(values.astype(np.float64), np.ones(len(rows)), cells, questions, (QUESTIONS, CELLS))


def counted(rows: list[tuple[int, int, int]], threshold: float, weights: np.ndarray) -> list[float]:
    """By following the words."""
    return [sum(weights[q] for value, at, q in rows if at == cell and value < threshold) for cell in range(CELLS)]


@settings(deadline=None, max_examples=50)
@given(valued, st.integers(0, 4))
def test_what_lies_below_is_counted_as_often_as_its_question_is_drawn(rows, samples):
    weights, thresholds = question_weights(QUESTIONS, samples, seed=1), np.array([0.0, 2.5, 4.0, 8.5, np.inf])
    below = tally_of(rows).below(thresholds, weights)
    for drawn, of_row in zip(weights, below, strict=True):
        assert of_row.tolist() == [counted(rows, threshold, drawn) for threshold in thresholds]
    own = np.resize(thresholds, len(weights))
    at = totals_at([tally_of(rows)], Chosen(np.zeros(len(weights), dtype=int), own), weights)
    assert at.tolist() == [counted(rows, *each) for each in zip(own, weights, strict=True)]
