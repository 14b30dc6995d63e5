"""Parquet files that hold the hash of their own bytes, so that a bit that flips anywhere in them is found.

    rows, schema, … {"cpmi": "{…}", "cpmi.seal": "sha256:3f9a…"}     the hash of the file with zeros for these digits

Parquet has checksums of pages too, but polars neither writes nor checks them, and they leave the footer out.
"""

import io
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import polars as pl

from cpmi_dagster.errors import LakeError
from cpmi_dagster.files.file_states import by_state

SEAL_KEY = "cpmi.seal"
MARK = "sha256:"
ZEROS = b"0" * 64
TAIL_BYTES = 4096
"""More than what follows the seal in a file."""


class DamagedFile(LakeError):
    """A file of the lake whose rows cannot be used."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"lake file {path} is damaged ({reason}); run `cpmi run`, which makes it again")


def sealed(frame: pl.DataFrame, footer: Mapping[str, str]) -> tuple[bytearray, str]:
    """The bytes of a Parquet file with a seal, and the seal.

    Args:
        footer: texts to keep in the file beside its rows.
    """
    buffer = io.BytesIO()
    frame.write_parquet(buffer, metadata={**footer, SEAL_KEY: MARK + ZEROS.decode()})
    data = bytearray(buffer.getbuffer())
    place = data.rindex(ZEROS)
    digits = sha256(data).hexdigest()
    data[place : place + len(ZEROS)] = digits.encode()
    return data, digits


@by_state
def checked_seal(path: Path) -> str:
    """The seal of a file, whose bytes are read and compared with it.

    Raises:
        DamagedFile: some byte of the file is not the one that was written.
    """
    if (seal := seal_in(path.read_bytes())) is None:
        raise DamagedFile(path, "its bytes are not those that were written")
    return seal


def seal_in(data: bytes) -> str | None:
    """The seal of a file's bytes; None where some byte is not the one that was written."""
    zeroed = bytearray(data)
    end = max(0, len(data) - TAIL_BYTES)
    found = re.search(MARK.encode() + rb"([0-9a-f]{64})", data[end:])
    if found is None:
        return None
    place = end + found.start(1)
    zeroed[place : place + len(ZEROS)] = ZEROS
    digits = found.group(1).decode()
    return digits if sha256(zeroed).hexdigest() == digits else None
