"""Two runs on one object store, one of them frozen (SIGSTOP) in the moment of its write: the first file stays.

    PYTHONPATH=.:tests python tests/faults/store_writers.py

Both label the first shard of one home, each with the folder of copies and the Dagster history of a machine of its own.
The first is stopped when it is about to commit its hard negatives, and goes on when the second has finished the shard.
It finds the other's file under the name of its own, reads that, and ends well. The tables are those of an undisturbed
home, and none of them has two files.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from small_run import SMALL, write_profile
from store_server import BUCKET, s3_server
from waiting import wait_until

from cpmi_dagster.resources.dag.automation import LABEL_TABLES
from cpmi_dagster.resources.lake.lake import Lake

ROOT = Path(__file__).resolve().parents[2]
BEFORE_LABELS = ("--only", "sources", "--only", "alignment", "--only", "selection")
LABELS = ("--only", "labels", "--shards", "0")
TABLE = "labels/hard_negatives"
SECONDS = 600
CPMI = ("-m", "cpmi_dagster")
# runs `cpmi` in a process that stops itself once, before it sends the rows of a table
FROZEN = f"""
import os, signal, sys
from cpmi_dagster.resources.lake.object_store import ObjectStore

create, stopped = ObjectStore.create, []

def stop_once(self, name, data):
    if "/{TABLE}/" in f"/{{name}}" and not stopped:
        stopped.append(name)
        os.kill(os.getpid(), signal.SIGSTOP)
    return create(self, name, data)

ObjectStore.create = stop_once
from cpmi_dagster.cli import main
sys.argv[0] = "cpmi"
main()
"""


def start(environment: Mapping[str, str], cache: Path, *arguments: str, program: tuple[str, ...] = CPMI):
    """`cpmi` with a folder of copies of its own."""
    own = {**os.environ, **environment, "CPMI_CACHE": str(cache), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, *program, *arguments], env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def freeze_and_thaw(environment: Mapping[str, str], profile: str, folder: Path) -> None:
    """Have one run frozen in its write while another finishes the shard.

    Raises:
        AssertionError: a run failed.
    """
    run = ("run", "-p", profile, "--quiet")
    _end(start(environment, folder / "first", *run, *BEFORE_LABELS))
    late = start(environment, folder / "first", *run, *LABELS, program=("-c", FROZEN))
    try:
        _wait_until_stopped(late)
        _end(start(environment, folder / "second", *run, *LABELS))
    finally:
        late.send_signal(signal.SIGCONT)
    _end(late)


def _wait_until_stopped(process: "subprocess.Popen[str]") -> None:
    def is_stopped() -> bool:
        assert process.poll() is None, f"it ended before its write: {process.communicate()[0]}"
        return psutil.Process(process.pid).status() == psutil.STATUS_STOPPED

    wait_until(is_stopped, SECONDS, "it did not come to its write")


def _end(process: "subprocess.Popen[str]") -> str:
    output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, output
    return output


def main() -> None:
    """Start a server, freeze and thaw, and compare with an undisturbed home in a folder."""
    with TemporaryDirectory() as name, s3_server() as variables:
        folder = Path(name)
        os.environ.update(variables, CPMI_CACHE=str(folder / "looks"))
        profile, home = write_profile(folder / "small.yaml", SMALL), f"s3://{BUCKET}/late/home"
        for only in (BEFORE_LABELS, LABELS):
            undisturbed = {"CPMI_HOME": str(folder / "undisturbed")}
            _end(start(undisturbed, folder, "run", "-p", profile, "--quiet", *only))
        freeze_and_thaw({"CPMI_HOME": home}, profile, folder)

        from kill_labeling import PROFILE, compare

        compare(home, folder / "undisturbed", shards=1)
        lake = Lake(home, PROFILE)
        files = {key: lake.tables.names(key, "000") for key in LABEL_TABLES}
        assert all(len(names) == 1 for names in files.values()), files
        print("the first file stayed; the tables are those of an undisturbed run")


if __name__ == "__main__":
    main()
