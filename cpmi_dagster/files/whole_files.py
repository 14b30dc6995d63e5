"""Files that exist whole or not at all: written under a temporary name, then renamed.

with whole_file(Path("out/scores.parquet")) as unfinished:     out/.scores.parquet.5f0c1f2a.cpmi-tmp
    frame.write_parquet(unfinished)                            -> out/scores.parquet

with written_at_once(Path("out/model")) as unfinished:         out/.model.5f0c1f2a.cpmi-tmp/new
    model.save_pretrained(unfinished)                          -> out/model, after out/.model.5f0c1f2a.cpmi-tmp/old

The temporary name is drawn at random: writers on several machines, or in containers, may have the same process id. Its
ending marks it as ours.
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

from cpmi_dagster.errors import CpmiError, SourceError, StorageError
from cpmi_dagster.files.locks import locked_beside

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NOT_ALLOWED = (errno.EROFS, errno.EACCES, errno.EPERM)
IN_THE_WAY = (errno.EISDIR, errno.EEXIST, errno.ENOTDIR, errno.ENOTEMPTY)
CODES = {os.strerror(code): code for code in (*NO_ROOM, errno.EROFS)} | {"unexpected pos": errno.ENOSPC}
"""Texts by which libraries report that they cannot write, without an errno; the last is that of `torch.save`."""
UNFINISHED = ".cpmi-tmp"
REPLACED = "old"
TOKEN_CHARACTERS = 8
TOKEN = "[0-9a-f]" * TOKEN_CHARACTERS
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a name to write under; the file takes its own name when the block ends, and is gone if the block fails.

    What a library has written beside it, under a name that begins with this one, goes too if the block fails.

    Args:
        path: The file's final path; its folder is made if absent, an older file there is replaced.

    Raises:
        StorageError: there is no room for it, or its folder cannot be written.
    """
    unfinished, is_whole = _unfinished(path), False
    try:
        with refusals_named(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield unfinished
            os.replace(unfinished, path)
            is_whole = True
    finally:
        if not is_whole:
            for left in path.parent.glob(f"{glob.escape(unfinished.name)}*"):
                _remove(left)


@contextmanager
def written_at_once(folder: Path) -> Iterator[Path]:
    """A folder that appears when it is complete, or not at all: written below a hidden sibling, and renamed to
    `folder` when the block succeeds; the sibling is removed when it fails.

    An existing folder stays until the new one is complete. A second writer waits for the first. What a killed one left
    is removed first, and a folder that it had just renamed gets its name back. On a disk without locks nobody else must
    write the same folder.

    Raises:
        StorageError: there is no room for it, or its parent cannot be written.
    """
    with refusals_named(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked_beside(folder):
            remove_unfinished(folder)
            unfinished = _unfinished(folder)
            new = unfinished / "new"
            try:
                new.mkdir(parents=True)
                yield new
                if folder.exists():
                    folder.rename(unfinished / REPLACED)
                new.rename(folder)
            finally:
                remove_unfinished(folder)


@contextmanager
def refusals_named(path: Path) -> Iterator[None]:
    """Say in one sentence where the operating system refuses to write; libraries say it in words of their own.

    Raises:
        StorageError: there is no room, or this path or one beside it cannot be written.
    """
    try:
        yield
    except CpmiError:
        raise
    except Exception as error:
        code = getattr(error, "errno", None) or next((CODES[text] for text in CODES if text in str(error)), None)
        name = getattr(error, "filename", None)
        # without a name, a refusal may be of anything: a signal, a connection
        codes = (*NO_ROOM, errno.EROFS) if name is None else (*NO_ROOM, *NOT_ALLOWED, *IN_THE_WAY)
        is_ours = name is None or _is_written_for(path.absolute(), Path(str(name)).absolute())
        if code is None or code not in codes or not is_ours:
            raise
        raise cannot_be_written(path, OSError(code, os.strerror(code))) from error


def _is_written_for(path: Path, file: Path) -> bool:
    """Whether a file is this path, in it, a folder above it, or a temporary one beside it."""
    if path.is_relative_to(file) or file.is_relative_to(path):
        return True
    return file.is_relative_to(path.parent) and file.relative_to(path.parent).parts[0].startswith(f".{path.name}.")


def cannot_be_written(path: Path, error: OSError) -> StorageError:
    """The error to raise where the operating system refuses to write a file."""
    advice = "make its folder writable" if error.errno in NOT_ALLOWED else "make room on its disk"
    if error.errno in IN_THE_WAY:
        advice = "move away what has its name or that of its folder"
    return StorageError(f"{path} cannot be written ({error.strerror or error}); {advice} and run again")


def remove_unfinished(path: Path) -> None:
    """Remove what killed writers of a file or folder left beside it; a folder that one had renamed gets its name back.

    The caller holds the lock under which it is written.
    """
    for unfinished in path.parent.glob(f".{glob.escape(path.name)}.{TOKEN}{UNFINISHED}*"):
        if (unfinished / REPLACED).exists() and not path.exists():
            (unfinished / REPLACED).rename(path)
        _remove(unfinished)


def _unfinished(path: Path) -> Path:
    """A name beside a path that nobody else gives to a file."""
    return path.with_name(f".{path.name}.{uuid4().hex[:TOKEN_CHARACTERS]}{UNFINISHED}")


def _remove(unfinished: Path) -> None:
    # on a disk that became read-only nothing can be removed, and the first error is the one to show
    if unfinished.is_dir():
        shutil.rmtree(unfinished, ignore_errors=True)
    else:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes | bytearray) -> None:
    """Write a file with `whole_file`; text as UTF-8."""
    with whole_file(path) as unfinished:
        unfinished.write_bytes(content.encode() if isinstance(content, str) else content)


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
