"""Locks that a process holds for as long as it lives; the system frees them, however the process ends.

hold(Path("alive/7f3a.lock"))    this process takes the lock, and keeps it while the returned object exists
life_of(Path("alive/7f3a.lock")) "held" by a living process, "free" where it has ended, "absent" where none ever held it

Nothing is known by process id or host name, so containers and machines that share the folder see the same.
"""

import fcntl
import os
import uuid
from pathlib import Path
from typing import Literal

from cpmi_dagster.files.locks import no_lock

Life = Literal["held", "free", "absent"]


class LifeLock:
    """A lock file that this object holds; closing it, or the end of the process, frees the lock."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    def close(self) -> None:
        """Free the lock, and remove its file."""
        if self._descriptor is not None:
            self.path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        """Free the lock; the file stays, as after a kill."""
        if self._descriptor is not None:
            os.close(self._descriptor)


def hold(path: Path) -> LifeLock:
    """Take a lock that no other process takes; its file is never seen unlocked while this process lives.

    Raises:
        StorageError: the file cannot be written, or its file system has no locks.
    """
    # under a name of its own until it is locked: whoever finds the file finds it held
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
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
    """Whether the process that took a lock still lives; asking writes nothing.

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
