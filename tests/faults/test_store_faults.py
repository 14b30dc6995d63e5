"""Faults on an object store: a writer that comes late (whole runs: `store_writers.py`), runs that are killed."""

import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import psutil
import pytest
from kill_labeling import LONGEST_RUN_SECONDS, compare, start
from waiting import wait_until

from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.records import FileRecord

ROOT = Path(__file__).resolve().parents[2]
KEY = "labels/hard_negatives"
ROWS = pl.DataFrame({"trajectory_id": ["t1", "t1"], "rank": [1, 2], "answer": ["3", "5"], "source": ["model", "+1"]})
SECONDS = 600
# makes other rows of the same, as models on other cards may, and stops itself when it is about to send them
LATE = f"""
import os, signal, sys
import obstore, polars as pl
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.records import FileRecord

put = obstore.put
def stop(*args, **options):
    if not stopped:
        stopped.append(True)
        os.kill(os.getpid(), signal.SIGSTOP)
    return put(*args, **options)

lake, stopped, obstore.put = Lake(sys.argv[1], "miniature"), [], stop
rows = pl.DataFrame({{"trajectory_id": ["t1"], "rank": [1], "answer": ["late"], "source": ["model"]}})
print(lake.write(rows, FileRecord("{KEY}", "000", "late", "m", "1")).run_id)
"""


def test_a_writer_frozen_in_its_write_takes_the_file_of_one_that_has_finished(s3_home):
    lake = Lake(s3_home, "miniature")
    late = subprocess.Popen([sys.executable, "-c", LATE, s3_home], cwd=ROOT, stdout=subprocess.PIPE, text=True)

    def is_stopped() -> bool:
        assert late.poll() is None, "it ended before its write"
        return psutil.Process(late.pid).status() == psutil.STATUS_STOPPED

    try:
        wait_until(is_stopped, SECONDS, "it did not come to its write")
        lake.write(ROWS, FileRecord(KEY, "000", "first", "m", "1"))
    finally:
        late.send_signal(signal.SIGCONT)
    said, _ = late.communicate(timeout=SECONDS)
    assert said.strip() == "first"
    lake.files.look_again()
    assert lake.record(KEY, "000").run_id == "first"
    assert lake.read(KEY, "000").equals(ROWS)
    assert len(lake.files.names(f"lake/{KEY}/000")) == 1


def unfinished(home: str) -> list[str]:
    """The objects of unfinished shards."""
    import obstore
    from obstore.store import from_url

    return [found["path"] for page in obstore.list(from_url(home), "lake/.work") for found in page]


def label_and_kill(profile: str, home: str, chunks: int) -> None:
    """Start labeling, and kill it when so many objects of unfinished shards are there."""
    run = start(profile, home, "labels")
    wait_until(lambda: run.poll() is not None or len(unfinished(home)) >= chunks, LONGEST_RUN_SECONDS, "no chunk")
    run.kill()
    assert run.wait() == -signal.SIGKILL, "it ended before it was killed"


@pytest.mark.slow
def test_a_labeling_that_is_killed_on_a_store_continues_and_ends_as_an_undisturbed_one(
    s3_home, small_profile, finished_home, put_on_store
):
    put_on_store(s3_home, without=("labels", "dataset", "models", "benchmarks", "reports"))
    for chunks in (1, 3):
        label_and_kill(small_profile, s3_home, chunks)
    assert start(small_profile, s3_home, "labels").wait(LONGEST_RUN_SECONDS) == 0
    compare(s3_home, finished_home)
