r"""math-verify in worker processes: started at the first pair, reused, replaced when they end.

    verify(r"\sin^2 x + \cos^2 x", "1")      -> True

A worker is a Python process of its own, started afresh rather than forked, so it can be used from any thread, inside
other worker processes and after libraries that must not be forked. It ends itself at a pair that takes too many seconds
of the processor, whatever else the machine does. `LONGEST_WAIT` is for a worker that neither works nor ends.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from cpmi_dagster.errors import CpmiError

MAX_WORKERS = 2
LONGEST_WAIT = 600.0
WORKER_SCRIPT = Path(__file__).with_name("math_verify_worker.py")
VERDICTS = {"true\n": True, "false\n": False}
OUT_OF_TIME = -signal.SIGPROF if hasattr(signal, "SIGPROF") else None
Worker = subprocess.Popen[str]


class WorkerPool:
    """Idle workers, each lent to one caller at a time."""

    def __init__(self) -> None:
        self._idle: list[Worker] = []  # append and pop are atomic
        self._slots = threading.BoundedSemaphore(MAX_WORKERS)

    def verify(self, gold: str, candidate: str) -> bool:
        """The verdict on one pair; False when it takes too long, or two workers are killed at it.

        Raises:
            CpmiError: math-verify cannot be loaded.
        """
        with self._slots:
            for _attempt in range(2):
                worker = self._idle.pop() if self._idle else _started()
                if (verdict := _asked(worker, json.dumps([gold, candidate]))) is not None:
                    self._idle.append(worker)
                    return verdict
                _stop(worker)
                if worker.returncode == OUT_OF_TIME:
                    return False
                if worker.returncode > 0:
                    raise CpmiError("math-verify cannot be started; reinstall it with `pip install math-verify`")
            return False

    def close(self) -> None:
        """End all idle workers."""
        while self._idle:
            _stop(self._idle.pop())

    def reset_in_child(self) -> None:
        """Drop the workers, which belong to the parent process: a forked child starts its own."""
        self.__init__()


def _started() -> Worker:
    command, pipe = [sys.executable, "-P", str(WORKER_SCRIPT)], subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, encoding="utf-8")


def _asked(worker: Worker, request: str) -> bool | None:
    """The verdict of a worker; None where it ends without one."""
    assert worker.stdout is not None
    timer = threading.Timer(LONGEST_WAIT, worker.kill)
    timer.daemon = True
    timer.start()
    with suppress(OSError):
        print(request, file=worker.stdin, flush=True)
    reply = worker.stdout.readline()
    timer.cancel()
    return VERDICTS.get(reply)


def _stop(worker: Worker) -> None:
    """End a worker and release its pipes."""
    with suppress(OSError), worker:
        worker.kill()


_POOL = WorkerPool()
atexit.register(_POOL.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_POOL.reset_in_child)


def verify(gold: str, candidate: str) -> bool:
    """Whether math-verify finds two answers equivalent; never hangs. Raises what `WorkerPool.verify` does."""
    return _POOL.verify(gold, candidate)
