"""Metrics against hand-computed values, scikit-learn and scipy; intervals against what they must do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance
from sklearn.metrics import accuracy_score, cohen_kappa_score, f1_score, roc_auc_score

from cpmi_dagster.benchmarks.metrics import agreement, bootstrap_auc, bootstrap_wasserstein
from cpmi_dagster.benchmarks.prmbench import f1_of_counts
from cpmi_dagster.benchmarks.resampling import (
    FEWEST_UNITS,
    Estimate,
    bootstrap,
    group_numbers,
    holm,
    question_weights,
    share_lacking,
)

few = settings(max_examples=25, deadline=None)
scored_steps = st.lists(
    st.tuples(st.integers(0, 8).map(lambda n: n / 8), st.booleans()), min_size=2, max_size=40
).filter(lambda steps: len({correct for _, correct in steps}) == 2)


def figures(scores, correct):
    """AUC and distance."""
    return [
        figure(scores, correct, range(len(scores)), 0, 0).value for figure in (bootstrap_auc, bootstrap_wasserstein)
    ]


def columns(steps):
    return np.array([score for score, _ in steps]), np.array([correct for _, correct in steps])


@few
@given(scored_steps)
def test_auc_and_wasserstein_equal_those_of_scikit_learn_and_scipy(steps):
    scores, correct = columns(steps)
    expected = [roc_auc_score(correct, scores), wasserstein_distance(scores[correct], scores[~correct])]
    assert figures(scores, correct) == pytest.approx(expected)


@few
@given(scored_steps, st.data())
def test_resampling_an_auc_equals_repeating_each_step_as_often_as_its_question_is_drawn(steps, data):
    scores, correct = columns(steps)
    groups = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(steps), max_size=len(steps))))
    numbers = group_numbers(groups)
    aucs = bootstrap_auc(scores, correct, groups, samples=5, seed=1).draws
    distances = bootstrap_wasserstein(scores, correct, groups, samples=5, seed=1).draws
    drawn = question_weights(numbers.max() + 1, 5, seed=1)[1:]
    for counts, auc, distance in zip(drawn, aucs, distances, strict=True):
        times = counts[numbers].astype(int)
        repeated, truth = np.repeat(scores, times), np.repeat(correct, times)
        if truth.all() or not truth.any():
            assert np.isnan(auc)
        else:
            assert auc == pytest.approx(roc_auc_score(truth, repeated))
            assert distance == pytest.approx(wasserstein_distance(repeated[truth], repeated[~truth]))


@few
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1))
def test_f1_of_counts_equals_scikit_learn(pairs):
    truth, judged = (np.array(side) for side in zip(*pairs, strict=True))
    hits, false_alarms, misses = (truth & judged).sum(), (~truth & judged).sum(), (truth & ~judged).sum()
    expected = f1_score(truth, judged) if hits else 0.0
    assert float(f1_of_counts(hits, false_alarms, misses)) == pytest.approx(expected)


def test_where_two_kinds_are_compared_the_questions_with_the_rarer_one_count():
    scores, asked = np.random.default_rng(0).random(200), np.arange(200) % 50
    for wrong, units in ((9, 9), (12, 12)):
        auc = bootstrap_auc(scores, asked >= wrong, asked, 50, 0).estimate()
        assert (auc.units, auc.low is None) == (units, units < FEWEST_UNITS)
    without_pairs = np.arange(50) >= 2
    assert bootstrap(1.0 - without_pairs[:, None], lambda totals: totals[..., 0], 50, 0).units == 2


def test_holms_p_values_are_those_of_the_textbook():
    """The four hypotheses of Wikipedia's article on the method, as R's `p.adjust` has them."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
    assert holm([0.01, None, 0.04]) == [pytest.approx(0.02), None, pytest.approx(0.04)]


@few
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=40))
def test_agreement_of_two_people_is_that_of_scikit_learn(judged):
    one, other = (list(said) for said in zip(*judged, strict=True))
    found = agreement(one, other, range(len(one)), samples=10, seed=0)
    assert found.alike.value == pytest.approx(accuracy_score(one, other))
    if len({*one, *other}) > 1:
        assert found.kappa and found.kappa.value == pytest.approx(cohen_kappa_score(one, other))


def test_a_quarter_of_the_width_takes_sixteen_times_what_is_judged():
    assert share_lacking(Estimate(0.7, 0.5, 0.9, n=50)) == pytest.approx(15)
    assert share_lacking(Estimate(0.7, 0.66, 0.74, n=50)) == 0
