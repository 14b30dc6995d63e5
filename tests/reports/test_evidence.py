"""The questions that were fixed beforehand, on labels whose answers are known."""

import numpy as np
import polars as pl
import pytest

from cpmi_dagster.contracts.tables import AnswerLogprobs
from cpmi_dagster.reports.evidence import ACROSS, APART, BY_KNOWLEDGE, OTHER, TO_MC, WITHIN, measure_evidence
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.reward_rows import METHOD

COUNT = 60
NAMES = [f"t{number:02}" for number in range(COUNT)]
STEPS = pl.DataFrame({"trajectory_id": NAMES}).join(pl.DataFrame({"step_index": [0, 1, 2]}), how="cross")


def inputs(**labels: np.ndarray) -> ReportInputs:
    """Solutions of three steps, the second of which is wrong in every other one; rewards [solutions, steps] by type."""
    trajectories = pl.DataFrame({
        "trajectory_id": NAMES,
        "question_id": NAMES,
        "row_number": range(COUNT),
        "steps": [["a", "b", "c"]] * COUNT,
        "shepherd_labels": pl.Series([None] * COUNT, dtype=pl.List(pl.Boolean)),
    })  # fmt: skip
    correct = [[True, number % 2 == 0, True] for number in range(COUNT)]
    rewards = pl.concat(
        STEPS.with_columns(reward_type=pl.lit(name), reward=pl.Series(values.reshape(-1)))
        for name, values in labels.items()
    )
    frames = {
        "labels/step_rewards": rewards,
        "alignment/trajectories": trajectories,
        "sources/step_truth": pl.DataFrame({"row_number": range(COUNT), "correct": correct}),
    }
    return ReportInputs(frames, bootstrap_samples=200)


ERRORS = np.array([[0.0, number % 2, 0.0] for number in range(COUNT)])
NOISE = np.random.default_rng(0).normal(size=(COUNT, 3))
LAST_IS_LOWEST = np.tile([2.0, 1.0, 0.0], (COUNT, 1))


def figures(table: pl.DataFrame, column: str) -> dict[str, float]:
    return dict(table.filter(column=column).select("row", "measured").iter_rows())


def test_labels_that_find_every_error_are_compared_with_the_free_label_that_finds_most():
    table = measure_evidence(
        inputs(cpmi=NOISE - 10 * ERRORS, position=LAST_IS_LOWEST, step_length=NOISE[:, ::-1].copy())
    )
    assert figures(table, METHOD)[WITHIN] == 1
    assert figures(table, OTHER)[WITHIN] == pytest.approx(1 / 3, abs=0.2)
    assert set(figures(table, METHOD)) == {WITHIN, ACROSS}
    assert table.filter(row=WITHIN)["n"].unique().to_list() == [COUNT // 2]


def test_a_difference_is_paired_and_the_primary_p_value_stands_alone():
    labels = NOISE - 10 * ERRORS
    table = measure_evidence(inputs(cpmi=labels, mc=labels, position=LAST_IS_LOWEST))
    assert figures(table, APART)[TO_MC] == 0
    assert set(figures(table, f"{APART} p")) == {WITHIN, ACROSS, TO_MC}
    adjusted = figures(table, f"{APART} p (Holm)")
    assert set(adjusted) == {ACROSS, TO_MC}
    assert adjusted[ACROSS] == pytest.approx(2 * figures(table, f"{APART} p")[ACROSS])


def test_labels_by_rollouts_of_some_solutions_are_compared_over_these():
    given = inputs(cpmi=NOISE, mc=NOISE - ERRORS, position=LAST_IS_LOWEST)
    rewards = given.frames["labels/step_rewards"]
    some = rewards.filter((pl.col("reward_type") != "mc") | pl.col("trajectory_id").is_in(NAMES[:20]))
    table = measure_evidence(ReportInputs({**given.frames, "labels/step_rewards": some}, bootstrap_samples=50))
    assert table.filter(row=TO_MC)["n"].unique().to_list() == [60]


def test_solutions_without_labels_of_the_method_enter_no_comparison():
    given = inputs(cpmi=NOISE, position=LAST_IS_LOWEST)
    rewards = given.frames["labels/step_rewards"]
    some = rewards.filter((pl.col("reward_type") != "cpmi") | (pl.col("trajectory_id") != NAMES[1]))
    table = measure_evidence(ReportInputs({**given.frames, "labels/step_rewards": some}, bootstrap_samples=50))
    assert table.filter(row=WITHIN)["n"].unique().to_list() == [COUNT // 2 - 1]


def test_the_best_free_label_is_chosen_anew_in_every_resample():
    """Two labels that find the errors of one half each: their better half is above one half in most resamples."""
    first = np.arange(COUNT)[:, None] < COUNT // 2
    position, length = (np.where(half, -ERRORS, ERRORS) for half in (first, ~first))
    table = measure_evidence(inputs(cpmi=NOISE, position=position, step_length=length))
    best = table.filter(row=WITHIN, column=OTHER).row(0, named=True)
    assert best["measured"] == 0.5
    assert best["low"] >= 0.5


def test_labels_work_better_where_the_labeler_knows_more():
    """Of every third question the labeler knows little, and its labels are noise there."""
    known = np.arange(COUNT) % 3
    rows = [
        (name, 0, "question", -1, rank, np.log(probability), 1)
        for name, third in zip(NAMES, known, strict=True)
        for rank, probability in enumerate([(0.1, 0.5, 0.9)[third], 0.5])
    ]
    logprobs = AnswerLogprobs.cast(pl.DataFrame(rows, schema=AnswerLogprobs.column_names(), orient="row"))
    labels = np.where((known == 0)[:, None], NOISE, NOISE - 10 * ERRORS)
    given = inputs(cpmi=labels, position=LAST_IS_LOWEST)
    table = measure_evidence(ReportInputs({**given.frames, "labels/answer_logprobs": logprobs}, bootstrap_samples=200))
    assert figures(table, METHOD)[BY_KNOWLEDGE] == 1
    assert table.filter(row=BY_KNOWLEDGE, column=APART)["low"].item() > 0


def test_without_scores_of_the_labeler_nothing_is_said_of_its_knowledge():
    assert BY_KNOWLEDGE not in set(measure_evidence(inputs(cpmi=NOISE, position=LAST_IS_LOWEST))["row"])


def test_without_the_method_or_the_truth_there_is_no_answer():
    assert measure_evidence(inputs(mc=NOISE)).is_empty()
    assert measure_evidence(ReportInputs()).is_empty()
