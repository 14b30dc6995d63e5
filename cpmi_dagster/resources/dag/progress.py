"""The progress of stages: in the run's log, or on a terminal under `cpmi run`.

trajectories                  4 partitions        612 rows     1.3 s
answer_logprobs               4 partitions     36,720 rows     6.8 s, 3 unchanged, kept answers to 10 of 12 model inputs
and 18 more tables: unchanged, or empty

A terminal shows a bar for the stage at work. Outside one, it has a line a minute: `hard_negatives 000    8 of 38, about
210 s left, after 60 s`; the log has a line every 15 seconds.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TaskID, TextColumn
from rich.progress import Progress as Bars

from cpmi_dagster.files.text import counted, printable
from cpmi_dagster.files.time_left import Advance, TimeLeft

LOG_EVERY_SECONDS = 15.0
LINE_EVERY_SECONDS = 60.0
LEAST_SECONDS = 1.0


class Progress:
    """Writes to the run's log how far a stage is, with the time left, every 15 seconds; Dagster shows the rest."""

    def start(self, label: str, total: int, log: Callable[[str], None]) -> Advance:
        """Begin `total` items of work; the returned function takes what was just finished."""
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

    def finish_partition(self, stage: str, partition: str | None, rows: int, seconds: float, skipped: bool) -> None:
        """Note that a partition of a stage is up to date: `rows` rows, made now or skipped."""

    def print(self, line: str) -> None:
        """Show a sentence, such as that a lock is waited for; it stands in the run's log, too."""

    def count_cached(self, stage: str, kept: int, asked: int) -> None:
        """Note that of `asked` trajectories, prompts or solutions the answers to `kept` are known."""


@dataclass
class _Tally:
    """The totals of a stage so far."""

    partitions: int = 0
    rows: int = 0
    seconds: float = 0.0
    skipped: int = 0
    kept: int = 0
    asked: int = 0


class TerminalProgress(Progress):
    """Shows bars on a terminal, and lines everywhere, unless quiet.

    A stage that was skipped, or made no rows within a second, has no line; these stages are counted.

    Args:
        expected: number of partitions by stage.
        words: what a stage is called here, such as `your trajectories`; by default its name.
    """

    def __init__(
        self,
        console: Console,
        expected: Mapping[str, int],
        quiet: bool = False,
        words: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._console = console
        self._expected = expected
        self._quiet = quiet
        self._words = words
        self._left_out = 0
        self._tallies: dict[str, _Tally] = {}
        description = TextColumn("{task.description}", markup=False)
        columns = (SpinnerColumn(), description, BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
        hidden = quiet or not console.is_terminal
        self._bars = Bars(*columns, console=console, transient=True, disable=hidden)
        self._task: TaskID | None = None
        self._doing: Callable[[], str] | None = None
        self._ended = threading.Event()
        self._last_line = time.monotonic()
        self._skipped = 0
        self._made = 0

    def __enter__(self) -> "TerminalProgress":
        self._bars.start()
        if self._bars.disable and not self._quiet:
            threading.Thread(target=self._show_life, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._bars.stop()

    def _show_life(self) -> None:
        """Print a line a minute while a stage works."""
        while not self._ended.wait(1.0):
            doing = self._doing
            if doing and time.monotonic() - self._last_line >= LINE_EVERY_SECONDS:
                self._write(f"  {doing()}")

    def start(self, label: str, total: int, log: Callable[[str], None]) -> Advance:
        """See `Progress.start`."""
        self._remove_bar()
        stage = label.partition(" ")[0]
        label = label.replace(stage, self._words.get(stage, stage), 1)
        task = self._task = self._bars.add_task(printable(label), total=total, left="")
        work, began = TimeLeft(total), time.monotonic()
        self._doing = lambda: f"{escape(label):<42}  {work.words}, after {time.monotonic() - began:,.0f} s"

        def advance(count: int, done: float | None = None, left: float | None = None) -> None:
            work.advance(count, done, left)
            self._bars.update(task, advance=count, left=work.left_words)

        return advance

    def finish_partition(self, stage: str, partition: str | None, rows: int, seconds: float, skipped: bool) -> None:
        """See `Progress.finish_partition`; prints a line after the stage's last partition, and every minute."""
        self._remove_bar()
        tally = self._tallies.setdefault(stage, _Tally())
        tally.partitions += 1
        tally.rows += rows
        tally.seconds += seconds
        tally.skipped += skipped
        self._skipped += skipped
        self._made += not skipped
        expected = self._expected.get(stage, 1)
        if tally.partitions == expected:
            del self._tallies[stage]
            is_minor = tally.seconds < LEAST_SECONDS and not tally.rows
            if is_minor or tally.skipped == tally.partitions:
                self._left_out += 1
            else:
                self._line(stage, tally, counted(expected, "partition") if partition else "")
        elif time.monotonic() - self._last_line > LINE_EVERY_SECONDS:
            self._line(stage, tally, f"{tally.partitions} of {expected}")

    def count_cached(self, stage: str, kept: int, asked: int) -> None:
        """See `Progress.count_cached`."""
        tally = self._tallies.setdefault(stage, _Tally())
        tally.kept += kept
        tally.asked += asked

    def _remove_bar(self) -> None:
        self._doing = None
        if self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None

    def print(self, line: str) -> None:
        """See `Progress.print`."""
        self._write(escape(line))

    def print_if_worked(self, line: str) -> None:
        """Print a line, if anything was made."""
        if self._made:
            self._write(escape(line))

    def summary(self) -> None:
        """Print how many stages had no line, or that everything is up to date."""
        if self._left_out and self._made:
            self._write(f"  and {self._left_out} more tables: unchanged, or empty")
        if not self._quiet and self._skipped and not self._made:
            self._console.print("Everything is up to date: nothing was recomputed.", highlight=False)

    def _line(self, stage: str, tally: _Tally, parts: str) -> None:
        some = f", {tally.skipped} unchanged" if tally.skipped else ""
        some += f", kept answers to {tally.kept:,} of {tally.asked:,} model inputs" if tally.kept else ""
        result = f"{tally.rows:>9,} {'row ' if tally.rows == 1 else 'rows'} {tally.seconds:>7.1f} s{some}"
        self._write(f"  {self._words.get(stage, stage):<28}{parts:>14}  {result}")

    def _write(self, line: str) -> None:
        self._last_line = time.monotonic()
        if not self._quiet:
            self._console.print(line, highlight=False, soft_wrap=True)
