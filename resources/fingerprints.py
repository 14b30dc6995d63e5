"""Hashes by which rows and what they depend on are known again."""

import hashlib
import io
import json
from collections.abc import Mapping
from typing import Any

import polars as pl

HASHED_ROWS = 100_000
"""Rows that are written out at once to be hashed."""


def rows_hash(frame: pl.DataFrame) -> str:
    """Sha256 of the values of a frame, whichever larger frame they are a part of, and whatever memory they lie in."""
    digest = hashlib.sha256()
    for rows in frame.iter_slices(HASHED_ROWS):
        digest.update(rows.write_ndjson().encode())
    return digest.hexdigest()


def earlier_hash(frame: pl.DataFrame) -> str:
    """What fingerprints of earlier versions have in place of `rows_hash`; it depends on how polars keeps the rows."""
    buffer = io.BytesIO()
    frame.rechunk().write_ipc(buffer)
    return hashlib.sha256(buffer.getbuffer()).hexdigest()


def fingerprint_of(parts: Mapping[str, Any]) -> str:
    """Sha256 of a JSON-able description."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
