"""Atomic writes: a file or folder is written under a temporary name, then renamed.

with whole_file(Path("out/scores.parquet")) as unfinished:     out/.scores.parquet.5f0c1f2a.cpmi-tmp
    frame.write_parquet(unfinished)                            -> out/scores.parquet

with replace_folder(Path("out/model")) as unfinished:          out/.model.5f0c1f2a.cpmi-tmp/new
    model.save_pretrained(unfinished)                          -> out/model, after out/.model.5f0c1f2a.cpmi-tmp/old

Temporary names are random, because writers on several machines or in containers may share a process id. Their ending
marks them as ours.
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
"""Texts in errors of libraries that cannot write and give no errno; the last is from `torch.save`."""
UNFINISHED = ".cpmi-tmp"
REPLACED = "old"
TOKEN_CHARACTERS = 8
TOKEN = "[0-9a-f]" * TOKEN_CHARACTERS
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; it is renamed to `path` when the block ends, or removed if the block fails.

    Creates the folder, and replaces an older file. If the block fails, files whose names begin with the temporary one
    are removed too.

    Raises:
        StorageError: there is no room for the file, or its folder cannot be written.
    """
    unfinished, is_whole = _unfinished(path), False
    try:
        with explain_write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield unfinished
            os.replace(unfinished, path)
            is_whole = True
    finally:
        if not is_whole:
            for left in path.parent.glob(f"{glob.escape(unfinished.name)}*"):
                _remove(left)


@contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder to write to; it is renamed to `folder` when the block ends, or removed if that fails.

    An older folder stays until the new one is complete, and a second writer waits for the first. What a killed writer
    left is removed, and a folder that it had just renamed gets its name back. On a disk without locks nobody else may
    write the same folder.

    Raises:
        StorageError: there is no room for the folder, or its parent cannot be written.
    """
    with explain_write_errors(folder):
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
def explain_write_errors(path: Path) -> Iterator[None]:
    """Turn errors of libraries that cannot write this path into one sentence.

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
        # without a file name, a permission error may concern anything, such as a signal or a connection
        codes = (*NO_ROOM, errno.EROFS) if name is None else (*NO_ROOM, *NOT_ALLOWED, *IN_THE_WAY)
        is_ours = name is None or _is_written_for(path.absolute(), Path(str(name)).absolute())
        if code is None or code not in codes or not is_ours:
            raise
        raise cannot_be_written(path, OSError(code, os.strerror(code))) from error


def _is_written_for(path: Path, file: Path) -> bool:
    """Whether a file is this path, below it, above it, or a temporary one beside it."""
    if path.is_relative_to(file) or file.is_relative_to(path):
        return True
    return file.is_relative_to(path.parent) and file.relative_to(path.parent).parts[0].startswith(f".{path.name}.")


def cannot_be_written(path: Path, error: OSError) -> StorageError:
    """The error to raise if the operating system refuses to write a file."""
    advice = "make its folder writable" if error.errno in NOT_ALLOWED else "make room on its disk"
    if error.errno in IN_THE_WAY:
        advice = "move away what has its name or that of its folder"
    return StorageError(f"{path} cannot be written ({error.strerror or error}); {advice} and run again")


def remove_unfinished(path: Path) -> None:
    """Remove what killed writers left beside a file or folder, and give a folder that one had renamed its name back.

    The caller holds the lock of its writers.
    """
    for unfinished in path.parent.glob(f".{glob.escape(path.name)}.{TOKEN}{UNFINISHED}*"):
        if (unfinished / REPLACED).exists() and not path.exists():
            (unfinished / REPLACED).rename(path)
        _remove(unfinished)


def _unfinished(path: Path) -> Path:
    """A temporary path beside `path` that no other writer uses."""
    return path.with_name(f".{path.name}.{uuid4().hex[:TOKEN_CHARACTERS]}{UNFINISHED}")


def _remove(unfinished: Path) -> None:
    # if the disk became read-only, the first error is the one to show
    if unfinished.is_dir():
        shutil.rmtree(unfinished, ignore_errors=True)
    else:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes | bytearray) -> None:
    """Write a file atomically; text as UTF-8."""
    with whole_file(path) as unfinished:
        unfinished.write_bytes(content.encode() if isinstance(content, str) else content)


def try_to_write(folder: Path) -> None:
    """Create a folder and, for a moment, a file in it.

    Raises:
        OSError: the folder takes no files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def check_writable(*paths: Path) -> None:
    """Check that outputs can be written, before the work begins.

    Raises:
        SourceError: a path is a folder or ends like a compressed file, or its folder is missing or takes no files.
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
