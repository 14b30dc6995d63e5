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
from cpmi_dagster.files.locks import locked_beside

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NOT_ALLOWED = (errno.EROFS, errno.EACCES, errno.EPERM)
TOKEN_CHARACTERS = 8
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")


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

    An existing folder stays until the new one is complete. A second writer waits for the first. What a killed one left
    is removed first, and a folder that it had just renamed gets its name back. On a disk without locks nobody else must
    write the same folder.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial, replaced = (folder.with_name(f".{folder.name}{suffix}") for suffix in (".partial", ".replaced"))
    with locked_beside(folder, waits=True):
        _tidy(folder, partial, replaced)
        try:
            partial.mkdir()
            yield partial
            if folder.exists():
                folder.rename(replaced)
            partial.rename(folder)
        finally:
            _tidy(folder, partial, replaced)


def _tidy(folder: Path, partial: Path, replaced: Path) -> None:
    """Give a folder that was renamed, and not replaced, its name back; remove what else lies beside it."""
    if replaced.exists() and not folder.exists():
        replaced.rename(folder)
    for leftover in (partial, replaced):
        shutil.rmtree(leftover, ignore_errors=True)


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
        SourceError: a path is a folder, its folder is not there or takes no files, or its name promises compression.
    """
    for path in paths:
        if path.is_dir():
            raise SourceError(f"the output {path} is a folder; give a file name")
        if not path.parent.exists():
            raise SourceError(f"there is no folder {path.parent} for the output {path.name}; create it first")
        if path.suffix in COMPRESSED:
            raise SourceError(f"the output {path} would not be compressed; give a name without {path.suffix}")
        try:
            try_to_write(path.parent)
        except OSError as error:
            raise SourceError(f"the output {path} cannot be written ({error.strerror}); give another place") from error
