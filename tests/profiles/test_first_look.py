"""What a source of trajectories holds is counted as a run would read it."""

from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.errors import SourceError
from cpmi_dagster.profiles import first_look
from cpmi_dagster.profiles.first_look import FirstLook, look_over
from cpmi_dagster.trajectories.rows import Row, Unreadable, number_rows, separate_defects, separate_duplicates

SHEPHERD = {"input": "1 + 1? Step 1: 2 ки", "label": "1 + 1? Step 1: 2 +", "task": "GSM8K"}
TRL = {"prompt": "1 + 1?", "completions": ["It is 2.", "So 3."], "labels": [True, False]}
QUESTION = {"question": "1 + 1?", "steps": ["It is 2.", "Twice.", "The answer is: 2"], "id": 7, "gold_answer": 2}
BROKEN = Unreadable("{", "not JSON", "rows.jsonl, line 5")
POOL = st.sampled_from(
    [
        SHEPHERD,
        {**SHEPHERD, "label": "1 + 1?"},
        TRL,
        {"a": 1},
        BROKEN,
        QUESTION,
        {**QUESTION, "id": "b", "question": " 1  + 1?"},
        {**QUESTION, "id": None, "gold_answer": ""},
        {**QUESTION, "id": "b", "steps": []},
        {**QUESTION, "id": "c", "labels": [1, 1, 0]},
    ]
)


def look(*rows: Row) -> FirstLook:
    return look_over("rows.jsonl", [(row, f"line {number}") for number, row in enumerate(rows, start=1)])


def test_forms_answers_labels_ids_and_steps_are_counted():
    found = look(
        QUESTION, SHEPHERD, TRL, {**QUESTION, "id": None, "steps": ["4"], "gold_answer": None}, BROKEN, {"a": 1}
    )
    assert found.forms == {
        "question and steps": 2,
        "Math-Shepherd": 1,
        "TRL": 1,
        "unreadable": 1,
        "in none of the forms": 1,
    }
    assert (found.rows, found.trajectories, found.questions) == (6, 4, 1)
    assert (found.answered, found.unanswered, found.labelled, found.identified) == (1, 3, 2, 1)
    assert (found.median_steps, found.most_steps) == (1.5, 3)


def test_rejected_rows_are_named_by_row_and_place_with_their_reason():
    found = look(QUESTION, {**QUESTION, "id": 8, "steps": []}, {**QUESTION, "steps": ["2"]}, {**QUESTION, "id": 9})
    assert found.rejected.select("row_number", "place", "stage").rows() == [
        (1, "row 2", "read"),
        (2, "row 3", "read"),
        (3, "row 4", "duplicate"),
    ]
    bad, same_id, same_text = found.rejected["reason"]
    assert "`steps`" in bad
    assert same_id == 'row 1 has the id "7" already; give every row its own'
    assert same_text == "the same question and steps as row 1"
    assert found.repeated_ids == 1


@settings(deadline=None)
@given(st.lists(POOL, max_size=12))
def test_a_look_in_batches_rejects_what_a_run_rejects(rows):
    rows = [QUESTION, *rows]
    with patch.object(first_look, "BATCH_ROWS", 3):
        found = look(*rows)
    parsed, malformed = separate_defects(number_rows(rows, first=0, shards=1))
    kept, repeated = separate_duplicates(parsed)
    refused = pl.concat([malformed, repeated]).sort("row_number")
    assert found.rejected.drop("place").equals(refused.drop("excerpt", "source_id"))
    assert found.rejected["place"].to_list() == [f"row {number + 1}" for number in refused["row_number"]]
    assert (found.trajectories, found.trajectories + found.rejected.height) == (kept.height, len(rows))
    assert found.answered == kept["gold_answer"].count()
    assert found.labelled == kept["labels"].count()
    assert found.identified == kept["source_id"].count()
    assert found.questions == kept["question_id"].n_unique()
    assert found.most_steps == kept["steps"].list.len().max()
    assert sum(found.forms.values()) == found.rows == len(rows)


@pytest.mark.parametrize(("trajectories", "shards"), [(1, 1), (1250, 1), (1251, 2), (80_000, 64), (1_000_000, 99)])
def test_a_shard_is_about_1250_trajectories(trajectories, shards):
    found = look(QUESTION)
    assert FirstLook(**{**vars(found), "trajectories": trajectories}).shards == shards


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "rows.jsonl has no rows"),
        ([{"a": 1}], "the trajectory source has columns a"),
        ([BROKEN, {**QUESTION, "steps": []}], "none of the 2 rows of rows.jsonl can .*the first, row 1: not JSON"),
    ],
)
def test_what_holds_no_trajectories_is_refused(rows, message):
    with pytest.raises(SourceError, match=message):
        look(*rows)
