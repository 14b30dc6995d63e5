"""The progress of stages: in the run's log, or on a terminal under `cpmi run`."""

import time
from collections.abc import Callable
from typing import Protocol

from cpmi_dagster.files.time_left import Advance, TimeLeft

LOG_EVERY_SECONDS = 15.0


class Progress(Protocol):
    """Shows how far each stage is."""

    def start(self, label: str, total: int, log: Callable[[str], None]) -> Advance:
        """Begin `total` items of work; the returned function takes what was just finished."""
        ...

    def finish(self, stage: str, partition: str | None, rows: int, seconds: float, skipped: bool) -> None:
        """Note that a partition of a stage is up to date: `rows` rows, made now or skipped."""
        ...

    def tell(self, line: str) -> None:
        """Show a sentence, such as that a lock is waited for."""
        ...

    def count_kept(self, stage: str, kept: int, asked: int) -> None:
        """Note that of `asked` trajectories, prompts or solutions the answers to `kept` are known."""
        ...


class LoggedProgress:
    """Writes a line with the time left to the run's log every 15 seconds."""

    def start(self, label: str, total: int, log: Callable[[str], None]) -> Advance:
        """See `Progress.start`."""
        work, last = TimeLeft(total), time.monotonic()

        def advance(count: int, done: float | None = None, left: float | None = None) -> None:
            nonlocal last
            work.advance(count, done, left)
            now = time.monotonic()
            if not (count and work.done >= total) and now - last < LOG_EVERY_SECONDS:
                return
            last = now
            log(f"{label}: {work.words}")

        return advance

    def finish(self, stage: str, partition: str | None, rows: int, seconds: float, skipped: bool) -> None:
        """Nothing: Dagster shows it."""

    def tell(self, line: str) -> None:
        """Nothing: it stands in the run's log."""

    def count_kept(self, stage: str, kept: int, asked: int) -> None:
        """Nothing: Dagster shows the cost."""
