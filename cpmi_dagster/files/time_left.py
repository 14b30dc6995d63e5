"""Estimates how much longer work takes, by the speed of this process.

work = TimeLeft(300)
work.advance(12)              the first batch, whose time includes loading models
work.advance(12)              24 of 300
work.left()                   seconds for the other 276, at the rate of the second batch

Where items differ in size, or some are kept from an earlier run, the caller says how much work is done and left, in a
unit of its choice such as tokens or characters; then items are only counted:

work.advance(200, left=9_000)           200 of 300 are kept; the others are 9,000 characters
work.advance(0, done=0, left=9_000)     the model is loaded: the clock starts
work.advance(0, done=600, left=8_400)   a part of a chunk
"""

import time
from collections.abc import Callable
from typing import Protocol

RESUMED_SECONDS = 0.5
"""Items without work of their own that are finished this soon come from an earlier run."""


class Advance(Protocol):
    """Takes what has just been finished; see `TimeLeft.advance`."""

    def __call__(self, count: int, done: float | None = None, left: float | None = None) -> None: ...


def unseen(count: int, done: float | None = None, left: float | None = None) -> None:
    """An `Advance` that shows nothing."""


class TimeLeft:
    """Counts finished items of work, and measures the rate of work; `total` may be set later.

    Args:
        total: number of items.
        clock: gives the time in seconds.
    """

    def __init__(self, total: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self.total, self.done = total, 0
        self._clock, self._created = clock, clock()
        self._began: float | None = None
        self._worked = 0.0
        self._left: float | None = None

    def advance(self, count: int, done: float | None = None, left: float | None = None) -> None:
        """Count finished items.

        Args:
            count: of items, kept ones included.
            done: work since the last call; None for items that were kept, if `left` is given. The clock starts with
                the last 0 before any work; without it, the first work is not timed, since it may load a model.
            left: all work that is left, in the unit of `done`; by default the items are the work.
        """
        self.done += count
        now = self._clock()
        if left is None and done is None and count and now - self._created >= RESUMED_SECONDS:
            done = count
        self._left = self._left if left is None else left
        if done is None:
            return
        if self._began is None or not (self._worked or done):
            self._began = now
        else:
            self._worked += done

    def left(self) -> float | None:
        """Seconds left at the rate so far; None before there is one."""
        if self._began is None or not self._worked:
            return None
        left = self.total - self.done if self._left is None else self._left
        return (self._clock() - self._began) / self._worked * left

    @property
    def left_words(self) -> str:
        """`about 80 s left`; empty before there is a rate."""
        seconds = self.left()
        return "" if seconds is None else f"about {seconds:,.0f} s left"

    @property
    def words(self) -> str:
        """Progress for a log line: `24 of 300, about 80 s left`."""
        return ", ".join(filter(None, [f"{self.done:,} of {self.total:,}", self.left_words]))
