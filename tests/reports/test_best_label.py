"""A label beside the best of several: chosen on other questions, so that luck in choosing favours neither."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.benchmarks.label_quality import label_aucs
from cpmi_dagster.benchmarks.resampling import Estimate
from cpmi_dagster.reports.best_label import FREE_LABELS, Folds, best_free
from cpmi_dagster.rewards.registry import reward_label


def judged(solutions: int, rng: np.random.Generator, **quality: float) -> pl.DataFrame:
    """Steps of solutions, half of them with an error at a random step; labels are noise, raised where steps are right.

    Args:
        quality: standard deviations by which a label is higher on right steps.
    """
    count, places = 4, np.tile(np.arange(4), solutions)
    owner, first = np.repeat(np.arange(solutions), count), rng.integers(0, count, solutions)
    has_error = np.arange(solutions) % 2 == 0
    correct = ~(has_error[owner] & (places >= first[owner]))
    names = [f"t{number:04}" for number in owner]
    steps = pl.DataFrame({"trajectory_id": names, "question_id": names, "step_index": places, "correct": correct})
    return pl.concat(
        steps.with_columns(reward_type=pl.lit(name), reward=pl.Series(raised * correct + rng.normal(size=len(correct))))
        for name, raised in quality.items()
    )


def difference(steps: pl.DataFrame, samples: int = 100, seed: int = 0) -> Estimate:
    both = Folds.of(steps, label_aucs, samples, seed).compare(["cpmi"], FREE_LABELS)
    assert both is not None
    return both[0].minus(both[1])


def test_a_label_as_good_as_the_free_ones_is_seldom_called_worse_or_better():
    """Of 200 made-up worlds with four free labels, all labels alike; chosen on the same questions, 20 say worse."""
    rng, worse, better = np.random.default_rng(0), 0, 0
    for seed in range(200):
        figure = difference(judged(50, rng, cpmi=0.5, **dict.fromkeys(FREE_LABELS, 0.5)), seed=seed)
        assert figure.low is not None and figure.high is not None
        worse, better = worse + (figure.high < 0), better + (figure.low > 0)
    assert max(worse, better) <= 11, (worse, better)


@pytest.mark.parametrize(("quality", "sign"), [(2.0, 1), (0.0, -1)])
def test_a_label_that_is_better_or_worse_than_the_best_free_one_is_seen(quality, sign):
    figure = difference(judged(60, np.random.default_rng(1), cpmi=quality, position=0.7, step_length=0.3))
    assert figure.low is not None and figure.high is not None
    assert min(sign * figure.low, sign * figure.high) > 0
    assert figure.n == 240, "every question is measured"


def test_the_free_label_of_a_fold_is_the_best_of_the_fold_before():
    steps = judged(60, np.random.default_rng(2), cpmi=1.0, position=0.5, step_length=0.5)
    folds = Folds.of(steps, label_aucs, 20, 0)
    both = folds.compare(["cpmi"], FREE_LABELS)
    expected = [
        figures[best].value * figures[best].n
        for number, figures in enumerate(folds.figures)
        if (best := best_free(folds.figures[number - 1]))
    ]
    assert both and both[1].value == pytest.approx(sum(expected) / 240)
    assert sorted(pl.concat(folds.steps)["question_id"].unique()) == sorted(steps["question_id"].unique())
    assert [fold["correct"].all() for fold in folds.steps] == [False] * 3


def test_without_a_wrong_step_in_each_fold_there_is_no_difference():
    steps = judged(4, np.random.default_rng(0), cpmi=1.0, position=0.5)
    assert Folds.of(steps, label_aucs, 20, 0).compare(["cpmi"], FREE_LABELS) is None


@given(st.dictionaries(st.sampled_from([*FREE_LABELS, "cpmi", "uniform"]), st.sampled_from([0.4, 0.5])))
def test_of_equally_good_free_labels_the_first_in_tables_is_named_by_type_and_by_row(values):
    figures = {name: Estimate(value) for name, value in values.items()}
    best = best_free(figures)
    assert best == next((name for name in FREE_LABELS if values.get(name) == 0.5), None) or 0.5 not in [
        values.get(name) for name in FREE_LABELS
    ]
    rows = {reward_label(name): figure for name, figure in reversed(figures.items())}
    assert best_free(rows) == (best and reward_label(best))
