"""A lock says whether the process that took it lives, whatever that process's id or host."""

import subprocess
import sys

import pytest

from cpmi_dagster.errors import StorageError
from cpmi_dagster.files import life_locks
from cpmi_dagster.files.life_locks import hold, life_of

HOLD = """
import sys
from pathlib import Path
from cpmi_dagster.files.life_locks import hold
lock = hold(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_is_held_while_its_process_lives_and_free_once_it_is_killed(tmp_path):
    path = tmp_path / "alive" / "run.lock"
    assert life_of(path) == "absent"
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout and process.stdout.readline() == "held\n"
    assert life_of(path) == "held"
    process.kill()
    process.communicate()
    assert life_of(path) == "free"


def test_asking_does_not_take_the_lock_and_one_that_is_closed_leaves_no_file(tmp_path):
    lock = hold(tmp_path / "run.lock")
    assert [life_of(lock.path) for _ in range(2)] == ["held", "held"]
    del lock
    assert [life_of(tmp_path / "run.lock") for _ in range(2)] == ["free", "free"]
    hold(tmp_path / "run.lock").close()
    assert not list(tmp_path.iterdir())


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    held = hold(tmp_path / "held.lock")

    def refuse(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(life_locks.fcntl, "flock", refuse)
    for ask in (hold, life_of):
        with pytest.raises(StorageError, match=r"cannot be locked \(Function not implemented\); put CPMI_HOME"):
            ask(held.path)
    assert list(tmp_path.iterdir()) == [held.path]


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    for ask in (hold, life_of):
        with pytest.raises(StorageError, match=r"run\.lock cannot be locked"):
            ask(tmp_path / "file" / "run.lock")
