"""A user's own columns in Parquet: lists of one kind stay lists, and what only JSON can hold is JSON text."""

import json

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.trajectories.given_columns import as_cells

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(alphabet="ab é")
VALUES = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(alphabet="ab", max_size=2), SCALARS)


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
