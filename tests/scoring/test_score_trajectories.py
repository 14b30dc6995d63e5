"""The public call: a table in, polars frames out, one sentence for what is wrong."""

from decimal import Decimal

import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scoring_examples import random_model

from cpmi_dagster import score_trajectories
from cpmi_dagster.contracts.tables import TemplateScores
from cpmi_dagster.errors import ModelError, ScoringError, SettingsError
from cpmi_dagster.scoring.trajectories import score_in_full

FRAME = pl.DataFrame(
    {
        "id": ["a", "b"],
        "question": ["Ana has 48 shells and finds half as many. How many has she?", "1 + 1?"],
        "steps": [["48 / 2 = 24", "48 + 24 = 72"], ["1 + 1 = 3"]],
        "gold_answer": ["72", "2"],
        "negative_answers": [["24", "74"], ["3"]],
    }
)
MODEL = random_model("qwen3")


def test_every_step_template_and_conditioning_gets_a_score():
    result = score_in_full(FRAME, MODEL, templates=2)
    assert result.scores.columns == ["id", *TemplateScores.column_names()[1:]]
    assert result.scores.height == 3 * 3 * 2
    assert result.logprobs.columns[:2] == ["id", "template"]
    assert result.rejected.is_empty()


def test_a_model_folder_is_loaded_and_ids_may_be_numbers_or_left_out(tmp_path):
    MODEL.model.save_pretrained(tmp_path)
    MODEL.tokenizer.save_pretrained(tmp_path)
    expected = score_trajectories(FRAME, MODEL, templates=1)
    for frame, ids in ((FRAME.with_columns(id=pl.Series([7, 8])), {"7", "8"}), (FRAME.drop("id"), {"0", "1"})):
        loaded = score_trajectories(frame, tmp_path, templates=1, device="cpu", dtype="float32")
        assert set(loaded["id"]) == ids
        assert_frame_equal(loaded.drop("id"), expected.drop("id"), abs_tol=1e-6)
    with pytest.raises(ModelError, match="does not exist"):
        score_trajectories(FRAME, tmp_path / "nowhere")


@pytest.mark.parametrize(
    "golds", [[72, 2], [Decimal("72.0"), Decimal(2)], ["48 + 24 = <<48+24=72>>72\n#### 72", "The answer is: 2"]]
)
def test_gold_answers_are_read_whatever_they_are_written_as_in_every_kind_of_table(golds):
    expected = score_trajectories(FRAME, MODEL, templates=1)
    rows = [{**row, "gold_answer": gold} for row, gold in zip(FRAME.to_dicts(), golds, strict=True)]
    numbers = [{**row, "negative_answers": [float(answer) for answer in row["negative_answers"]]} for row in rows]
    for given in (rows, numbers, pd.DataFrame(rows), pl.DataFrame(rows, strict=False)):
        assert_frame_equal(score_trajectories(given, MODEL, templates=1), expected)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (FRAME.drop("gold_answer"), "lack the column `gold_answer`"),
        (FRAME.with_columns(id=pl.lit("a")), "id `a` is in rows 1, 2 of the trajectories"),
        (FRAME.with_columns(id=pl.Series(["a", None])), "row 2 of the trajectories has no `id`"),
        (FRAME.with_columns(steps=pl.lit("48 / 2 = 24")), "column `steps` of the trajectories contains String"),
        (FRAME.with_columns(gold_answer=pl.lit(True)), "column `gold_answer` of the trajectories contains Boolean"),
    ],
)
def test_a_frame_of_the_wrong_shape_is_refused_with_one_sentence(frame, words):
    with pytest.raises(ScoringError) as error:
        score_trajectories(frame, MODEL)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("steps", None, "has no steps"),
        ("negative_answers", [""], "hard negative 1 is empty"),
        ("gold_answer", None, "has no gold answer; give it one"),
        ("gold_answer", "1 + 1 is two. So it is.", "the gold answer: a text that announces no answer"),
        ("question", None, "has no question"),
    ],
)
def test_a_row_that_cannot_be_scored_is_rejected_and_the_other_scored(column, value, reason):
    frame = FRAME.with_columns(pl.Series(column, [FRAME[column].to_list()[0], value], dtype=FRAME.schema[column]))
    result = score_in_full(frame, MODEL, templates=1)
    assert result.rejected["id"].to_list() == ["b"]
    assert reason in result.rejected["reason"][0]
    assert set(result.scores["id"]) == {"a"}


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"conditionings": ["marginl"]}, "conditionings"),
        ({"row_tokens": 0}, "row_tokens"),
        ({"row_token": 64}, "row_token"),
    ],
)
def test_an_option_that_does_not_exist_is_named(options, name):
    with pytest.raises(SettingsError, match=f"`{name}`"):
        score_trajectories(FRAME, MODEL, **options)
