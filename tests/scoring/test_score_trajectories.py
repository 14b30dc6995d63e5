"""The public call: a table in, polars frames out, one sentence for what is wrong."""

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scoring_examples import random_model

from cpmi_dagster import score_trajectories
from cpmi_dagster.contracts.tables import TemplateScores
from cpmi_dagster.errors import ModelError, ScoringError
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
    ("frame", "words"),
    [
        (FRAME.drop("gold_answer"), "none of the 2 trajectories could be scored; the first, a: has no gold answer"),
        (FRAME.drop("steps"), "the first, a: the row has columns id, question"),
        (pl.Series([1, 2]), "none of the 2 trajectories could be scored"),
        ("rows.jsonl", "the trajectories are no table"),
    ],
)
def test_a_table_of_which_nothing_can_be_scored_is_refused_with_one_sentence(frame, words):
    with pytest.raises(ScoringError) as error:
        score_trajectories(frame, MODEL)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("steps", None, "`steps`: it must be a list"),
        ("negative_answers", [""], "`negative_answers.0`: it is empty"),
        ("gold_answer", "1 + 1 is two. So it is.", "`gold_answer`: a text that announces no answer"),
        ("gold_answer", None, "has no gold answer"),
        ("negative_answers", ["2.0", " 4/2 "], "has no hard negatives to contrast its gold answer with"),
    ],
)
def test_a_row_that_cannot_be_scored_is_rejected_and_the_other_scored(column, value, reason, caplog):
    frame = FRAME.with_columns(pl.Series(column, [FRAME[column].to_list()[0], value], dtype=FRAME.schema[column]))
    result = score_in_full(frame, MODEL, templates=1)
    assert result.rejected["id"].to_list() == ["b"]
    assert reason in result.rejected["reason"][0]
    assert set(result.scores["id"]) == {"a"}
    assert score_trajectories(frame, MODEL, templates=1).equals(result.scores) and "b was not scored: " in caplog.text


def test_given_wrong_answers_are_those_that_differ_from_the_gold_answer_and_from_each_other(caplog):
    given = [["24", " 24.0 ", "144/2", "74"], ["3"]]
    result = score_in_full(FRAME.with_columns(negative_answers=pl.Series(given)), MODEL, templates=1)
    assert_frame_equal(result.scores, score_in_full(FRAME, MODEL, templates=1).scores)
    assert "negative answers that equal the gold answer, or an earlier one, are left out of `a`" in caplog.text
    assert "`b`" not in caplog.text and result.rejected.is_empty()
