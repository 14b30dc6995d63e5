"""Raw rows are numbered and dealt to shards; nothing is judged yet."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.alignment import question_id, shard_key
from cpmi_dagster.errors import SourceError
from cpmi_dagster.math_shepherd import parse_rows
from cpmi_dagster.source_rows import number_rows, rows_by_shard

ROW = {"input": "1 + 1? Step 1: 2 ки", "label": "1 + 1? Step 1: 2 +", "task": "GSM8K"}


def test_rows_keep_their_order_and_get_numbers():
    rows = number_rows(pl.DataFrame([ROW, {**ROW, "input": "other"}]))
    assert rows.select("row_number", "input").rows() == [(0, ROW["input"]), (1, "other")]
    assert rows["value"].to_list() == [None, None]


def test_a_value_list_may_stand_for_the_labels():
    rows = number_rows(pl.DataFrame([{"input": ROW["input"], "task": "GSM8K", "value": ["+"]}]))
    assert rows.select("label", "value").rows() == [("", ["+"])]


@pytest.mark.parametrize("column", ["input", "task", "label"])
def test_a_missing_column_is_named(column):
    with pytest.raises(SourceError, match="it needs input, task, label"):
        number_rows(pl.DataFrame([ROW]).drop(column))


def test_a_row_without_text_is_named():
    with pytest.raises(SourceError, match="row 1 of the trajectory source lacks its input or task"):
        number_rows(pl.DataFrame([ROW, {**ROW, "input": None}]))


@given(st.lists(st.text(min_size=1), min_size=1, max_size=20), st.integers(1, 9))
def test_every_row_is_in_exactly_one_shard(texts, shards):
    rows = number_rows(pl.DataFrame([{**ROW, "input": text} for text in texts]))
    dealt = rows_by_shard(rows, shards)
    assert list(dealt) == [f"{shard:03d}" for shard in range(shards)]
    assert sorted(pl.concat(dealt.values())["row_number"]) == list(range(len(texts)))


def test_a_question_stays_in_one_shard_from_the_source_to_the_trajectory():
    texts = [f"What is {n} + 1? Step 1: It is {n + 1}. The answer is: {n + 1} ки" for n in range(30)]
    raw = pl.DataFrame([{"input": text, "label": text.replace("ки", "+"), "task": "GSM8K"} for text in texts])
    for shard, rows in rows_by_shard(number_rows(raw), 4).items():
        parsed, rejected = parse_rows(rows)
        assert rejected.is_empty()
        assert {shard_key(question_id(question), 4) for question in parsed["question"]} <= {shard}
