"""math-verify's worker processes: killed, out of time, left behind, asked by many threads at once."""

import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest
from waiting import wait_until

from cpmi_dagster.answers import math_verify_pool as pool

pytestmark = pytest.mark.slow

SAME = (r"2\sin x", r"\sin x + \sin x")
ENDLESS = (r"\prod_{k=1}^{3000} (x+k)", "1")


@pytest.fixture(scope="module", autouse=True)
def no_workers() -> Iterator[None]:
    pool._stop_all()
    yield
    pool._stop_all()


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_pair_that_takes_too_much_of_the_processor_is_not_equivalent_and_the_next_is_judged(tmp_path, monkeypatch):
    script = pool.WORKER_SCRIPT.read_text(encoding="utf-8")
    (tmp_path / "worker.py").write_text(script.replace("BYTES = 4.0", "BYTES = 0.5"), encoding="utf-8")
    pool._stop_all()
    monkeypatch.setattr(pool, "WORKER_SCRIPT", tmp_path / "worker.py")
    assert pool.verify(*SAME)
    slow = pool._idle[-1].pid
    assert pool.verify(*ENDLESS) is False
    assert not is_running(slow)
    assert pool.verify(*SAME)


def test_a_forked_child_leaves_its_parents_workers_alone_and_none_outlives_a_killed_interpreter():
    code = f"""
import os, time
from cpmi_dagster.answers import math_verify_pool as pool
assert pool.verify(*{SAME!r})
child = os.fork()
if child == 0:
    os._exit(int(bool(pool._idle)))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert pool.verify(*{SAME!r})
print(pool._idle[0].pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as asking:
        assert asking.stdout is not None
        worker = int(asking.stdout.readline())
        asking.kill()
    wait_until(lambda: not is_running(worker), 120, "the worker goes on")
