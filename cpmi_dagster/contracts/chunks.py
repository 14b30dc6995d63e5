"""Slices of a table that a model is asked about together."""

from collections.abc import Iterator

import polars as pl

FIRST_SLICE = 8


def growing_slices(rows: pl.DataFrame, most: int) -> Iterator[pl.DataFrame]:
    """Slices of 8, 16, 32, … rows, at most `most`: on a slow machine the first answers are soon kept and counted."""
    start = 0
    while start < rows.height:
        size = min(most, start + FIRST_SLICE)
        yield rows.slice(start, size)
        start += size
