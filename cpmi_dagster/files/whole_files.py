"""Files that exist whole or not at all: written under a temporary name, then renamed.

with whole_file(Path("out/scores.parquet")) as unfinished:     out/.scores.parquet.4711.tmp
    frame.write_parquet(unfinished)                            -> out/scores.parquet
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cpmi_dagster.errors import SourceError


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a name to write under; the file takes its own name when the block ends, and is gone if the block fails.

    Args:
        path: The file's final path; its folder is made if absent, an older file there is replaced.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    unfinished.unlink(missing_ok=True)
    try:
        yield unfinished
        os.replace(unfinished, path)
    finally:
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
