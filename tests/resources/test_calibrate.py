"""One label from several: what the regression gains, and whose probabilities the steps get."""

import json

import numpy as np
import polars as pl
import pytest

from cpmi_dagster.errors import BenchmarkError, UsageError
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.commands.calibrate import calibrate, combined, write_labels

NAMES = ["one", "other"]


def labelled(solutions: int, seed: int = 0) -> pl.DataFrame:
    """Rows of `labelled_steps`: three steps a solution, of which each label sees half of what makes them right."""
    drawn = np.random.default_rng(seed)
    signals = drawn.normal(size=(3 * solutions, 2))
    correct = signals.sum(1) + drawn.normal(size=len(signals)) > 0
    frames = [
        pl.DataFrame(
            {
                "reward_type": name,
                "trajectory_id": [f"t{place // 3:03}" for place in range(len(signals))],
                "question_id": [f"q{place // 3:03}" for place in range(len(signals))],
                "step_index": [place % 3 for place in range(len(signals))],
                "step_count": 3,
                "correct": correct,
                "reward": signals[:, column],
            }
        )
        for column, name in enumerate(NAMES)
    ]
    return pl.concat(frames)


def odds_by_hand(steps: pl.DataFrame, weights: dict[str, float]) -> np.ndarray:
    """Log-odds without the intercept, from labels scaled to a standard deviation of 1."""
    wide = steps.pivot("reward_type", index=["trajectory_id", "step_index"], values="reward")
    scaled = {name: (wide[name] - wide[name].mean()) / wide[name].std(ddof=0) for name in NAMES}
    return sum(weights[name] * scaled[name].to_numpy() for name in NAMES)


def test_labels_that_see_different_things_rank_better_together():
    steps = labelled(200)
    made = combined(steps, steps, NAMES, 200, 0, is_judged=False)
    assert made.solutions == 200
    assert made.gain.low > 0 and made.together.value > max(auc.value for auc in made.alone.values())
    # both count alike, and the last steps are in no figure
    assert made.coefficients["one"] == pytest.approx(made.coefficients["other"], rel=0.25)
    assert made.together.n == 400


def test_solutions_of_a_few_questions_say_nothing_of_the_gain():
    steps = labelled(90).with_columns(pl.format("q{}", pl.col("trajectory_id").str.tail(1)).alias("question_id"))
    made = combined(steps.filter(pl.col("question_id") != "q9"), steps, NAMES, 20, 0, is_judged=False)
    assert (made.gain.low, made.gain.high, made.gain.p_value) == (None, None, None)
    assert all(text.endswith(" too few (9 questions)") for text in made.table["AUC, without last steps"])


def test_steps_of_another_profile_get_what_the_coefficients_say():
    steps = labelled(100)
    made = combined(steps, steps, NAMES, 20, 0, is_judged=False)
    odds = np.log(made.probabilities["reward"] / (1 - made.probabilities["reward"])).to_numpy()
    intercepts = odds - odds_by_hand(steps, made.coefficients)
    assert intercepts == pytest.approx(np.full(len(odds), intercepts[0]), abs=1e-9)


def test_a_judged_step_has_its_probability_by_a_regression_on_other_questions():
    steps = labelled(60)
    whole, own = (combined(steps, steps, NAMES, 20, 0, is_judged=judged).probabilities for judged in (False, True))
    assert whole.select("trajectory_id", "step_index").equals(own.select("trajectory_id", "step_index"))
    apart = (whole["reward"] - own["reward"]).abs()
    assert apart.min() > 0 and apart.max() < 0.2
    # a question whose truth is turned round changes the regressions of the others, not its own
    turned = steps.with_columns(pl.col("correct") ^ (pl.col("question_id") == "q000"))
    of_turned = combined(turned, turned, NAMES, 20, 0, is_judged=True).probabilities
    same = of_turned["reward"] == own["reward"]
    assert same.filter(own["trajectory_id"] == "t000").all() and not same.all()


def test_too_few_judged_solutions_are_refused():
    steps = labelled(49)
    with pytest.raises(BenchmarkError, match=r"49 judged solutions .* judge 1 more"):
        combined(steps, steps, NAMES, 20, 0, is_judged=True)


def test_labels_are_refused_where_they_are_one_or_missing(tmp_path):
    settings = load_settings("miniature", tmp_path)
    with pytest.raises(UsageError, match="two"):
        calibrate(settings, ["cpmi"], settings)
    with pytest.raises(BenchmarkError, match="`cpmi, uniform`"):
        calibrate(settings, ["uniform", "cpmi"], settings)


def test_the_file_has_a_row_a_trajectory_with_a_probability_a_step(tmp_path):
    steps = labelled(50)
    made = combined(steps, steps, NAMES, 20, 0, is_judged=True)
    assert write_labels(made.probabilities, tmp_path / "labels.jsonl") == 50
    first, *_ = map(json.loads, (tmp_path / "labels.jsonl").read_text().splitlines())
    assert first == {"trajectory_id": "t000", "rewards": made.probabilities["reward"].to_list()[:3]}


@pytest.mark.parametrize(("free", "advised"), [(0.0, "one"), (5.0, "step_length")])
def test_a_combination_that_gains_nothing_names_the_label_to_use_alone(free, advised):
    """`other` says nothing; step length costs nothing and is as good as the truth, or says nothing either."""
    steps = labelled(120)
    noise = np.random.default_rng(1).normal(size=steps.height)
    is_one, truth = pl.col("reward_type") == "one", pl.col("correct").cast(pl.Float64)
    nothing = pl.Series("noise", noise)
    steps = steps.with_columns(nothing).with_columns(
        reward=pl.when(is_one).then(truth * 2 + pl.col("noise")).otherwise("noise")
    )
    length = steps.filter(is_one).with_columns(
        reward_type=pl.lit("step_length"), reward=truth * free + pl.Series(np.random.default_rng(2).normal(size=360))
    )
    made = combined(pl.concat([steps, length]), steps, NAMES, 100, 0, is_judged=False)
    assert made.instead == advised and made.gain.low <= 0 and f"({advised}) alone." in made.advice
    assert combined(labelled(200), labelled(200), NAMES, 200, 0, is_judged=False).instead == ""
