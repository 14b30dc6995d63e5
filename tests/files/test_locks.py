"""Locks between processes: one works and the others wait, a dead one holds nothing, a disk without locks is named."""

import errno
import subprocess
import sys
import threading

import filelock
import pytest

from cpmi_dagster.errors import StorageError
from cpmi_dagster.files import life_locks, locks
from cpmi_dagster.files.life_locks import hold, life_of
from cpmi_dagster.files.locks import locked

HOLD = """
import sys
from pathlib import Path
from cpmi_dagster.files.life_locks import hold
lock = hold(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_who_waits_says_so_and_goes_on_when_the_lock_is_free(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "PATIENCE_SECONDS", 0.05)
    path, said, is_taken, was_said = tmp_path / "new" / "a.lock", [], threading.Event(), threading.Event()

    def say(line: str) -> None:
        said.append(line)
        was_said.set()

    def work():
        with locked(path):
            is_taken.set()
            was_said.wait(120)

    other = threading.Thread(target=work)
    other.start()
    is_taken.wait()
    with locked(path, say):
        assert len(said) == 1 and "another process holds" in said[0]
    other.join()
    assert [file.name for file in path.parent.iterdir()] == ["a.lock"]


def test_a_file_system_that_knows_no_locks_is_named(tmp_path, monkeypatch):
    held = hold(tmp_path / "held.lock")

    def refuse(*_):
        raise OSError(errno.ENOLCK, "not supported")

    monkeypatch.setattr(filelock._unix, "lock_fd_nonblocking", refuse)
    monkeypatch.setattr(life_locks.fcntl, "flock", refuse)
    for ask in (lambda path: locked(path).__enter__(), hold, life_of):
        with pytest.raises(StorageError, match=r"cannot be locked .*not supported.*CPMI_HOME"):
            ask(held.path)


def test_a_lock_is_held_while_its_process_lives_and_free_once_it_is_killed(tmp_path):
    path = tmp_path / "alive" / "run.lock"
    assert life_of(path) == "absent"
    command = [sys.executable, "-c", HOLD, str(path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "held\n"
    assert [life_of(path), life_of(path)] == ["held", "held"]
    process.kill()
    process.communicate()
    assert life_of(path) == "free"
