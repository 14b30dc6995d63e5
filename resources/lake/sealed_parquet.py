"""Parquet files that hold the hash of their bytes, so that any flipped bit is found.

    rows, schema, … {"cpmi": "{…}", "cpmi.seal": "sha256:3f9a…"}     the hash of the file with zeros for these digits

Parquet's checksums of pages do not cover the footer, where a flipped bit can crash the reader.
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
"""Metadata of a file before it is sealed."""
TAIL_BYTES = 4096
"""Bytes at the end of a file within which the seal stands."""


class DamagedFile(LakeError):
    """A file of the lake whose rows cannot be used; `option` names the profile that makes it again."""

    def __init__(self, path: Path, reason: str, option: str = "") -> None:
        super().__init__(f"lake file {path} is damaged ({reason}); run `cpmi run{option}`, which makes it again")


def write_sealed(frame: pl.DataFrame, path: Path, footer: Mapping[str, str]) -> None:
    """Write a sealed file, whole or not at all.

    Args:
        footer: metadata, as texts by name.

    Raises:
        StorageError: the disk is full, or the folder cannot be written.
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
    """Whether every byte of a file is as it was written; cached by the state of the file.

    Raises:
        OSError: the file cannot be read.
    """
    data = bytearray(path.read_bytes())
    start = max(0, len(data) - TAIL_BYTES)
    marks = list(re.finditer(MARK + rb"([0-9a-f]{64})", data[start:]))
    if not marks:
        return False
    # texts among the rows may look like a seal, but stand before it
    last = marks[-1]
    place = start + last.start(1)
    data[place : place + len(ZEROS)] = ZEROS
    return sha256(data).hexdigest().encode() == last.group(1)
