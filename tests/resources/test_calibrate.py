"""One label from several: what the regression gains, and whose probabilities the steps get."""

import numpy as np
import polars as pl
import pytest

from cpmi_dagster.errors import BenchmarkError
from cpmi_dagster.resources.commands.calibrate import Calibration, combined

NAMES = ["one", "other"]


def labelled(solutions: int) -> pl.DataFrame:
    """Rows of `labelled_steps`: three steps a solution; each label sees half of what makes a step right."""
    drawn = np.random.default_rng(0)
    signals = drawn.normal(size=(3 * solutions, 2))
    places = range(3 * solutions)
    steps = pl.DataFrame(
        {
            "trajectory_id": [f"t{place // 3:03}" for place in places],
            "question_id": [f"q{place // 3:03}" for place in places],
            "step_index": [place % 3 for place in places],
            "correct": signals.sum(1) + drawn.normal(size=len(signals)) > 0,
            **dict(zip(NAMES, signals.T, strict=True)),
        }
    ).with_columns(step_count=3)
    index = [name for name in steps.columns if name not in NAMES]
    return steps.unpivot(NAMES, index=index, variable_name="reward_type", value_name="reward")


def fit(steps: pl.DataFrame, is_judged: bool = False) -> Calibration:
    return combined(steps, steps, NAMES, 100, 0, is_judged)


def test_labels_that_see_different_things_rank_better_together():
    fitted = fit(labelled(200))
    assert fitted.gain.low > 0 and fitted.together.value > max(auc.value for auc in fitted.alone.values())
    assert fitted.coefficients["one"] == pytest.approx(fitted.coefficients["other"], rel=0.25)
    assert (fitted.solutions, fitted.instead) == (200, "")
    assert fitted.together.n == 400, "last steps are in no figure"


def test_a_judged_step_has_its_probability_by_a_regression_on_other_questions():
    steps = labelled(60)
    turned = steps.with_columns(pl.col("correct") ^ (pl.col("question_id") == "q000"))
    same = fit(steps, True).probabilities["reward"] == fit(turned, True).probabilities["reward"]
    is_turned = fit(steps).probabilities["trajectory_id"] == "t000"
    assert same.filter(is_turned).all() and not same.filter(~is_turned).all()


def test_too_few_judged_solutions_are_refused():
    with pytest.raises(BenchmarkError, match=r"49 judged solutions .* judge 1 more"):
        fit(labelled(49))


@pytest.mark.parametrize(("truth", "advised"), [(0.0, "one"), (5.0, "step_length")])
def test_a_combination_that_gains_nothing_names_the_label_to_use_alone(truth, advised):
    """`other` is noise; step length costs nothing, and is noise too or as good as the truth."""
    steps, drawn = labelled(120), np.random.default_rng(1)
    is_one, correct = pl.col("reward_type") == "one", pl.col("correct").cast(pl.Float64)
    noise = pl.Series(drawn.normal(size=steps.height))
    steps = steps.with_columns(reward=noise + pl.when(is_one).then(2 * correct).otherwise(0.0))
    length = pl.Series(drawn.normal(size=steps.height // 2)) + truth * correct
    free = steps.filter(is_one).with_columns(reward_type=pl.lit("step_length"), reward=length)
    fitted = combined(pl.concat([steps, free]), steps, NAMES, 100, 0, is_judged=False)
    assert fitted.instead == advised and fitted.gain.low <= 0 and f"({advised}) alone." in fitted.advice
