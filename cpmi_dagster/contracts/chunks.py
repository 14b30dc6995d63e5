"""Slices of a table that a model is asked about together, sized by how long their answers take.

    rows of    8   16   32   32   24   32        of 32 at most: the fourth took 40 s

The answers to a slice are kept together, so a killed run loses the work of one.
"""

import time
from collections.abc import Callable, Iterator

import polars as pl

FIRST_SLICE = 8
LONGEST_SECONDS, MOMENT = 30.0, 1e-3
"""What a slice should take, by the speed of the one before it; the first rows take what they take."""


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
        in_time = int(size * LONGEST_SECONDS / max(clock() - began, MOMENT))
        size = max(1, min(most, 2 * size, in_time))
