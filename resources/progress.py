"""The progress of stages: in the run's log by default, on a terminal under `cpmi run`.

Processes that label at the same time send theirs to the one that started them, as messages:

    ("start", "worker 1", "answer_logprobs 010", 1000)   ("advance", "worker 1", 32)   ("finish", "worker 1", ...)
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import Queue
from typing import Any, Protocol

LOG_EVERY_SECONDS = 15.0


class Progress(Protocol):
    """Shows how far each stage is."""

    def start(self, label: str, total: int, log: Callable[[str], None]) -> Callable[[int], None]:
        """Begin `total` items of work; the returned function is called with the number just finished."""
        ...

    def finish(self, stage: str, partition: str | None, rows: int, seconds: float, skipped: bool) -> None:
        """One partition of a stage is up to date: `rows` rows, made now or found unchanged."""
        ...


class LoggedProgress:
    """Writes a line to the run's log every quarter of a minute, with the time left."""

    def start(self, label: str, total: int, log: Callable[[str], None]) -> Callable[[int], None]:
        """See `Progress.start`."""
        began = last = time.monotonic()
        done = 0

        def advance(count: int) -> None:
            nonlocal done, last
            done += count
            now = time.monotonic()
            if done < total and now - last < LOG_EVERY_SECONDS:
                return
            last = now
            left = (now - began) / max(done, 1) * (total - done)
            log(f"{label}: {done} of {total}, about {left:.0f} s left")

        return advance

    def finish(self, stage: str, partition: str | None, rows: int, seconds: float, skipped: bool) -> None:
        """Nothing: Dagster shows it."""


@dataclass(frozen=True)
class RelayedProgress:
    """Sends the calls of the process `worker` to another process, which calls `relay`."""

    messages: "Queue[Any]"
    worker: str

    def start(self, label: str, total: int, log: Callable[[str], None]) -> Callable[[int], None]:
        """See `Progress.start`."""
        self.messages.put(("start", self.worker, label, total))
        return lambda count: self.messages.put(("advance", self.worker, count))

    def finish(self, stage: str, partition: str | None, rows: int, seconds: float, skipped: bool) -> None:
        """See `Progress.finish`."""
        self.messages.put(("finish", self.worker, stage, partition, rows, seconds, skipped))


def relay(messages: "Queue[Any]", progress: Progress) -> None:
    """Pass the messages of any number of `RelayedProgress` to one progress, until None comes."""
    advance: dict[str, Callable[[int], None]] = {}
    while (message := messages.get()) is not None:
        kind, worker, *facts = message
        if kind == "start":
            advance[worker] = progress.start(f"{worker}: {facts[0]}", facts[1], lambda _: None)
        elif kind == "advance":
            advance[worker](*facts)
        else:
            progress.finish(*facts)
