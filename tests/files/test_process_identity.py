"""Processes known by host, pid and start."""

import subprocess
import sys

import psutil
import pytest

from cpmi_dagster.files.process_identity import has_died, this_process

SHOW = "from cpmi_dagster.files.process_identity import this_process; print(this_process())"


def test_a_process_is_known_by_host_pid_and_start():
    ended = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, check=True).stdout.strip()
    host, pid, start = this_process().split()
    assert not has_died(f"{host} {pid} {start}")
    assert has_died(ended)
    assert has_died(f"{host} {pid} 1"), "a pid that is used again is another process"
    assert not has_died("elsewhere 1 1"), "nothing is known of other hosts"
    assert not has_died("")


@pytest.mark.skipif(not psutil.LINUX, reason="sets the clock as Linux shows it")
def test_a_process_is_known_after_the_clock_was_set(monkeypatch):
    named, boot = this_process(), psutil.boot_time()
    monkeypatch.setattr(psutil._pslinux, "boot_time", lambda: boot + 3600)
    assert psutil.boot_time() == boot + 3600
    assert not has_died(named)
