"""The ablation of hard negatives beside figures that scikit-learn and plain fractions give."""

from dataclasses import replace
from fractions import Fraction

import polars as pl
import pytest
from sklearn.metrics import roc_auc_score

from cpmi_dagster.answers.comparison import Comparison
from cpmi_dagster.reports.inputs import ReportInputs, figure_frame
from cpmi_dagster.reports.quality import measure_negatives_ablation

CORRECT = [[True, True, False], [True, False, False], [False, True, False], [True, True, True]]
CPMI = [[0.9, 0.2, -3.0], [0.1, 0.3, -2.0], [-0.4, 0.5, -1.0], [0.0, 0.6, 0.8]]
GOLD, FINAL = ["18", "1/2", "7", "3"], ["20", "0.75", None, "3.0"]
# t0 and t1 are wrong, t2 states no answer, t3 is right
NEGATIVES = [["17", "20.0"], ["1/4", "3/4"], ["6"], ["4"]]
NAMES = [f"t{number}" for number in range(4)]


def by_trajectory(column: str, values: list[list], place: str) -> pl.DataFrame:
    frame = pl.DataFrame({"trajectory_id": NAMES, column: values}, strict=False)
    return frame.with_columns(pl.int_ranges(pl.col(column).list.len()).alias(place)).explode(column, place)


@pytest.fixture
def inputs() -> ReportInputs:
    rewards = by_trajectory("reward", CPMI, "step_index").with_columns(reward_type=pl.lit("cpmi"))
    trajectories = {
        "trajectory_id": NAMES, "question_id": ["q0", "q0", "q1", "q2"], "row_number": range(4), "gold_answer": GOLD,
        "final_answer": FINAL, "steps": [["s"] * 3] * 4, "shepherd_labels": CORRECT,
    }  # fmt: skip
    return ReportInputs(
        {
            "labels/step_rewards": rewards,
            "alignment/trajectories": pl.DataFrame(trajectories),
            "sources/step_truth": pl.DataFrame({"row_number": range(4), "correct": CORRECT}),
            "labels/hard_negatives": by_trajectory("answer", NEGATIVES, "rank"),
        },
        bootstrap_samples=20,
    )


def figures(inputs: ReportInputs) -> dict[tuple[str, str], float]:
    rows = figure_frame(measure_negatives_ablation(inputs)).select("row", "column", "measured").iter_rows()
    return {(row, column): measured for row, column, measured in rows}


def test_aucs_with_and_without_last_steps_are_those_of_scikit_learn(inputs):
    found = figures(inputs)
    for column, last in (("Label AUC", 3), ("Without last steps", 2)):
        right, values = ([step for own in lists for step in own[:last]] for lists in (CORRECT, CPMI))
        assert found["M = 4", column] == pytest.approx(roc_auc_score(right, values))


def test_the_share_of_own_wrong_answers_is_that_of_plain_fractions(inputs):
    found = figures(inputs)
    own = [
        any(Fraction(answer) == Fraction(final) for answer in wrong)
        for gold, final, wrong in zip(GOLD, FINAL, NEGATIVES, strict=True)
        if final is not None and Fraction(final) != Fraction(gold)
    ]
    assert found["M = 4", "Own answer among them (%)"] == pytest.approx(100 * sum(own) / len(own))


def test_answers_are_compared_as_the_profile_says(inputs):
    literal = Comparison("own:same", lambda gold, candidate: gold == candidate)
    found = figures(replace(inputs, comparison=literal))
    assert found["M = 4", "Own answer among them (%)"] == 0
