"""Two `cpmi run` of one shard: one is killed at each of the worst moments, and the other goes on at once."""

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import dagster as dg
import pytest
from kill_labeling import ROOT, compare, remove_tables
from stopping_run import ASKING, MOMENTS, NEVER, READY

from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.dagster_home import open_instance
from cpmi_dagster.resources.lake.calls import CALLS

pytestmark = pytest.mark.slow

TABLE = "labels/answer_logprobs"
PROGRAM = Path(__file__).with_name("stopping_run.py")
LONGEST_SECONDS = 300


class Run:
    """A run of one shard that stops at a moment."""

    def __init__(self, home: Path, profile: str, moment: str) -> None:
        self.moment, self.said = moment, ""
        options = ["-p", profile, "--quiet", "--shards", "0", "--only", TABLE]
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), moment, *options],
            env=os.environ | {"CPMI_HOME": str(home), "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def wait_for(self, *wanted: str) -> None:
        """Wait until the run has said one of some lines.

        Raises:
            AssertionError: it ended before.
        """
        assert self.process.stdout
        while self.said not in wanted:
            line = self.process.stdout.readline()
            assert line, f"the run ended before {wanted}"
            self.said = line.strip()

    def begin(self) -> None:
        """Let the run begin once it is ready, and wait until it stops or asks for the partition's lock."""
        self.wait_for(READY)
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.wait_for(ASKING, self.moment)

    def end(self) -> None:
        """Kill the run, unless it has ended."""
        self.process.kill()
        self.process.wait()


def statuses(settings: Settings) -> list[str]:
    """How the runs of a home ended, the latest first."""
    with open_instance(settings) as instance:
        return [run.status.name for run in instance.get_runs()]


def test_each_run_goes_on_where_the_one_before_it_was_killed(own_copy, finished_home, small_profile):
    before = len(statuses(own_copy))
    remove_tables(own_copy.home, [TABLE], "000")
    shutil.rmtree(own_copy.home / "lake" / TABLE / CALLS)
    with ExitStack() as stack:
        runs = [Run(own_copy.home, small_profile, moment) for moment in MOMENTS]
        for run in runs:
            stack.callback(run.end)
        first, *others = runs
        first.begin()
        for run in others:
            first.wait_for(first.moment)
            run.begin()
            first.end()
            first = run
        assert first.moment == NEVER
        assert first.process.wait(LONGEST_SECONDS) == 0
    compare(own_copy.home, finished_home, [TABLE], shards=1)
    failure, success = dg.DagsterRunStatus.FAILURE.name, dg.DagsterRunStatus.SUCCESS.name
    assert statuses(own_copy)[:-before] == [success, *[failure] * (len(MOMENTS) - 1)]
