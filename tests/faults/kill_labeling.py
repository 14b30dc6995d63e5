"""`kill -9` at random moments of a labeling run of four shards: its tables end as those of an undisturbed one.

    PYTHONPATH=.:tests python tests/faults/kill_labeling.py --kills 30 --seed 0

Whenever a run gets to its end between kills, its tables are compared, and all labels are made once more.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import polars.selectors as cs
from polars.testing import assert_frame_equal
from small_run import SMALL, write_profile

from cpmi_dagster.files.whole_files import UNFINISHED
from cpmi_dagster.resources.answers.cache import COST
from cpmi_dagster.resources.dag.jobs import LABEL, PHASES
from cpmi_dagster.resources.lake.lake import CALLS, Lake

ROOT = Path(__file__).resolve().parents[2]
BEFORE_LABELS = ("sources", "alignment", "selection")
MEASURED = cs.contains("seconds")
"""Columns that differ from run to run."""
ROUNDING = 1e-4
"""Of what is computed from log-probabilities, which other rows share a pass with after a kill (decision 20)."""
LONGEST_RUN_SECONDS = 1800
MANY = 1_000


def start(profile: str, home: Path, *groups: str, shards: str | None = None) -> subprocess.Popen[bytes]:
    """`cpmi run` of some groups, in a process group of its own; all shards, or as `--shards` says."""
    only = [argument for group in groups for argument in ("--only", group)]
    chosen = [f"--shards={shards}"] if shards else []
    command = [sys.executable, "-m", "cpmi_dagster", "run", "-p", profile, "--quiet", *only, *chosen]
    environment = {**os.environ, "CPMI_HOME": str(home), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, start_new_session=True)


def label_and_kill(
    profile: str, home: Path, undisturbed: Path, kills: int, seconds: float, seed: int, shards: int = 4
) -> None:
    """Label the first shards of a home, killed at moments of the first `seconds` and resumed, and compare it."""
    moments, left, stretch = random.Random(seed), kills, f"0-{shards - 1}"
    while left:
        run = start(profile, home, "labels", shards=stretch)
        moment = time.monotonic() + moments.uniform(0, seconds)
        with suppress(subprocess.TimeoutExpired):
            run.wait(moment - time.monotonic())
        if left % 2:  # every other kill finds unfinished work
            freeze_at_work(run, home)
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
            left -= 1
        else:
            assert run.returncode == 0, "a resumed run failed"
            compare(home, undisturbed, shards=shards)
            shutil.rmtree(home / "lake" / "labels")
    assert start(profile, home, "labels", shards=stretch).wait(LONGEST_RUN_SECONDS) == 0, "the last run failed"
    compare(home, undisturbed, shards=shards)


def freeze_at_work(run: subprocess.Popen[bytes], home: Path) -> None:
    """Stop a run (SIGSTOP) when it has just kept answers of a model, unless it ends before."""
    labels = home / "lake" / "labels"
    known = len(list(answer_files(labels)))
    while run.poll() is None:
        if len(list(answer_files(labels))) > known:
            os.killpg(run.pid, signal.SIGSTOP)
            return
        time.sleep(0.02)


def answer_files(folder: Path) -> Iterator[Path]:
    """The files in which answers of models are kept, below a folder of the lake."""
    return folder.glob(f"**/{CALLS}/*/*/*/*.parquet")


def compare(home: Path, undisturbed: Path, shards: int = MANY) -> None:
    """Assert that the first shards have the same labels, no model was asked twice, and nothing is left over."""
    lake, other = Lake(home), Lake(undisturbed)
    for key in PHASES[LABEL]:
        names = other.partitions(key)[:shards]
        assert lake.partitions(key)[:shards] == names, f"{key} has other shards"
        for shard in names:
            rows, expected = lake.read(key, shard).drop(MEASURED), other.read(key, shard).drop(MEASURED)
            assert_frame_equal(rows, expected, rel_tol=0, abs_tol=ROUNDING)
    for folder in {path.parent for path in answer_files(home / "lake" / "labels")}:
        answers = pl.concat(map(pl.read_parquet, sorted(folder.glob("*.parquet")))).drop(COST)
        assert not answers.is_duplicated().any(), f"a model was asked twice: {folder}"
    remaining = list(leftovers(home))
    assert not remaining, f"left over: {remaining}"


def leftovers(home: Path) -> Iterator[str]:
    """Files of a home that belong to no table, report or lock."""
    for path in home.rglob("*"):
        inside = path.relative_to(home)
        if path.is_file() and (path.name.endswith((UNFINISHED, ".duckdb.wal")) or ".work" in inside.parts):
            yield str(inside)


def main() -> None:
    """Make a home without labels, label a copy of it undisturbed, and another one under kills."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name)
        profile, undisturbed, home = write_profile(folder / "small.yaml", SMALL), folder / "whole", folder / "killed"
        assert start(profile, undisturbed, *BEFORE_LABELS).wait(LONGEST_RUN_SECONDS) == 0
        shutil.copytree(undisturbed, home)
        began = time.monotonic()
        assert start(profile, undisturbed, "labels").wait(LONGEST_RUN_SECONDS) == 0
        seconds = time.monotonic() - began
        label_and_kill(profile, home, undisturbed, chosen.kills, seconds, chosen.seed)
        taken = time.monotonic() - began
        print(f"{chosen.kills} kills in a run of {seconds:.0f} s, {taken:.0f} s in all: the tables are the same")


if __name__ == "__main__":
    main()
