"""Estimates how much longer work takes.

work = TimeLeft(300)
work.advance(12)    the first batch, whose time includes loading models
work.advance(12)    24 of 300
work.left()         seconds for the other 276, at the rate of the second batch
"""

import time

RESUMED_SECONDS = 0.5
"""Items that are finished this soon come from an earlier run."""


class TimeLeft:
    """Counts finished items of work; `total` may be set later if it is counted on the way."""

    def __init__(self, total: int = 0) -> None:
        self.total, self.done = total, 0
        self._resumed, self._began = 0, time.monotonic()
        self._first: tuple[int, float] | None = None

    def advance(self, count: int) -> None:
        """Count more finished items."""
        self.done += count
        now = time.monotonic()
        if now - self._began < RESUMED_SECONDS:
            self._resumed = self.done
        elif count and self._first is None:
            self._first = self.done, now

    def left(self) -> float:
        """Seconds left, at the rate after the first batch as soon as there is a second."""
        now, (done, began) = time.monotonic(), self._first or (self._resumed, self._began)
        if self._has_one_batch:
            done, began = self._resumed, self._began
        return (now - began) / max(self.done - done, 1) * (self.total - self.done)

    @property
    def words(self) -> str:
        """Progress for a log line, `24 of 300, about 80 s left`; without a time until the second batch."""
        left = "" if self._has_one_batch else f", about {self.left():,.0f} s left"
        return f"{self.done:,} of {self.total:,}{left}"

    @property
    def _has_one_batch(self) -> bool:
        """Whether only the first batch is finished, whose time includes loading models."""
        return self._first is None or self._first[0] == self.done
