"""How much longer work takes, from how long its parts have taken.

work = TimeLeft(300)
work.advance(12)    the first part, with which models are loaded
work.advance(12)    24 of 300
work.left()         seconds: 276 at the rate of the second part
"""

import time

FOUND_SECONDS = 0.5
"""What is finished so soon was made by an earlier run."""


class TimeLeft:
    """Counts finished items of work; times are of a monotonic clock.

    Args:
        total: items of all work; may be given later, where it is counted on the way.
    """

    def __init__(self, total: int = 0) -> None:
        self.total, self.done = total, 0
        self._found, self._began = 0, time.monotonic()
        self._first: tuple[int, float] | None = None

    def advance(self, count: int) -> None:
        """So many more items are finished."""
        self.done += count
        now = time.monotonic()
        if now - self._began < FOUND_SECONDS:
            self._found = self.done
        elif count and self._first is None:
            self._first = self.done, now

    def left(self) -> float:
        """Seconds; without the time of the first part once there is a second, for that is when models are loaded."""
        now, (done, began) = time.monotonic(), self._first or (self._found, self._began)
        if self._loads:
            done, began = self._found, self._began
        return (now - began) / max(self.done - done, 1) * (self.total - self.done)

    @property
    def words(self) -> str:
        """How far it is, for a line of a log; without a time while only the first part is known, which loads models."""
        left = "" if self._loads else f", about {self.left():,.0f} s left"
        return f"{self.done:,} of {self.total:,}{left}"

    @property
    def _loads(self) -> bool:
        """Whether nothing is known but the first part."""
        return self._first is None or self._first[0] == self.done
