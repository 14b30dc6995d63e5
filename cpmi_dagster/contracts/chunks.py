"""Slices of a table that a model is asked about together, sized by how long their answers take.

    rows of    8   16   32   32   16   32        of 32 at most: the fourth took 40 s

The answers to a slice are kept together, so a killed run loses the work of one.
"""

import time
from collections.abc import Callable, Iterator

import polars as pl

FIRST_SLICE = 8
LONGEST_SECONDS = 30.0
"""A slice that takes longer is followed by one of half its size."""


def growing_slices(
    rows: pl.DataFrame, most: int, clock: Callable[[], float] = time.monotonic
) -> Iterator[pl.DataFrame]:
    """Slices of 8, 16, 32, … rows, at most `most`, and fewer while their answers take long.

    Args:
        clock: gives the time in seconds; the time between two slices is that of the first one's answers.
    """
    start, size = 0, min(most, FIRST_SLICE)
    while start < rows.height:
        began = clock()
        yield rows.slice(start, size)
        start += size
        is_quick = clock() - began <= LONGEST_SECONDS
        size = min(most, 2 * size) if is_quick else max(1, size // 2)
