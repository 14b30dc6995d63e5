"""One process works on a file at a time; who waits says so, and a file system without locks is named."""

import errno
import threading

import filelock
import pytest

from cpmi_dagster.errors import StorageError
from cpmi_dagster.files import locks
from cpmi_dagster.files.locks import locked


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(locks, "PATIENCE_SECONDS", 0.05)


def test_who_waits_says_so_and_goes_on_when_the_lock_is_free(tmp_path, impatient):
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


def test_a_file_system_that_gives_no_lock_to_anybody_is_named(tmp_path, impatient, monkeypatch):
    monkeypatch.setattr(filelock._unix, "lock_fd_nonblocking", lambda _: False)
    with pytest.raises(StorageError, match=r"has no file locks \(flock\)"), locked(tmp_path / "a.lock"):
        pass


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_a_file_system_that_knows_no_locks_is_named(tmp_path, monkeypatch, number):
    def refuse(_):
        raise OSError(number, "not supported")

    monkeypatch.setattr(filelock._unix, "lock_fd_nonblocking", refuse)
    with pytest.raises(StorageError, match=r"cannot be locked .*not supported.*CPMI_HOME"), locked(tmp_path / "a.lock"):
        pass


def test_a_lock_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"a\.lock cannot be locked"), locked(tmp_path / "file" / "a.lock"):
        pass
