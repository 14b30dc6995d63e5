"""Slices that a model is asked about together."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.contracts.chunks import growing_slices


def sizes(rows: int, most: int, seconds_a_row: float) -> list[int]:
    made: list[int] = []
    for part in growing_slices(pl.DataFrame({"row": range(rows)}), most, lambda: sum(made) * seconds_a_row):
        made.append(part.height)
    return made


def test_the_first_slices_are_small_so_that_their_answers_are_soon_kept():
    assert sizes(200, 64, 0.1) == [8, 16, 32, 64, 64, 16]


def test_slow_answers_are_kept_about_every_half_minute_so_that_a_kill_loses_little():
    assert sizes(40, 64, 5.0) == [8, 6, 6, 6, 6, 6, 2]
    assert sizes(12, 64, 40.0) == [8, 1, 1, 1, 1]


@given(st.integers(0, 300), st.integers(1, 70), st.lists(st.floats(0, 100), min_size=1, max_size=20))
def test_slices_are_all_rows_in_order_whatever_the_clock_says(rows: int, most: int, seconds: list[float]):
    times, now = iter(seconds * 1000), 0.0

    def clock() -> float:
        nonlocal now
        now += next(times)
        return now

    parts = list(growing_slices(pl.DataFrame({"row": range(rows)}), most, clock))
    assert [row for part in parts for row in part["row"]] == list(range(rows))
    assert all(1 <= part.height <= most for part in parts)
