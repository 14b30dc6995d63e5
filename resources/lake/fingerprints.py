"""Hashes of rows, and of the facts that rows are made from."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import polars as pl

from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.contracts.tables import columns_of as table_columns

HASHED_ROWS = 100_000
"""Rows that are written out at once to be hashed."""


def rows_hash(frame: pl.DataFrame) -> str:
    """Sha256 of the values of a frame, whichever larger frame they are a part of, and whatever memory they lie in."""
    digest = hashlib.sha256()
    for rows in frame.iter_slices(HASHED_ROWS):
        digest.update(rows.write_ndjson().encode())
    return digest.hexdigest()


def fingerprint_of(parts: Mapping[str, Any]) -> str:
    """Sha256 of a JSON-able description."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def columns_of(table: str) -> dict[str, str]:
    """Columns and types of a table as fingerprints have them: a category that is added changes no row."""
    kinds = table_columns(TABLES[table]).items()
    return {name: "Enum" if isinstance(kind, pl.Enum) else str(kind) for name, kind in kinds}
