r"""math-verify in worker processes, which are started on demand, reused, and replaced when they end.

    verify(r"\sin^2 x + \cos^2 x", "1")      -> True

Workers are spawned, not forked, so they work from any thread, in other worker processes, and beside libraries that must
not be forked. `LONGEST_WAIT` (seconds) ends a worker that neither answers nor exits.
"""

import atexit
import json
import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from sys import executable

from cpmi_dagster.errors import CpmiError

MAX_WORKERS, LONGEST_WAIT = 2, 600.0
WORKER_SCRIPT = Path(__file__).with_name("math_verify_worker.py")
OUT_OF_TIME = -getattr(signal, "SIGPROF", 0)
_VERDICTS = {"true\n": True, "false\n": False}
_idle: list[Popen[str]] = []  # append and pop are atomic
_slots = threading.BoundedSemaphore(MAX_WORKERS)


def verify(gold: str, candidate: str) -> bool:
    """Whether math-verify finds two answers equivalent; False on a time-out, or if two workers die on the pair.

    Raises:
        CpmiError: math-verify cannot be loaded.
    """
    with _slots:
        for _attempt in range(2):
            worker = _idle.pop() if _idle else _start()
            if (verdict := _ask(worker, json.dumps([gold, candidate]))) is not None:
                _idle.append(worker)
                return verdict
            _stop(worker)
            if worker.returncode > 0:
                raise CpmiError("math-verify cannot be started; reinstall it with `pip install math-verify`")
            if worker.returncode == OUT_OF_TIME:
                break
    return False


def _start() -> Popen[str]:
    command = [executable, "-P", str(WORKER_SCRIPT)]
    return Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, encoding="utf-8")


def _ask(worker: Popen[str], request: str) -> bool | None:
    """The verdict of a worker; None if the worker ends without one."""
    assert worker.stdout is not None
    timer = threading.Timer(LONGEST_WAIT, worker.kill)
    timer.daemon = True
    timer.start()
    with suppress(OSError):
        print(request, file=worker.stdin, flush=True)
    reply = worker.stdout.readline()
    timer.cancel()
    return _VERDICTS.get(reply)


def _stop(worker: Popen[str]) -> None:
    """Kill a worker and close its pipes."""
    with suppress(OSError), worker:
        worker.kill()


@atexit.register
def _stop_all() -> None:
    while _idle:
        _stop(_idle.pop())


def _forget_workers() -> None:
    """Drop the workers in a forked child: they belong to the parent."""
    global _slots
    _slots = threading.BoundedSemaphore(MAX_WORKERS)
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_workers)
