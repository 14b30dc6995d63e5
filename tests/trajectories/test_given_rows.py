"""Rows from Python are read whatever library their values are of; in Parquet, what only JSON can hold is JSON text."""

import datetime
import json
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.trajectories.given_rows import as_cells, read_table

ROW = {"question": "1 + 1?", "steps": ["It is 2.", "So 2."], "gold_answer": "2", "negative_answers": ["3"]}
EXPECTED = read_table([ROW, ROW]).trajectories
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(alphabet="ab é")
VALUES = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(alphabet="ab", max_size=2), SCALARS)


@pytest.mark.parametrize(
    "changed",
    [
        {"question": np.str_("1 + 1?"), "steps": np.array(ROW["steps"]), "gold_answer": np.int64(2)},
        {"question": ["1 + 1?"], "steps": pl.Series(ROW["steps"]), "gold_answer": 2.0, "note": object()},
        {"question": [{"role": "user", "content": "1 + 1?"}], "negative_answers": np.array([3]), "note": {"a": [1]}},
        {"steps": None, "solution": "It is 2.\n\nSo 2."},
        {"steps": None, "solution": '["It is 2.", "So 2."]', "gold_answer": None, "answer": 2},
        {"gold_answer": float("nan"), "answer": 2, "id": float("nan"), "first_error": float("nan")},
    ],
)
@pytest.mark.parametrize("table", [list, pd.DataFrame])
def test_values_of_other_libraries_are_those_that_they_hold(table, changed):
    assert read_table(table([ROW, {**ROW, **changed}])).trajectories.equals(EXPECTED)


@pytest.mark.parametrize("field", ["gold_answer", "negative_answers"])
def test_an_answer_that_is_nan_is_missing_as_null_is(field):
    read = read_table([{**ROW, field: missing} for missing in (float("nan"), None)]).trajectories
    assert read[field].to_list() == [None, None]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"steps": ["It is 2.", datetime.date(2024, 1, 1)]}, "`steps.1`: it must be text"),
        ({"gold_answer": True}, "`gold_answer`: an answer of the wrong kind, bool"),
        ({"negative_answers": ["3", ""]}, "`negative_answers.1`: it is empty"),
        ({"steps": None, "conversations": [{"from": "tool", "value": "2"}]}, "`conversations`: it must be one message"),
    ],
)
@pytest.mark.parametrize("table", [list, pd.DataFrame])
def test_a_wrong_value_is_named_by_its_row_and_field_and_the_others_are_read(table, changed, words):
    row: dict[str, Any] = {**ROW, **changed}
    given = read_table(table([ROW, row]))
    assert given.trajectories["row_number"].to_list() == [0]
    [rejected] = given.rejected.iter_rows(named=True)
    assert rejected["id"] == "1" and rejected["reason"].startswith(words)


def test_a_row_without_an_id_is_called_by_its_number_and_two_rows_of_one_id_are_not_mixed():
    given = read_table([{**ROW, "id": 7}, ROW, {**ROW, "id": "7"}])
    assert given.trajectories["id"].to_list() == ["7", "row 2"]
    assert given.rejected["id"].to_list() == ["7"] and 'row 1 has the id "7" already' in given.rejected["reason"][0]


def test_lists_of_one_kind_stay_lists():
    rows = [{"kept": [True, None], "n": [1, 2.5], "mixed": [1], "big": [2**70]}, {"kept": None, "mixed": "one"}]
    assert as_cells(rows) == [
        {"kept": [True, None], "n": [1, 2.5], "mixed": "[1]", "big": f"[{2**70}]"},
        {"kept": None, "mixed": "one"},
    ]


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_any_column_is_written_and_nothing_of_it_is_lost(values):
    cells = [row["x"] for row in as_cells([{"x": value} for value in values])]
    pl.DataFrame({"x": cells}, strict=False).to_arrow()
    for value, cell in zip(values, cells, strict=True):
        assert cell == value or json.loads(cell) == value
