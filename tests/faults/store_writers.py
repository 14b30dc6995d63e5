"""Two runs on one object store, one of them frozen (SIGSTOP) in the moment of its write: the late write is refused.

    PYTHONPATH=.:tests python tests/faults/store_writers.py

Both label the first shard of one home, each with the folder of copies and the Dagster history of a machine of its own.
The first is stopped when it is about to commit its hard negatives, and goes on when the second has finished the shard.
Its write is refused, it says so, takes the other's rows, and ends well. The tables are those of an undisturbed home.
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

write, stopped = ObjectStore.write, []

def stop_once(self, name, data, over=None):
    if "/{TABLE}/" in f"/{{name}}" and "/.work/" not in name and not stopped:
        stopped.append(name)
        os.kill(os.getpid(), signal.SIGSTOP)
    return write(self, name, data, over)

ObjectStore.write = stop_once
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


def freeze_and_thaw(environment: Mapping[str, str], profile: str, folder: Path) -> str:
    """Have one run frozen in its write while another finishes the shard; what the first says in the end.

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
    return _end(late)


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
        said = freeze_and_thaw({"CPMI_HOME": home}, profile, folder)
        print(said.strip())
        assert f"{TABLE} 000 was made by another run" in said, "the late run did not say that it was refused"

        from kill_labeling import compare

        compare(home, folder / "undisturbed", shards=1)
        print("the late write was refused; the tables are those of an undisturbed run")


if __name__ == "__main__":
    main()
