"""Locks that a process holds while it lives; the system frees them, however the process ends.

hold(Path("alive/7f3a.lock"))       takes the lock; it is held while the returned object exists
life_of(Path("alive/7f3a.lock"))    "held" by a living process, "free" if that has ended, "absent" if there is no file

No process id or host name is involved, so containers and machines that share the folder see the same.
"""

import fcntl
import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Literal

from cpmi_dagster.files.locks import no_lock

Life = Literal["held", "free", "absent"]


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
