"""Label AUC by position and by what the labeler knows, and first wrong steps found: beside figures made by hand."""

import math

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import roc_auc_score

from cpmi_dagster.contracts.tables import AnswerLogprobs
from cpmi_dagster.reports.figures import ReportInputs, figure_frame
from cpmi_dagster.reports.labels import (
    BY_KNOWLEDGE,
    aucs_by_knowledge,
    kind_of,
    measure_label_quality,
    steps_with_truth,
)
from cpmi_dagster.reports.paper import CHANCE_ROW, load_paper_tables
from cpmi_dagster.rewards.registry import REWARD_TYPES

COUNT = 60
NAMES = [f"t{number:02}" for number in range(COUNT)]
LOGPROBS = "labels/answer_logprobs"
ERRORS = np.array([[0.0, number % 2, 0.0] for number in range(COUNT)])
GOLDS = ["7"] * 30 + ["1/2"] * 25 + ["B"] * 5
NOISE = np.random.default_rng(0).normal(size=(COUNT, 3))
KNOWN = np.array([(0.1, 0.5, 0.9)[number % 3] for number in range(COUNT)])


def inputs(**labels: np.ndarray) -> ReportInputs:
    """Solutions of three steps, the second of which is wrong in every other one; rewards [solutions, steps] by type."""
    steps = pl.DataFrame({"trajectory_id": NAMES}).join(pl.DataFrame({"step_index": [0, 1, 2]}), how="cross")
    rewards = pl.concat(
        steps.with_columns(reward_type=pl.lit(name), reward=pl.Series(values.reshape(-1)))
        for name, values in labels.items()
    )
    trajectories = pl.DataFrame(
        {
            "trajectory_id": NAMES, "question_id": NAMES, "row_number": range(COUNT), "steps": [["s"] * 3] * COUNT,
            "shepherd_labels": [None] * COUNT, "gold_answer": GOLDS,
            "final_answer": [gold if number % 3 else "9" for number, gold in enumerate(GOLDS)],
        },
        schema_overrides={"shepherd_labels": pl.List(pl.Boolean)},
    )  # fmt: skip
    truth = pl.DataFrame({"row_number": range(COUNT), "correct": (ERRORS == 0).tolist()})
    rows = [
        (name, 0, "question", -1, rank, math.log(probability), 1)
        for name, known in zip(NAMES, KNOWN.tolist(), strict=True)
        for rank, probability in enumerate((known, 0.5))
    ]
    logprobs = AnswerLogprobs.cast(pl.DataFrame(rows, schema=AnswerLogprobs.column_names(), orient="row"))
    frames = {"labels/step_rewards": rewards, "alignment/trajectories": trajectories, "sources/step_truth": truth}
    return ReportInputs({**frames, LOGPROBS: logprobs}, bootstrap_samples=200)


def figures(given: ReportInputs, row: str) -> dict[str, float]:
    table = figure_frame(measure_label_quality(given)).filter(row=row)
    return dict(table.select("column", "measured").iter_rows())


def test_a_label_that_sees_errors_where_the_labeler_knows_the_answer_ranks_right_there_alone():
    seen = np.where((KNOWN > 0.3)[:, None], NOISE - 10 * ERRORS, NOISE + 10 * ERRORS)
    found = figures(inputs(cpmi=seen), "CPMI")
    assert [found[column] for column in BY_KNOWLEDGE] == [0, 1, 1]
    assert found["Middle steps"] == pytest.approx(2 / 3)
    assert "First steps" not in found and "Last steps" not in found, "all of them are right"


def test_aucs_with_and_without_last_steps_are_those_of_scikit_learn():
    columns = figures(inputs(cpmi=NOISE), "CPMI")
    whole, wrong = slice(None), slice(0, None, 3)
    for column, solutions, last in (
        ("Label AUC", whole, 3),
        ("Without last steps", whole, 2),
        ("In wrong solutions", wrong, 2),
        ("Gold answer: whole number", slice(0, 30), 2),
        ("Gold answer: not whole", slice(30, 55), 2),
    ):
        right, noise = (ERRORS == 0)[solutions, :last].reshape(-1), NOISE[solutions, :last].reshape(-1)
        assert columns[column] == pytest.approx(roc_auc_score(right, noise))
    assert "Gold answer: letter" not in columns, "five questions are too few"


def test_steps_before_the_last_one_that_state_the_final_answer_are_left_out_too():
    column, frames = "Without steps that state the final answer", dict(inputs(cpmi=NOISE).frames)
    assert column not in figures(ReportInputs(frames, bootstrap_samples=20), "CPMI")
    stated = pl.concat_list(pl.lit("s"), pl.format("So it is {}.", "final_answer"), pl.lit("s"))
    frames["alignment/trajectories"] = frames["alignment/trajectories"].with_columns(
        steps=pl.when(pl.col("row_number") % 4 == 1).then(stated).otherwise("steps")
    )
    kept = np.arange(COUNT) % 4 != 1
    right = np.concatenate([ERRORS[:, 0] == 0, ERRORS[kept, 1] == 0])
    expected = roc_auc_score(right, np.concatenate([NOISE[:, 0], NOISE[kept, 1]]))
    found = figures(ReportInputs(frames, bootstrap_samples=20), "CPMI")
    assert found[column] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("gold", "kind"),
    [("7", "whole number"), ("-1,200", "whole number"), (r"\frac{1}{2}", "not whole"), ("0.25", "not whole"),
     ("5 cm", "with a unit"), ("73%", "with a unit"), ("B", "letter"), ("Paris", "other"), ("x + 1", "other")],
)  # fmt: skip
def test_gold_answers_are_told_apart_by_kind(gold, kind):
    assert kind_of(gold) == kind


def test_thirds_by_knowledge_have_as_many_questions_however_many_solutions_one_has():
    frames = dict(inputs(cpmi=NOISE).frames)
    of_one = pl.when(pl.col("row_number") < 40).then(pl.lit("q")).otherwise("question_id")
    frames["alignment/trajectories"] = frames["alignment/trajectories"].with_columns(question_id=of_one)
    given = ReportInputs(frames, bootstrap_samples=20)
    thirds = aucs_by_knowledge(given, steps_with_truth(given))
    # 6 questions of one solution and that of 40; 7; 7; two steps of each solution
    assert [of_third["cpmi"].n for of_third in thirds.values()] == [92, 14, 14]


def test_columns_and_rows_are_those_that_the_table_in_paper_yaml_names():
    """Of each kind of gold answer twelve questions, each step right in every other one, the first states the answer."""
    judged = (np.indices((COUNT, 3)).sum(axis=0) % 2 == 0).tolist()
    golds = [gold for gold in ("7", "1/2", "5 cm", "B", "Paris") for _ in range(COUNT // 5)]
    chance = np.abs(NOISE) % 1
    frames = dict(inputs(mc=NOISE, cpmi=-NOISE, position=chance, step_length=-chance, right_so_far=chance).frames)
    frames["alignment/trajectories"] = frames["alignment/trajectories"].with_columns(
        gold_answer=pl.Series(golds),
        final_answer=pl.lit("9"),
        steps=pl.Series([["So it is 9.", "s", "s"]] * COUNT),
        shepherd_labels=pl.Series(judged),
    )
    frames["sources/step_truth"] = pl.DataFrame({"row_number": range(COUNT), "correct": judged})
    measured = figure_frame(measure_label_quality(ReportInputs(frames, bootstrap_samples=20)))
    table = load_paper_tables()["label_quality"]
    assert {*measured["column"]} == {*table.columns, *table.own_columns}
    assert {*measured["row"], *table.rows} <= {*(entry.label for entry in REWARD_TYPES.values()), CHANCE_ROW}
