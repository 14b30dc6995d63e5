"""Resamples of questions with a choice made in each, and p-values of many tests."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.benchmarks.resampling import bootstrap, choose_anew, holm, question_weights, sums_by_choice


def test_holms_p_values_are_those_of_the_textbook():
    """The four hypotheses of Wikipedia's article on the method, as R's `p.adjust` has them."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holms_p_values_keep_their_order_and_lie_between_the_plain_and_bonferronis(p_values: list[float]):
    adjusted = np.array(holm(p_values))
    assert (adjusted >= p_values).all()
    assert (adjusted <= np.minimum(1, len(p_values) * np.array(p_values))).all()
    assert (np.diff(adjusted[np.argsort(p_values)]) >= 0).all()


def test_weights_are_the_resamples_of_the_bootstrap_behind_all_questions_once():
    values = np.array([3.0, 1.0, 4.0, 1.0])
    weights = question_weights(4, samples=7, seed=2)
    assert weights[0].tolist() == [1, 1, 1, 1]
    assert (weights @ values)[1:].tolist() == bootstrap(values, lambda sums: sums[..., 0], 7, 2).draws.tolist()


def test_each_row_is_summed_by_its_own_choice():
    weights, choices = np.array([[1.0, 1.0], [0.0, 2.0], [2.0, 0.0]]), np.array([0, 1, 1])
    sums = [np.array([[1.0], [0.0]]), np.array([[0.0], [5.0]])]
    assert sums_by_choice(weights, choices, sums.__getitem__).tolist() == [[1], [10], [0]]


def test_all_questions_choose_among_all_rules_and_resamples_among_evenly_spread_ones():
    asked = []

    def choose(rules, weights):
        asked.append((len(rules), len(weights)))
        return np.full(len(weights), len(rules) - 1)

    chosen = choose_anew(5000, question_weights(3, samples=4, seed=0), choose)
    assert asked == [(5000, 1), (250, 4)]
    assert chosen.tolist() == [4999] * 5
