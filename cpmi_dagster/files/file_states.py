"""Caches what was read of a file until the file's state changes.

file_state(Path("rows.jsonl"))      FileState(inode=1835, size=4711, modified=1763…, changed=1763…)
file_digest(Path("rows.jsonl"))     "5f0c1f2a…"     its sha256; the second call reads nothing

A state includes the time at which the inode changed: no program can set it back, as copying tools set back the time of
modification.
"""

import hashlib
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import NamedTuple, TypeVar

from cpmi_dagster.errors import SourceError

Value = TypeVar("Value")
SETTLED_NANOSECONDS = 2_000_000_000
"""A file that changed less than this ago may change again without a later time: clocks of file systems are coarse."""
AHEAD_NANOSECONDS = 60_000_000_000
"""A time further ahead means that this machine's clock was set back: a change would have an earlier time."""


class FileState(NamedTuple):
    """Inode, size in bytes and times in nanoseconds, one of which differs after every change of a file."""

    inode: int
    size: int
    modified: int
    changed: int

    @property
    def is_settled(self) -> bool:
        """Whether any later change gives another state."""
        return not -AHEAD_NANOSECONDS <= time.time_ns() - self.changed <= SETTLED_NANOSECONDS


def file_state(file: Path) -> FileState:
    """The current state of a file."""
    stat = file.stat()
    return FileState(stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def by_state(read: Callable[[Path], Value]) -> Callable[[Path], Value]:
    """Cache a function of a file in this process, by the state of the file."""
    cache: dict[Path, tuple[FileState, Value]] = {}

    @wraps(read)
    def read_cached(file: Path) -> Value:
        state, entry = file_state(file), cache.get(file)
        if entry is not None and entry[0] == state:
            return entry[1]
        value = read(file)
        if state.is_settled:
            cache[file] = state, value
        return value

    return read_cached


@by_state
def file_digest(file: Path) -> str:
    """The sha256 of a file.

    Raises:
        SourceError: the file changed while it was read.
    """
    before = file_state(file)
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if file_state(file) != before:
        raise changed_while_read(str(file))
    return digest


def changed_while_read(place: str) -> SourceError:
    """The error to raise if rows may come from two versions of a file."""
    return SourceError(f"{place} changed while it was read; run again when nothing writes to it any more")
