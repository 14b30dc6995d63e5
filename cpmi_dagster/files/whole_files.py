"""Files that exist whole or not at all: written under a temporary name, then renamed.

with whole_file(Path("out/scores.parquet")) as unfinished:     out/.scores.parquet.5f0c1f2a.tmp
    frame.write_parquet(unfinished)                            -> out/scores.parquet

The temporary name is drawn at random: writers on several machines, or in containers, may have the same process id.
"""

import errno
import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from cpmi_dagster.errors import SourceError, StorageError
from cpmi_dagster.files.life_locks import hold, life_of

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NOT_ALLOWED = (errno.EROFS, errno.EACCES, errno.EPERM)
TOKEN_CHARACTERS = 8
ALIVE, PARTIAL, REPLACED = ".alive", ".partial", ".replaced"
"""Ends of the names beside a folder that is being written: a lock of its writer, the new folder, the old one."""


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a name to write under; the file takes its own name when the block ends, and is gone if the block fails.

    Args:
        path: The file's final path; its folder is made if absent, an older file there is replaced.

    Raises:
        StorageError: there is no room for it, or its folder cannot be written.
    """
    unfinished = path.with_name(f".{path.name}.{uuid4().hex[:TOKEN_CHARACTERS]}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield unfinished
        os.replace(unfinished, path)
    except OSError as error:
        if error.errno not in (*NO_ROOM, *NOT_ALLOWED):
            raise
        raise cannot_be_written(path, error) from error
    finally:
        _remove(unfinished)


@contextmanager
def written_at_once(folder: Path) -> Iterator[Path]:
    """A folder that appears when it is complete, or not at all: a hidden sibling to write into, renamed to
    `folder` when the block succeeds and removed when it fails.

    An existing folder stays until the new one is complete; of several writers the last one's stays. What killed
    writers left is removed first, and a folder that one of them had just renamed gets its name back.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    _tidy_siblings(folder)
    mine = folder.parent / f".{folder.name}.{uuid4().hex[:TOKEN_CHARACTERS]}"
    alive, partial, replaced = (mine.with_name(mine.name + suffix) for suffix in (ALIVE, PARTIAL, REPLACED))
    life = None
    with suppress(StorageError):  # without locks on its disk, a second writer takes this one for a killed one
        life = hold(alive)
    try:
        partial.mkdir()
        yield partial
        _swap(folder, partial, replaced)
    finally:
        if replaced.exists() and not folder.exists():
            replaced.rename(folder)  # interrupted between two renames
        for leftover in (partial, replaced):
            shutil.rmtree(leftover, ignore_errors=True)
        if life:
            life.close()


def _swap(folder: Path, new: Path, replaced: Path) -> None:
    """Rename a folder out of the way, and a complete one to its name."""
    for is_last in (False, False, True):
        with suppress(FileNotFoundError):
            folder.rename(replaced)
        try:
            new.rename(folder)
            return
        except OSError:
            if is_last or not folder.exists():
                raise
            # another writer was faster: its folder is the one to replace
            shutil.rmtree(replaced, ignore_errors=True)


def _tidy_siblings(folder: Path) -> None:
    """Remove what killed writers of a folder left, and give a folder back its name that one of them had renamed."""
    token = "[0-9a-f]" * TOKEN_CHARACTERS  # what begins alike may be of a folder with a longer name
    for sibling in folder.parent.glob(f".{glob.escape(folder.name)}.{token}.*"):
        mine, kind = sibling.with_suffix(""), sibling.suffix
        if kind not in (PARTIAL, REPLACED) or life_of(mine.with_name(mine.name + ALIVE)) == "held":
            continue
        if kind == REPLACED and not folder.exists():
            sibling.rename(folder)
        shutil.rmtree(sibling, ignore_errors=True)
        mine.with_name(mine.name + ALIVE).unlink(missing_ok=True)


def cannot_be_written(path: Path, error: OSError) -> StorageError:
    """The error to raise where the operating system refuses to write a file."""
    advice = "make its folder writable" if error.errno in NOT_ALLOWED else "make room on its disk"
    return StorageError(f"{path} cannot be written ({error.strerror or error}); {advice} and run again")


def remove_unfinished(path: Path) -> None:
    """Remove what killed writers of a file left beside it; the caller holds the lock under which it is written."""
    for unfinished in path.parent.glob(f".{glob.escape(path.name)}.*"):
        _remove(unfinished)


def _remove(unfinished: Path) -> None:
    # on a disk that became read-only nothing can be removed, and the first error is the one to show
    with suppress(OSError):
        unfinished.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write a text file with `whole_file`."""
    with whole_file(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", newline="\n")


def try_to_write(folder: Path) -> None:
    """Make a folder and a file in it, which is gone at once.

    Raises:
        OSError: it takes no files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def check_writable(*paths: Path) -> None:
    """Find out before the work whether its outputs can be written.

    Raises:
        SourceError: a path is a folder, or its folder takes no files.
    """
    for path in paths:
        if path.is_dir():
            raise SourceError(f"the output {path} is a folder; give a file name")
        try:
            try_to_write(path.parent)
        except OSError as error:
            raise SourceError(f"the output {path} cannot be written ({error.strerror}); give another place") from error
