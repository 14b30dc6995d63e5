"""Torch takes as many threads as there are free cores when a process loads its first model on the CPU."""

import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.models import processors

CORES = st.integers(1, 256)


@given(st.floats(0, 1000), CORES, CORES)
def test_threads_are_at_least_one_and_no_more_than_free_or_allowed_cores(busy, usable, cores):
    threads = processors.threads_beside(busy, usable, cores)
    assert 1 <= threads <= usable and (threads == 1 or threads <= cores - busy + 0.5)


@pytest.mark.parametrize(
    ("load", "given", "threads"),
    [
        ("6.1 3.0 2.0 8/300 99", "", 2),
        ("40.0 3.0 2.0 90/300 99", "", 1),
        ("6.1 3.0 2.0 1/300 99", "", None),  # over by now
        ("0.1 3.0 2.0 7/300 99", "", None),  # not for long
        ("6.1 3.0 2.0 7/300 99", "8", None),
    ],
)
def test_threads_leave_busy_cores_to_others_which_is_said(tmp_path, monkeypatch, caplog, load, given, threads):
    (tmp_path / "loadavg").write_text(load)
    monkeypatch.setattr(processors, "LOAD", tmp_path / "loadavg")
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    taken = []
    monkeypatch.setattr(torch, "set_num_threads", taken.append)
    monkeypatch.setenv(processors.THREADS, given)
    processors._fit_threads.cache_clear()
    for _ in range(2):
        assert processors.resolve_device("cpu") == "cpu"
    assert taken == ([] if threads is None else [threads])
    said = f"other work on this machine is a load of {load.split()[0]} on 8 cores, of which this process may use 8"
    assert caplog.text.count(said) == len(taken)
