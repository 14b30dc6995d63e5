"""What a file's bytes are, read once a process: again only where the file's state shows that it was changed.

file_state(Path("rows.jsonl"))      FileState(inode=1835, size=4711, modified=1763…, changed=1763…)
file_digest(Path("rows.jsonl"))     "5f0c1f2a…"     its sha256; the second call reads nothing

The time of the last change of the inode is part of a state: no program can set it back, as copying tools do with the
time of modification.
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
"""A file that was changed this short a time ago could change again without a later time: clocks of files are coarse."""
AHEAD_NANOSECONDS = 60_000_000_000
"""Further ahead is no file server's clock: this machine's was set back, and a change would have an earlier time."""


class FileState(NamedTuple):
    """What changes with every change of a file."""

    inode: int
    size: int
    modified: int
    changed: int

    @property
    def is_settled(self) -> bool:
        """Whether a further change would give another state."""
        return not -AHEAD_NANOSECONDS <= time.time_ns() - self.changed <= SETTLED_NANOSECONDS


def file_state(file: Path) -> FileState:
    """The state a file is in."""
    found = file.stat()
    return FileState(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def by_state(read: Callable[[Path], Value]) -> Callable[[Path], Value]:
    """A function of a file that is called once a process for each state of the file."""
    known: dict[Path, tuple[FileState, Value]] = {}

    @wraps(read)
    def remembered(file: Path) -> Value:
        state = file_state(file)
        found = known.get(file)
        if found is not None and found[0] == state:
            return found[1]
        value = read(file)
        if state.is_settled:
            known[file] = state, value
        return value

    return remembered


@by_state
def file_digest(file: Path) -> str:
    """Sha256 of a file.

    Raises:
        SourceError: somebody wrote to the file meanwhile.
    """
    before = file_state(file)
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if file_state(file) != before:
        raise changed_while_read(str(file))
    return digest


def changed_while_read(place: str) -> SourceError:
    """The error to raise where rows may be of two versions of a file."""
    return SourceError(f"{place} changed while it was read; run again when nothing writes to it any more")
