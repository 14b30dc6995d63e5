"""math-verify in worker processes: started at the first pair, reused, replaced when they hang or exit.

    verify(r"\\sin^2 x + \\cos^2 x", "1")      -> True

A worker is a Python process of its own, started afresh rather than forked, so it can be used from any thread, inside
other worker processes and after libraries that must not be forked. A pair that takes longer than `PAIR_SECONDS` counts
as not equivalent; its worker is ended, and another is started at once so that the next pair need not wait for it.
"""

import atexit
import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from cpmi_dagster.errors import CpmiError

PAIR_SECONDS = 4.0
START_SECONDS = 120.0
MAX_WORKERS = 2
WORKER_SCRIPT = Path(__file__).with_name("math_verify_worker.py")
READY = "ready\n"
VERDICTS = {"true\n": True, "false\n": False}


class WorkerDied(Exception):
    """A worker ended without answering."""


class TimedOut(Exception):
    """A worker was ended because it took too long."""


class Worker:
    """One math-verify process."""

    def __init__(self) -> None:
        self.is_ready = False
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(WORKER_SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )

    def wait_until_ready(self) -> None:
        """Wait for the libraries to load, where they have not yet.

        Raises:
            CpmiError: they cannot be loaded.
        """
        if self.is_ready:
            return
        with suppress(WorkerDied, TimedOut):
            self.is_ready = self._read_line(START_SECONDS) == READY
        if not self.is_ready:
            self.stop()
            raise CpmiError("math-verify cannot be started; reinstall it with `pip install math-verify`")

    def judge(self, gold: str, candidate: str) -> bool:
        """The verdict on one pair, within `PAIR_SECONDS`."""
        try:
            print(json.dumps([gold, candidate]), file=self.process.stdin, flush=True)
        except OSError as error:
            raise WorkerDied from error
        verdict = VERDICTS.get(self._read_line(PAIR_SECONDS))
        if verdict is None:
            raise WorkerDied
        return verdict

    def stop(self) -> None:
        """End the process and release its pipes."""
        with suppress(OSError), self.process:
            self.process.kill()

    def _read_line(self, seconds: float) -> str:
        assert self.process.stdout is not None
        expired = threading.Event()
        timer = threading.Timer(seconds, lambda: (expired.set(), self.process.kill()))
        timer.daemon = True
        timer.start()
        try:
            line = self.process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            raise TimedOut if expired.is_set() else WorkerDied
        return line


class WorkerPool:
    """Idle workers, each lent to one caller at a time."""

    def __init__(self) -> None:
        self._idle: list[Worker] = []  # append and pop are atomic
        self._slots = threading.BoundedSemaphore(MAX_WORKERS)

    def verify(self, gold: str, candidate: str) -> bool:
        """The verdict on one pair; False when it takes too long or breaks its worker twice."""
        with self._slots:
            for _attempt in range(2):
                worker = self._take()
                try:
                    verdict = worker.judge(gold, candidate)
                except TimedOut:
                    worker.stop()
                    self._idle.append(Worker())
                    return False
                except WorkerDied:
                    worker.stop()
                    continue
                self._idle.append(worker)
                return verdict
            return False

    def close(self) -> None:
        """End all idle workers."""
        idle, self._idle = self._idle, []
        for worker in idle:
            worker.stop()

    def reset_in_child(self) -> None:
        """Drop the workers, which belong to the parent process: a forked child starts its own."""
        self.__init__()

    def _take(self) -> Worker:
        with suppress(IndexError, CpmiError):  # no worker is idle, or it was killed while it was starting
            idle = self._idle.pop()
            idle.wait_until_ready()
            return idle
        worker = Worker()
        worker.wait_until_ready()
        return worker


_POOL = WorkerPool()
atexit.register(_POOL.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_POOL.reset_in_child)


def verify(gold: str, candidate: str) -> bool:
    """Whether math-verify finds two answers equivalent; never hangs.

    Raises:
        CpmiError: math-verify is not installed.
    """
    return _POOL.verify(gold, candidate)
