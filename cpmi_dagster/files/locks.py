"""Locks between processes, on files of the home: one of them makes a table's file, and the others wait.

A lock saves work. What is written is right without it: fingerprints and renames see to that.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from filelock import FileLock, Timeout

from cpmi_dagster.errors import StorageError

PATIENCE_SECONDS = 10.0
"""How long a lock may be held by another process before this one says that it waits."""
LOG = logging.getLogger(__name__)


@contextmanager
def locked(path: Path, say: Callable[[str], object] = LOG.warning, *, stays: bool = True) -> Iterator[None]:
    """Hold a lock until the block ends.

    Args:
        path: the lock's file.
        say: takes a sentence where another process holds the lock for long.
        stays: whether the file stays; one in a folder of the user's is removed while the lock is still held.

    Raises:
        StorageError: the file cannot be written, or its file system has no locks.
    """
    lock = file_lock(path)
    try:
        _acquire(lock, PATIENCE_SECONDS)
    except Timeout:
        _check_file_system(path)
        say(f"another process holds the lock {path}; waiting until it has finished (Ctrl-C to stop waiting)")
        _acquire(lock)
    try:
        yield
    finally:
        _release(lock, stays)


@contextmanager
def locked_if_free(path: Path, *, stays: bool = True) -> Iterator[bool]:
    """Hold a lock until the block ends, unless another process holds it: then the block gets False.

    Args:
        path: the lock's file.
        stays: see `locked`.

    Raises:
        StorageError: the file cannot be written, or its file system has no locks.
    """
    lock = file_lock(path)
    try:
        _acquire(lock, 0)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        _release(lock, stays)


def file_lock(path: Path) -> FileLock:
    """A lock that ends with its process; a soft lock in its place would stay when the process is killed."""
    return FileLock(path, fallback_to_soft=False)


def _release(lock: FileLock, stays: bool) -> None:
    if not stays:
        # who waits for it sees that the file it has opened is gone, and takes the lock on a new one
        with suppress(OSError):
            Path(lock.lock_file).unlink(missing_ok=True)
    lock.release()


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
    """What a user reads where a file cannot be written, or its file system has no locks."""
    return StorageError(
        f"{path} cannot be locked ({error.strerror or error}); put CPMI_HOME on a disk that you may write to and "
        "that has file locks"
    )


def _check_file_system(path: Path) -> None:
    """Take a lock that nobody else knows of: where that fails, it has no locks."""
    probe = path.with_name(f".probe-{uuid4().hex}")
    try:
        _acquire(file_lock(probe), PATIENCE_SECONDS)
    except Timeout as error:
        raise StorageError(
            f"the file system of {path} has no file locks (flock), so two runs could do the same work; put CPMI_HOME "
            "on one that has"
        ) from error
    finally:
        probe.unlink(missing_ok=True)
