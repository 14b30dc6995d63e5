"""Parquet files that hold the hash of their own bytes, so that a bit that flips anywhere in them is found.

    rows, schema, … {"cpmi": "{…}", "cpmi.seal": "sha256:3f9a…"}     the hash of the file with zeros for these digits

Parquet has checksums of pages too; they leave the footer out, where a flipped bit can end the reader's process.
"""

import re
from collections.abc import Mapping
from hashlib import file_digest, sha256
from pathlib import Path

import polars as pl

from cpmi_dagster.errors import LakeError
from cpmi_dagster.files.file_states import by_state
from cpmi_dagster.files.whole_files import whole_file

MARK = b"sha256:"
ZEROS = b"0" * 64
SEAL = {"cpmi.seal": (MARK + ZEROS).decode()}
"""Metadata of a file that is to be sealed."""
TAIL_BYTES = 4096
"""More than what follows the seal in a file."""


class DamagedFile(LakeError):
    """A file of the lake whose rows cannot be used."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"lake file {path} is damaged ({reason}); run `cpmi run`, which makes it again")


def write_sealed(frame: pl.DataFrame, path: Path, footer: Mapping[str, str]) -> None:
    """Write a sealed file, whole or not at all.

    Args:
        footer: texts to keep in the file beside its rows.

    Raises:
        StorageError: there is no room, or the folder cannot be written.
    """
    with whole_file(path) as unfinished:
        frame.write_parquet(unfinished, metadata={**footer, **SEAL})
        seal(unfinished)


def seal(path: Path) -> None:
    """Put the hash of a file's bytes into it, in place of the zeros of `SEAL`."""
    with path.open("r+b") as file:
        digits = file_digest(file, "sha256").hexdigest()
        start = max(0, file.seek(0, 2) - TAIL_BYTES)
        file.seek(start)
        file.seek(start + file.read().rindex(ZEROS))
        file.write(digits.encode())


@by_state
def is_intact(path: Path) -> bool:
    """Whether every byte of a file is the one that was written; read once a process for each state of the file.

    Raises:
        OSError: it cannot be read.
    """
    data = bytearray(path.read_bytes())
    start = max(0, len(data) - TAIL_BYTES)
    marks = list(re.finditer(MARK + rb"([0-9a-f]{64})", data[start:]))
    if not marks:
        return False
    # texts of the file, which come before, may look like it
    last = marks[-1]
    place = start + last.start(1)
    data[place : place + len(ZEROS)] = ZEROS
    return sha256(data).hexdigest().encode() == last.group(1)
