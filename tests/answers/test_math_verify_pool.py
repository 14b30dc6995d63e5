"""math-verify's worker processes: killed, out of time, left behind, asked by many threads at once."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from waiting import wait_until

from cpmi_dagster.answers import math_verify_pool as pool
from cpmi_dagster.errors import CpmiError

pytestmark = pytest.mark.slow

SAME = (r"2\sin x", r"\sin x + \sin x")
ENDLESS = (r"\prod_{k=1}^{3000} (x+k)", "1")
ASK_AND_SHOW_WORKER = f"""
from cpmi_dagster.answers import math_verify_pool as pool
assert pool.verify(*{SAME!r})
print(pool._idle[0].pid, flush=True)
"""


@pytest.fixture(autouse=True)
def no_workers() -> Iterator[None]:
    pool._stop_all()
    yield
    pool._stop_all()


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_killed_worker_is_replaced_whether_it_is_idle_or_at_work():
    assert pool.verify(*SAME)
    os.kill(pool._idle[0].pid, signal.SIGKILL)
    assert pool.verify(r"3\sin x", r"\sin x + 2\sin x")
    worker = pool._idle[0]
    os.kill(worker.pid, signal.SIGSTOP)
    threading.Timer(0.5, worker.kill).start()
    assert pool.verify(*SAME)
    assert pool._idle[0] is not worker


def test_a_pair_that_takes_too_much_of_the_processor_is_not_equivalent_and_the_next_is_judged():
    assert pool.verify(*SAME)
    slow = pool._idle[0].pid
    assert pool.verify(*ENDLESS) is False
    assert not is_running(slow)
    assert pool.verify(*SAME)


def test_a_worker_that_neither_works_nor_ends_is_replaced(monkeypatch: pytest.MonkeyPatch):
    assert pool.verify(*SAME)
    stopped = pool._idle[0]
    os.kill(stopped.pid, signal.SIGSTOP)
    waits, timer = iter([0.2]), threading.Timer
    monkeypatch.setattr(threading, "Timer", lambda seconds, end: timer(next(waits, seconds), end))
    assert pool.verify(*SAME)
    assert not is_running(stopped.pid)


def test_a_worker_that_cannot_start_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setattr(pool, "WORKER_SCRIPT", tmp_path / "missing.py")
    with pytest.raises(CpmiError, match="math-verify cannot be started"):
        pool.verify(*SAME)


def test_many_threads_share_few_workers():
    pairs = [(rf"{n}\sin x", rf"\sin x + {n - 1 + n % 2}\sin x") for n in range(2, 26)]
    with ThreadPoolExecutor(12) as threads:
        verdicts = list(threads.map(lambda pair: pool.verify(*pair), pairs))
    assert verdicts == [n % 2 == 0 for n in range(2, 26)]
    assert len(pool._idle) <= pool.MAX_WORKERS


def test_no_worker_outlives_its_interpreter_even_if_that_is_killed():
    code = f"{ASK_AND_SHOW_WORKER}\nimport time; time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as asking:
        assert asking.stdout is not None
        worker = int(asking.stdout.readline())
        asking.kill()
    wait_until(lambda: not is_running(worker), 120, "the worker goes on")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_leaves_its_parents_workers_alone():
    code = f"""{ASK_AND_SHOW_WORKER}
import os
child = os.fork()
if child == 0:
    os._exit(int(bool(pool._idle)))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert pool.verify(*{SAME!r})
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120).returncode == 0
