"""Eight runs at once on overlapping shards, and an analyst who asks every second: none fails, shards are seen whole.

    PYTHONPATH=.:tests python tests/faults/runs_at_once.py --runs 8

Each run labels half of the shards, beginning with another one. The labels end as those of one undisturbed run.
"""

import argparse
import shutil
import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from kill_labeling import BEFORE_LABELS, LONGEST_RUN_SECONDS, compare, start
from small_run import SMALL, write_profile

from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.query import query

SHARDS = 8
TABLES = ("answer_logprobs", "policy_rollouts", "step_rewards")
ROWS_BY_SHARD = """
    select shard, count(*) from labels.{table} join selection.selected_trajectories using (trajectory_id) group by shard
"""
ASK_EVERY_SECONDS = 1.0


def label_at_once(profile: str, home: Path, runs: int) -> list[subprocess.Popen[bytes]]:
    """Start runs on half of the shards each."""
    started = []
    for number in range(runs):
        shards = [str((number * SHARDS // runs + shard) % SHARDS) for shard in range(SHARDS // 2)]
        started.append(start(profile, home, "labels", shards=",".join(shards)))
    return started


def watch(settings: Settings, runs: list[subprocess.Popen[bytes]]) -> dict[tuple[str, str], set[int]]:
    """Ask until all runs have ended; returns the row counts that each shard of each table was seen with."""
    seen: dict[tuple[str, str], set[int]] = defaultdict(set)
    deadline, asked, slowest = time.monotonic() + LONGEST_RUN_SECONDS, 0, 0.0
    alive = True
    while alive:
        alive = any(run.poll() is None for run in runs)
        assert time.monotonic() < deadline, "the runs do not end"
        for table in TABLES:
            began = time.monotonic()
            answer = query(settings, ROWS_BY_SHARD.format(table=table))
            slowest, asked = max(slowest, time.monotonic() - began), asked + 1
            for shard, rows in answer.rows.iter_rows():
                seen[table, shard].add(rows)
        time.sleep(ASK_EVERY_SECONDS)
    print(f"{asked} queries beside the runs, the slowest in {slowest:.1f} s")
    return seen


def check_whole(seen: dict[tuple[str, str], set[int]], home: Path) -> None:
    """Assert that every shard was seen, and with all of its rows or not at all."""
    lake = Lake(home)
    assert {key for key, counts in seen.items() if counts} == {
        (table, shard) for table in TABLES for shard in lake.partitions(f"labels/{table}")
    }, "the queries beside the runs have not seen every shard"
    for (table, shard), counts in seen.items():
        rows = lake.read(f"labels/{table}", shard).height
        assert counts == {rows}, f"{table} {shard} has {rows} rows and was seen with {sorted(counts)}"


def main() -> None:
    """Label a home by one run and a copy of it by many at once, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=8)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        values = {**SMALL, "shards": SHARDS, "selection": {"trajectories": 4 * SHARDS}}
        profile, undisturbed, home = write_profile(folder / "small.yaml", values), folder / "one", folder / "many"
        assert start(profile, undisturbed, *BEFORE_LABELS).wait(LONGEST_RUN_SECONDS) == 0
        shutil.copytree(undisturbed, home)
        assert start(profile, undisturbed, "labels").wait(LONGEST_RUN_SECONDS) == 0
        began = time.monotonic()
        runs = label_at_once(profile, home, chosen.runs)
        try:
            seen = watch(load_settings(profile, home), runs)
        finally:
            for run in runs:
                run.terminate()
        assert [run.returncode for run in runs] == [0] * chosen.runs, "a run failed"
        compare(home, undisturbed)
        check_whole(seen, home)
        taken = time.monotonic() - began
        print(f"{chosen.runs} runs at once, {taken:.0f} s: {SHARDS} shards, each seen whole or not at all")


if __name__ == "__main__":
    main()
