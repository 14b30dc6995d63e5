"""What is said of labels without step truth: shares, AUCs, correlations and suspicious steps, counted by hand."""

import math

import polars as pl
import pytest
from scipy import stats

from cpmi_dagster.benchmarks.label_quality import FEWEST_OF_EACH
from cpmi_dagster.contracts.tables import AnswerLogprobs
from cpmi_dagster.reports.figures import ReportInputs, figure_frame
from cpmi_dagster.reports.label_trust import judged_wrong, measure_label_trust, suspicious_steps

FINALS = {"t0": "7", "t1": "8", "t2": "7.0", "t3": "9", "t4": None}
QUESTIONS = {"t0": "q0", "t1": "q0", "t2": "q1", "t3": "q1", "t4": "q2"}
KNOWN = {"t0": 0.5, "t1": 0.5, "t2": 0.99, "t3": 0.95, "t4": 0.01}
REWARDS = {
    "cpmi": {"t0": [3, 1, -4], "t1": [0, 2, 4], "t2": [1, 1, 4], "t3": [-3, 0, 3], "t4": [-9, 5, 5]},
    "step_surprisal": {"t0": [-1, -2, 0], "t1": [-9, -3, 0], "t2": [-4, -5, 0], "t3": [-6, -7, 0], "t4": [-8, -0.5, 0]},
    "final_answer": {"t0": [1] * 3, "t1": [0] * 3, "t2": [1] * 3, "t3": [0] * 3, "t4": [0] * 3},
    "uniform": {"t0": [0.5] * 3},
}


def inputs(**changed: object) -> ReportInputs:
    trajectories = pl.DataFrame(
        {
            "trajectory_id": list(FINALS),
            "source_id": [None, "mine 1", *[None] * 3],
            "question_id": list(QUESTIONS.values()),
            "question": [f"Question of {name}?" for name in FINALS],
            "steps": [[f"{name} says <{step}>." for step in range(3)] for name in FINALS],
            "final_answer": list(FINALS.values()),
            "gold_answer": ["7"] * len(FINALS),
            "row_number": range(len(FINALS)),
            "shepherd_labels": pl.Series([None] * len(FINALS), dtype=pl.List(pl.Boolean)),
        }
    )
    rewards = [
        {"trajectory_id": name, "step_index": step, "reward_type": reward_type, "reward": float(reward)}
        for reward_type, by_solution in REWARDS.items()
        for name, own in by_solution.items()
        for step, reward in enumerate(own)
    ]
    logprobs = [
        (name, 0, "question", -1, rank, math.log(share), 1)
        for name, known in KNOWN.items()
        for rank, share in enumerate((known, 1 - known))
    ]
    frames = {
        "alignment/trajectories": trajectories,
        "labels/step_rewards": pl.DataFrame(rewards),
        "labels/answer_logprobs": AnswerLogprobs.cast(
            pl.DataFrame(logprobs, schema=AnswerLogprobs.column_names(), orient="row")
        ),
    }
    return ReportInputs(frames | changed, bootstrap_samples=200, fewest_judged=FEWEST_OF_EACH)


def judged(*correct: list[bool | None]) -> dict[str, pl.DataFrame]:
    """A truth of the first solutions."""
    truth = {"row_number": range(len(correct)), "correct": correct}
    return {"sources/step_truth": pl.DataFrame(truth, schema={"row_number": pl.Int64, "correct": pl.List(pl.Boolean)})}


def cells(prefix: str) -> dict[tuple[str, str], float]:
    table = figure_frame(measure_label_trust(inputs())).filter(pl.col("row").str.starts_with(f"{prefix}: "))
    rows = table.select(pl.col("row").str.strip_prefix(f"{prefix}: "), "column", "measured").iter_rows()
    return {(row, column): value for row, column, value in rows}


def test_questions_are_shared_out_by_what_the_labeler_knows_of_them():
    """q0 is half known, q1 already (0.97 as mean of its solutions), q2 too little."""
    assert list(cells("Knowledge").values()) == pytest.approx([1 / 3] * 3)
    assert [row for row, _ in cells("Knowledge")] == ["Too little, to 0.05", "Half, 0.05 to 0.95", "Already, from 0.95"]


def test_labels_rank_solutions_by_their_final_answers_and_those_that_state_none_are_left_out():
    """Means of t0 and t2 (right) are 0 and 2, of t1 and t3 (wrong) 2 and 0; 2 and 1 against 1 and -1.5 without last."""
    aucs = cells("Final answers")
    assert aucs["CPMI", "Mean step"] == (0.5 + 0.5 + 0 + 1) / 4
    assert aucs["CPMI", "Mean step, without last steps"] == (1 + 1 + 0.5 + 1) / 4
    assert aucs["CPMI", "Lowest step"] == (0 + 0 + 1 + 1) / 4
    assert aucs["CPMI", "Lowest step, without last steps"] == 1
    assert aucs["Step surprisal", "Mean step"] == 1
    assert {row for row, _ in aucs} == {"CPMI", "Step surprisal"}  # the final answer itself is no label to ask


def test_agreement_is_spearmans_correlation_over_the_steps_that_both_have():
    alike = cells("Agreement")
    cpmi, surprisal = ([each for own in REWARDS[name].values() for each in own] for name in ("cpmi", "step_surprisal"))
    assert alike["Step surprisal", "CPMI"] == pytest.approx(stats.spearmanr(cpmi, surprisal).statistic)
    assert not any("Uniform random" in pair for pair in alike)  # it is the same at every step


def test_the_most_suspicious_steps_have_the_lowest_mean_rank_without_last_steps():
    """Of ten steps, by CPMI and surprisal: t4 0 has ranks 1 and 2, t3 0 has 2 and 5, t1 0 has 3.5 and 1."""
    worst = suspicious_steps(inputs())
    assert worst.height == 10 and worst.columns[5:] == ["cpmi", "step_surprisal"]
    assert worst.drop("source_id").head(2).rows() == [
        ("t4", 0, "Question of t4?", "t4 says <0>.", -9, -8), ("t1", 0, "Question of t1?", "t1 says <0>.", 0, -9),
    ]  # fmt: skip


def test_steps_to_look_at_first_are_those_of_the_lowest_first_error_if_the_profile_has_it():
    rewards = inputs().table("labels/step_rewards")
    chances = rewards.filter(reward_type="cpmi").with_columns(
        reward_type=pl.lit("first_error"), reward=pl.col("step_index") / 10 + (pl.col("trajectory_id") != "t2")
    )
    worst = suspicious_steps(inputs(**{"labels/step_rewards": pl.concat([rewards, chances])}))
    assert worst.columns[5:] == ["first_error"]
    assert worst.select("trajectory_id", "step_index").head(3).rows() == [("t2", 0), ("t2", 1), ("t0", 0)]


def test_steps_that_people_judged_wrong_have_the_place_of_each_label_and_those_that_labels_miss_come_first():
    """The lowest reward has place 1: of t0 [3, 1, -4] step 1 has place 2; of equal ones the earlier comes first."""
    wrong = judged_wrong(inputs(**judged([True, False, False], [False, True, True], [True, True, False], [True] * 3)))
    assert wrong.select("trajectory_id", "step_index", "cpmi", "step_surprisal").rows() == [
        ("t2", 2, "3 of 3", "3 of 3"), ("t0", 1, "2 of 3", "1 of 3"), ("t1", 0, "1 of 3", "1 of 3"),
    ]  # fmt: skip
    assert judged_wrong(inputs()).is_empty()


def test_solutions_that_labels_are_compared_on_and_judged_steps_are_counted():
    """t4 states no final answer, and t3 is not judged."""
    assert cells("Counts") == {
        ("Solutions by final answer", "Right"): 2, ("Solutions by final answer", "Wrong"): 2,
        ("Solutions by final answer", "Not known"): 1,
        ("Judged solutions", "Labelled"): 5, ("Judged solutions, Uniform random", "Labelled"): 1,
        ("Final answer before the last step", "Solutions"): 0,
    }  # fmt: skip
    counts = figure_frame(measure_label_trust(inputs(**judged([True, None, False], [False, False, None], [True] * 3))))
    assert counts.filter(row="Counts: Judged steps").select("column", "measured").rows() == [("Right", 4), ("Wrong", 3)]
    for row, expected in (
        ("Judged solutions", {"Labelled": 5, "Right": 1, "Wrong": 2}),
        ("Judged solutions, Uniform random", {"Labelled": 1, "Wrong": 1}),
    ):
        solutions = counts.filter(row=f"Counts: {row}").filter(pl.col("measured") > 0)
        assert dict(solutions.select("column", "measured").iter_rows()) == expected


def test_solutions_that_state_the_final_answer_before_the_last_step_are_counted():
    """t0 does, as `<think>` does; t1 states another answer first."""
    steps = [["2 + 5.", "So \\boxed{7}.\n</think>", "It is 7."], *[["The answer is: 6.", "4", "It is 8."]] * 4]
    trajectories = inputs().table("alignment/trajectories").with_columns(steps=pl.Series(steps))
    table = figure_frame(measure_label_trust(inputs(**{"alignment/trajectories": trajectories})))
    early = table.filter(row="Counts: Final answer before the last step").select("column", "measured", "n")
    assert early.rows() == [("Solutions", 1, 4)]


def test_solutions_that_a_pilot_has_left_are_counted_and_those_of_them_that_are_judged():
    pilot = pl.DataFrame({"trajectory_id": ["t0"], "step_index": [0], "reward_type": ["cpmi"], "reward": [1.0]})
    frames = {"labels/step_rewards": pilot, **judged([True, None, False], [False, False, None], [True] * 3)}
    counts = figure_frame(measure_label_trust(inputs(**frames))).filter(row="Counts: Solutions without labels")
    # of the four others, t3 and t4 are not judged
    assert dict(counts.select("column", "measured").iter_rows()) == {"Solutions": 4, "Judged": 2}
