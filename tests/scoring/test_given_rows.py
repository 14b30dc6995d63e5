"""Rows from Python are read whatever library their values are of; a wrong one is named by its row and field."""

import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from cpmi_dagster.errors import ScoringError
from cpmi_dagster.scoring.given_rows import as_frame

ROW = {"question": "1 + 1?", "steps": ["It is 2.", "So 2."], "gold_answer": "2", "negative_answers": ["3"]}
EXPECTED = as_frame([{**ROW, "id": 0}, {**ROW, "id": 1}])


@pytest.mark.parametrize(
    "changed",
    [
        {"question": np.str_("1 + 1?"), "steps": np.array(ROW["steps"]), "gold_answer": np.int64(2)},
        {"question": ["1 + 1?"], "steps": pl.Series(ROW["steps"]), "gold_answer": 2.0, "note": object()},
        {"question": [{"role": "user", "content": "1 + 1?"}], "negative_answers": np.array([3]), "note": {"a": [1]}},
        {"steps": None, "solution": "It is 2.\n\nSo 2."},
    ],
)
@pytest.mark.parametrize("table", [list, pd.DataFrame])
def test_values_of_other_libraries_are_those_that_they_hold(table, changed):
    assert as_frame(table([ROW, {**ROW, **changed}])).select(EXPECTED.columns).equals(EXPECTED.cast({"id": pl.String}))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"steps": ["It is 2.", datetime.date(2024, 1, 1)]}, "`steps.1`: it must be text"),
        ({"gold_answer": True}, "`gold_answer`: it must be text"),
        ({"steps": None, "conversations": [{"from": "tool", "value": "2"}]}, "`conversations`: it must be one message"),
    ],
)
@pytest.mark.parametrize("table", [list, pd.DataFrame])
def test_a_wrong_value_is_named_by_its_row_and_field(table, changed, words):
    row: dict[str, Any] = {**ROW, **changed}
    with pytest.raises(ScoringError) as error:
        as_frame(table([ROW, row]))
    assert str(error.value).startswith(f"row 2 of the trajectories: {words}")
