"""Weights of the first error from judged solutions: what they gain, what is said of it, and what is refused."""

import numpy as np
import polars as pl
import pytest

from cpmi_dagster.benchmarks.label_quality import labelled_steps
from cpmi_dagster.errors import BenchmarkError, UsageError
from cpmi_dagster.resources.commands.calibrate import (
    Calibration,
    check_judged,
    fitted_weights,
    judged_solutions,
    labels_to_read,
    measured,
    write_weights,
)
from cpmi_dagster.rewards.first_error import first_error
from cpmi_dagster.rewards.hazard import read_weights, shipped_weights
from cpmi_dagster.rewards.reward_type import LabelInputs
from cpmi_dagster.rewards.step_rewards import step_rewards

SURPRISAL = "step_surprisal"


def world(solutions: int, seed: int = 0, slope: float = -3.0) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Trajectories, rewards and truth: a step is wrong with log-odds -2 + slope * its surprisal."""
    random = np.random.default_rng(seed)
    rows, rewards, truth = [], [], []
    for number in range(solutions):
        name, values = f"t{number:09}", random.normal(size=int(random.integers(2, 8)))
        wrong = random.random(len(values)) < 1 / (1 + np.exp(2 - slope * values))
        first = int(wrong.argmax()) if wrong.any() else len(values)
        correct = [None if step > first else step != first for step in range(len(values))]
        steps = ["x" * int(size) for size in random.integers(20, 200, len(values))]
        rows.append((name, number, f"q{number}", f"Question {number}?", steps, "1", "2" if wrong.any() else "1", None))
        rewards += [(name, step, SURPRISAL, float(value)) for step, value in enumerate(values)]
        truth.append((number, correct))
    columns = ("trajectory_id", "row_number", "question_id", "question", "steps", "gold_answer", "final_answer")
    trajectories = pl.DataFrame(rows, (*columns, "shepherd_labels"), orient="row", infer_schema_length=None)
    trajectories = trajectories.with_columns(pl.col("shepherd_labels").cast(pl.List(pl.Boolean)))
    labels = pl.DataFrame(rewards, ("trajectory_id", "step_index", "reward_type", "reward"), orient="row")
    lengths = step_rewards(LabelInputs(trajectories), ["step_length"])
    return (
        trajectories,
        pl.concat([labels.cast(lengths.schema), lengths]),
        pl.DataFrame(truth, ("row_number", "correct"), orient="row"),
    )


def calibration(*tables: pl.DataFrame) -> Calibration:
    trajectories, rewards, truth = tables
    judged = judged_solutions(LabelInputs(trajectories), truth, rewards)
    check_judged(judged, "mine")
    weights = fitted_weights(judged, [SURPRISAL], "mine")
    return measured(weights, judged, labelled_steps(rewards, trajectories, truth), 100, 0)


def test_weights_fitted_where_another_label_tells_find_more_first_errors_than_those_that_ship():
    made = calibration(*world(300))
    assert made.gains["shipped"].low > 0 and made.gains["single"].value > -0.05
    assert made.figures["fitted"].found.value > made.figures["shipped"].found.value
    assert made.brier[0] < min(made.brier[1:])
    assert "beyond the weights that ship" in made.advice and "right_so_far is calibrated" in made.advice
    assert made.weights.is_calibrated and not shipped_weights().is_calibrated


def test_a_label_that_no_shipped_weights_read_is_read_beside_those_that_they_do():
    trajectories, rewards, truth = world(120)
    shares = rewards.filter(reward_type=SURPRISAL).with_columns(
        reward_type=pl.lit("mc"), reward=1 / (1 + (-pl.col("reward")).exp())
    )
    both = pl.concat([rewards, shares])
    judged = judged_solutions(LabelInputs(trajectories), truth, both)
    weights = fitted_weights(judged, [SURPRISAL, "mc"], "mine")
    assert {"mc", "z_mc"} <= {*weights.fits[0].features}
    sampled = pl.concat([rewards, shares.filter(pl.col("trajectory_id") < "t000000060")])
    some = fitted_weights(judged_solutions(LabelInputs(trajectories), truth, sampled), [SURPRISAL, "mc"], "mine")
    sets = [[SURPRISAL, "mc"], [SURPRISAL], []]
    read = [set(fit.labels) for fit in some.fits]
    assert read == [{"final_answer", *each} for each in sets] + [set(each) for each in sets], "by what solutions have"
    assert measured(weights, judged, labelled_steps(both, trajectories, truth), 100, 0).gains["shipped"].value > 0


def test_few_solutions_give_weights_and_no_figure_that_they_cannot_bear():
    made = calibration(*world(24, seed=3))
    wrong = sum(figure.found is not None for figure in made.figures.values())
    assert wrong in (0, len(made.figures))
    assert "cannot be told" in made.advice or "not shown" in made.advice


@pytest.mark.parametrize("labelled", [range(40), range(60, 100)])
def test_figures_are_of_all_judged_solutions_whichever_of_them_a_label_lacks(labelled):
    trajectories, rewards, truth = world(100)
    names = [f"t{number:09}" for number in labelled]
    kept = rewards.filter((pl.col("reward_type") != SURPRISAL) | pl.col("trajectory_id").is_in(names))
    made = calibration(trajectories, kept, truth)
    wrong = sum(False in correct for correct in truth["correct"].to_list())
    assert made.figures["fitted"].found.n == made.figures["shipped"].found.n == wrong


def test_written_weights_are_read_again_and_give_the_rewards_that_were_measured(tmp_path):
    trajectories, rewards, truth = world(60)
    made = calibration(trajectories, rewards, truth)
    write_weights(made.weights, tmp_path / "first_error.yaml")
    weights = read_weights(tmp_path / "first_error.yaml")
    assert weights == made.weights and weights.is_calibrated
    write_weights(made.weights, tmp_path / "first_error.yaml")
    (tmp_path / "mine.yaml").write_text("profile: mine\n")
    with pytest.raises(UsageError, match=r"mine\.yaml is there, and is no file of weights"):
        write_weights(made.weights, tmp_path / "mine.yaml")
    own, shipped = (LabelInputs(trajectories, labels=rewards, weights=each) for each in (weights, shipped_weights()))
    assert not first_error(own).equals(first_error(shipped))


def test_too_few_judged_solutions_and_one_sided_ones_are_refused():
    with pytest.raises(BenchmarkError, match=r"19 judged solutions .* judge 1 more"):
        calibration(*world(19))
    trajectories, rewards, truth = world(30)
    right = pl.DataFrame(
        {"row_number": truth["row_number"], "correct": [[True] * len(steps) for steps in trajectories["steps"]]}
    )
    with pytest.raises(BenchmarkError, match=r"all 30 judged solutions .* are right"):
        calibration(trajectories, rewards, right)


def test_judged_solutions_of_one_question_are_refused():
    trajectories, rewards, truth = world(24, seed=3)
    with pytest.raises(BenchmarkError, match=r"24 judged solutions .* are of too few questions"):
        calibration(trajectories.with_columns(question=pl.lit("Which?")), rewards, truth)


def test_a_file_that_the_judged_solutions_are_not_read_by_is_not_called_calibrated():
    trajectories, rewards, truth = world(300)
    stated = pl.when(pl.col("row_number") < 19).then("final_answer")
    made = calibration(trajectories.with_columns(final_answer=stated), rewards, truth)
    assert made.brier[0] < min(made.brier[1:])
    assert made.read == 281 and not made.weights.is_calibrated
    assert "They read 281 of the 300 judged solutions" in made.advice


def test_cpmi_under_another_conditioning_than_the_papers_is_read_by_no_fit():
    types = ["cpmi", SURPRISAL, "step_length"]
    assert labels_to_read(None, types, "marginal", "mine") == [SURPRISAL, "cpmi"]
    assert labels_to_read(None, types, "full", "mine") == [SURPRISAL]
    with pytest.raises(UsageError, match="under the conditioning marginal of the paper alone, and that of"):
        labels_to_read(["cpmi"], types, "full", "mine")
