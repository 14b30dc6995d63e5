"""Hashes by which rows and what they depend on are known again."""

import hashlib
import io
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from cpmi_dagster.contracts.tables import TABLES, fingerprinted_columns
from cpmi_dagster.resources.extent import recorded_setting

if TYPE_CHECKING:
    from cpmi_dagster.resources.lake import FileRecord, Lake

HASHED_ROWS = 100_000
"""Rows that are written out at once to be hashed."""
CATEGORIES = re.compile(r"Enum\(categories=\[[^\]]*\]\)")


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


def columns_of(table: str, with_categories: bool = False) -> dict[str, str]:
    """Columns and types of a table as fingerprints know them: a category that is added changes no row."""
    kinds = {name: str(kind) for name, kind in fingerprinted_columns(TABLES[table]).items()}
    return kinds if with_categories else {name: CATEGORIES.sub("Enum", kind) for name, kind in kinds.items()}


def content_of(lake: "Lake", key: str, partition: str | None) -> str:
    """The hash of the rows of a file.

    Raises:
        LakeError: the file is missing.
    """
    record = lake.record(key, partition)
    if record is None:
        raise lake.missing(key, partition)
    return record.content


def as_recorded(lake: "Lake", record: "FileRecord", facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts with settings and inputs as a file of an earlier version names them, where they are the same."""
    recorded = {path: value for path, value in record.settings.items() if path != "seed"}
    inputs = record.inputs["inputs"]
    same = all(recorded_setting(recorded, path) == value for path, value in facts["settings"].items()) and all(
        inputs.get(key) in (version, content_of(lake, key, record.partition))
        for key, version in facts["inputs"].items()
    )
    return {**facts, "settings": recorded, "inputs": inputs} if same else {}
