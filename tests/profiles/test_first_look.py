"""What a source of trajectories holds is counted as a run would read it."""

from unittest.mock import patch

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

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


@given(st.lists(POOL, max_size=12))
def test_a_look_in_batches_rejects_what_a_run_rejects(rows):
    rows = [QUESTION, *rows]
    with patch.object(first_look, "BATCH_ROWS", 3):
        seen = look(*rows)
    parsed, malformed = separate_defects(number_rows(rows, first=0, shards=1))
    kept, repeated = separate_duplicates(parsed)
    refused = pl.concat([malformed, repeated]).sort("row_number")
    assert seen.rejected.drop("place").equals(refused.drop("excerpt", "source_id"))
    assert seen.rejected["place"].to_list() == [f"row {number + 1}" for number in refused["row_number"]]
    assert (seen.trajectories, seen.trajectories + seen.rejected.height) == (kept.height, len(rows))
    counts = (seen.answered, seen.labelled, seen.identified)
    assert counts == tuple(kept[name].count() for name in ("gold_answer", "labels", "source_id"))
    assert sum(seen.forms.values()) == seen.rows == len(rows)
    assert seen.median_steps == kept["steps"].list.len().median()
    assert seen.questions == kept["question_id"].n_unique()
    assert seen.most_steps == kept["steps"].list.len().max()


def test_the_field_that_is_shown_as_the_gold_answers_is_the_one_that_is_read():
    first = look({"question": "1 + 1?", "steps": ["It is 2."], "gold": "", "answer": "2"}).first
    assert (first.gold_answer, first.gold_field, first.unread) == ("2", "answer", ["gold"])
