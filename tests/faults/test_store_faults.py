"""Faults on an object store: a writer that comes late (with whole runs: `store_writers.py`), runs that are killed."""

import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import psutil
import pytest
from kill_labeling import LONGEST_RUN_SECONDS, compare, start
from waiting import wait_until

from cpmi_dagster.resources.lake.lake import FileRecord, Lake

ROOT = Path(__file__).resolve().parents[2]
KEY = "labels/hard_negatives"
ROWS = pl.DataFrame({"trajectory_id": ["t1", "t1"], "rank": [1, 2], "answer": ["3", "5"], "source": ["model", "+1"]})
SECONDS = 600
# writes rows of its own, and stops itself when it is about to send them
LATE = f"""
import os, signal, sys
import obstore, polars as pl
from cpmi_dagster.errors import CpmiError
from cpmi_dagster.resources.lake.lake import FileRecord, Lake

put = obstore.put
def stop(*args, **options):
    os.kill(os.getpid(), signal.SIGSTOP)
    return put(*args, **options)

lake = Lake(sys.argv[1])
lake = lake.at({{}}, lake.begun(["{KEY}"], "000"))
obstore.put = stop
rows = pl.DataFrame({{"trajectory_id": ["t1"], "rank": [1], "answer": ["late"], "source": ["model"]}})
try:
    lake.write(rows, FileRecord("{KEY}", "000", "late", "late", "m", "1"))
except CpmiError as error:
    print(error)
"""


def is_stopped(process: "subprocess.Popen[str]") -> bool:
    assert process.poll() is None, "it ended before its write"
    return psutil.Process(process.pid).status() == psutil.STATUS_STOPPED


@pytest.mark.parametrize("replaces", [False, True], ids=["a new object", "a replacement"])
def test_a_writer_frozen_in_its_write_is_refused_when_another_has_finished(s3_home, replaces):
    lake = Lake(s3_home)
    if replaces:
        lake.write(ROWS.head(1), FileRecord(KEY, "000", "first", "r", "m", "1"))
    late = subprocess.Popen([sys.executable, "-c", LATE, s3_home], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: is_stopped(late), SECONDS, "it did not come to its write")
        lake.write(ROWS, FileRecord(KEY, "000", "second", "r", "m", "1"))
    finally:
        late.send_signal(signal.SIGCONT)
    said, _ = late.communicate(timeout=SECONDS)
    assert said.startswith(f"{KEY} 000 was made by another run while this one was making it too")
    lake.files.look_again()
    assert lake.record(KEY, "000").fingerprint == "second"
    assert lake.read(KEY, "000").equals(ROWS)


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
