"""File locks between processes: one of them writes a table's file, and the others wait.

A lock saves work; without it, keys and renames still keep what is written correct.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from filelock import FileLock, Timeout

from cpmi_dagster.errors import StorageError

PATIENCE_SECONDS = 10.0
"""How long this process waits in silence for a lock that another holds."""
LOG = logging.getLogger(__name__)


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
