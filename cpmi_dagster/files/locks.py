"""Locks between processes, which the system frees however a process ends.

locked(Path("000.lock"))            one process writes a file, the others wait; without it, work would be done twice
hold(Path("alive/7f3a.lock"))       says that its process lives: it is held while the returned object exists
life_of(Path("alive/7f3a.lock"))    "held" by a living process, "free" if that has ended, "absent" if there is no file

No process id or host name is involved, so containers and machines that share the folder see the same.
"""

import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Literal
from uuid import uuid4

from filelock import FileLock, Timeout

from cpmi_dagster.errors import StorageError

PATIENCE_SECONDS = 10.0
"""How long this process waits in silence for a lock that another holds."""
LOG = logging.getLogger(__name__)
Life = Literal["held", "free", "absent"]


@contextmanager
def locked(path: Path, say: Callable[[str], object] = LOG.warning) -> Iterator[None]:
    """Hold a lock until the block ends.

    Args:
        path: the lock file; it is left in place.
        say: takes a sentence if this process has to wait for long.

    Raises:
        StorageError: the file cannot be written, or its file system has no locks.
    """
    lock = file_lock(path)
    try:
        _acquire(lock, PATIENCE_SECONDS)
    except Timeout:
        # nobody else knows of this lock: if it cannot be taken either, the file system has no locks
        probe = path.with_name(f".probe-{uuid4().hex}")
        try:
            _acquire(file_lock(probe), PATIENCE_SECONDS)
        except Timeout as error:
            raise StorageError(
                f"the file system of {path} has no file locks (flock), so two runs could do the same work; put "
                "CPMI_HOME on one that has"
            ) from error
        finally:
            probe.unlink(missing_ok=True)
        say(f"another process holds the lock {path}; waiting until it has finished")
        _acquire(lock)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def locked_beside(path: Path) -> Iterator[None]:
    """Hold the lock `.NAME.lock` beside a file or folder of the user until the block ends, and remove it then.

    On a disk without locks the block runs without one.
    """
    lock = path.with_name(f".{path.name}.lock")

    def remove() -> None:
        with suppress(OSError):
            lock.unlink(missing_ok=True)

    with ExitStack() as held:
        with suppress(StorageError):
            held.enter_context(locked(lock))
            # removed before it is released: a waiting process sees that its file is gone, and locks a new one
            held.callback(remove)
        yield


def file_lock(path: Path) -> FileLock:
    """A lock that ends with its process; a soft lock would stay after a kill."""
    return FileLock(path, fallback_to_soft=False)


def _acquire(lock: FileLock, timeout: float = -1) -> None:
    path = Path(lock.lock_file)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=timeout)
    except Timeout:
        raise
    except OSError as error:
        raise no_lock(path, error) from error


def no_lock(path: Path, error: OSError) -> StorageError:
    """The error to raise if a lock file cannot be written, or its file system has no locks."""
    return StorageError(
        f"{path} cannot be locked ({error.strerror or error}); put CPMI_HOME on a disk that you may write to and "
        "that has file locks"
    )


class LifeLock:
    """A lock file that is locked until this object is closed or the process ends."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    def close(self) -> None:
        """Free the lock, and remove its file unless another process has taken the lock under this name since."""
        if self._descriptor is not None:
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self._descriptor), self.path.stat()):
                    self.path.unlink()
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        """Free the lock; the file stays, as after a kill."""
        if self._descriptor is not None:
            os.close(self._descriptor)


def hold(path: Path) -> LifeLock:
    """Take a lock under a new name; nobody sees its file unlocked while this process lives.

    Raises:
        StorageError: the file cannot be written, or its file system has no locks.
    """
    # locked under a temporary name first: whoever sees the file sees it locked
    unfinished = path.with_name(f".{path.name}.{uuid4().hex}")
    descriptor = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.replace(unfinished, path)
    except OSError as error:
        if descriptor is not None:
            os.close(descriptor)
            unfinished.unlink(missing_ok=True)
        raise no_lock(path, error) from error
    return LifeLock(path, descriptor)


def life_of(path: Path) -> Life:
    """Whether the process that took a lock still lives; writes nothing.

    Raises:
        StorageError: the file cannot be read, or its file system has no locks.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return "absent"
    except OSError as error:
        raise no_lock(path, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return "held"
    except OSError as error:
        raise no_lock(path, error) from error
    finally:
        os.close(descriptor)
    return "free"
