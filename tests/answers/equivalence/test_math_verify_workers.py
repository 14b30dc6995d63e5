"""math-verify's worker processes: killed, stopped, out of time, left behind, asked by many threads at once."""

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

from cpmi_dagster.answers.equivalence import math_verify
from cpmi_dagster.answers.equivalence.math_verify import WorkerPool
from cpmi_dagster.errors import CpmiError

pytestmark = pytest.mark.slow

SAME = (r"2\sin x", r"\sin x + \sin x")
ENDLESS = (r"\prod_{k=1}^{3000} (x+k)", "1")
ASK_AND_SHOW_WORKER = f"""
from cpmi_dagster.answers.equivalence import math_verify
assert math_verify.verify(*{SAME!r})
print(math_verify._POOL._idle[0].pid, flush=True)
"""


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    pool = WorkerPool()
    yield pool
    pool.close()


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_killed_worker_is_replaced_whether_it_is_idle_or_starting(pool: WorkerPool):
    for _time in range(2):
        worker = math_verify._started()
        pool._idle.append(worker)
        assert _time == 0 or pool.verify(*SAME)
        os.kill(worker.pid, signal.SIGKILL)
        assert pool.verify(r"3\sin x", r"\sin x + 2\sin x")
        pool.close()


def test_a_worker_killed_at_work_is_replaced(pool: WorkerPool):
    assert pool.verify(*SAME)
    worker = pool._idle[0]
    os.kill(worker.pid, signal.SIGSTOP)
    threading.Timer(0.5, worker.kill).start()
    assert pool.verify(*SAME)
    assert pool._idle[0] is not worker


def test_a_worker_that_stands_still_for_longer_than_a_pair_may_take_gives_the_same_verdict(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch, tmp_path
):
    script = tmp_path / "worker.py"
    source = math_verify.WORKER_SCRIPT.read_text(encoding="utf-8")
    script.write_text(source.replace("PAIR_SECONDS = 4.0", "PAIR_SECONDS = 1.0"), encoding="utf-8")
    monkeypatch.setattr(math_verify, "WORKER_SCRIPT", script)
    assert pool.verify(*SAME)
    worker = psutil.Process(pool._idle[0].pid)
    worker.suspend()
    threading.Timer(3, worker.resume).start()
    assert pool.verify(*SAME)
    assert pool._idle[0].pid == worker.pid


def test_a_pair_that_takes_too_much_of_the_processor_is_not_equivalent_and_the_next_is_judged(pool: WorkerPool):
    assert pool.verify(*SAME)
    slow = pool._idle[0].pid
    assert pool.verify(*ENDLESS) is False
    assert not is_running(slow)
    assert pool.verify(*SAME)


def test_a_worker_that_neither_works_nor_ends_is_replaced(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch):
    assert pool.verify(*SAME)
    stopped = math_verify._started()
    pool._idle.append(stopped)
    os.kill(stopped.pid, signal.SIGSTOP)
    waits = iter([0.2])
    timer = threading.Timer
    monkeypatch.setattr(threading, "Timer", lambda seconds, end: timer(next(waits, seconds), end))
    assert pool.verify(*SAME)
    assert not is_running(stopped.pid)


def test_a_worker_that_cannot_start_is_reported(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setattr(math_verify, "WORKER_SCRIPT", tmp_path / "missing.py")
    with pytest.raises(CpmiError, match="math-verify cannot be started"):
        pool.verify(*SAME)


def test_many_threads_share_few_workers(pool: WorkerPool):
    pairs = [(rf"{n}\sin x", rf"\sin x + {n - 1 + n % 2}\sin x") for n in range(2, 26)]
    with ThreadPoolExecutor(12) as threads:
        verdicts = list(threads.map(lambda pair: pool.verify(*pair), pairs))
    assert verdicts == [n % 2 == 0 for n in range(2, 26)]
    assert len(pool._idle) <= math_verify.MAX_WORKERS


@pytest.mark.parametrize("ends_by_itself", [True, False])
def test_no_worker_outlives_its_interpreter(ends_by_itself: bool):
    code = ASK_AND_SHOW_WORKER if ends_by_itself else f"{ASK_AND_SHOW_WORKER}\nimport time; time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as asking:
        assert asking.stdout is not None
        worker = int(asking.stdout.readline())
        if not ends_by_itself:
            asking.kill()
    wait_until(lambda: not is_running(worker), 120, "the worker goes on")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_leaves_its_parents_workers_alone():
    code = f"""{ASK_AND_SHOW_WORKER}
import os
child = os.fork()
if child == 0:
    os._exit(int(bool(math_verify._POOL._idle)))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert math_verify.verify(*{SAME!r})
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120).returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of memory")
def test_a_worker_keeps_a_limit_that_is_lower_than_its_own():
    code = """
import resource
from cpmi_dagster.answers.equivalence import math_verify_worker as worker
lower = worker.MEMORY_BYTES // 2
resource.setrlimit(resource.RLIMIT_AS, (lower, lower))
worker.limit_memory()
assert resource.getrlimit(resource.RLIMIT_AS) == (lower, lower)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
