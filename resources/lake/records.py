"""The record of a file of the lake, and the contract of its rows.

Record("labels/hard_negatives", "003", key="5f0c…", run_id="9b21…", facts={"code_version": "7", "seed": 0, …})
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import polars as pl
from dataframely.exc import SchemaError, ValidationError

from cpmi_dagster.contracts.tables import TABLES, provenance_of
from cpmi_dagster.errors import LakeError

FOOTER = "cpmi"
"""The name of the record among a file's metadata."""
HASHED_ROWS = 100_000
"""Rows per chunk of hashing."""


@dataclass(frozen=True)
class Record:
    """What made a file of the lake.

    Attributes:
        key: hash of `facts`; a file is current if its key is the one that would be made now.
        facts: code version, columns, seed, settings, models, sources, and the content of each input.
        content: hash of the rows.
        cost: of the model answers that the rows use; of a stage's several tables, the first has it.
        files: paths that the rows name, relative to the home: reward models, the report.
        digests: hash of bytes by file.
        written_at: when these rows were made first; making equal rows again by the same model does not change it.
    """

    table: str
    partition: str | None
    key: str
    run_id: str
    model: str = ""
    code_version: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    content: str = ""
    cost: Mapping[str, float] = field(default_factory=dict)
    notes: Sequence[str] = ()
    files: Sequence[str] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    rows: int = 0
    written_at: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """The seed, recipe and settings by dotted path that the rows depend on."""
        named = {name: self.facts[name] for name in ("seed", "recipe") if name in self.facts}
        return named | dict(self.facts.get("settings", {}))

    @property
    def inputs(self) -> dict[str, Any]:
        """The inputs, sources and models, by kind and name."""
        return {name: self.facts[name] for name in ("inputs", "sources", "models") if name in self.facts}


def rows_hash(frame: pl.DataFrame) -> str:
    """The SHA-256 of a frame's values, independent of slicing and memory layout."""
    digest = sha256()
    for rows in frame.iter_slices(HASHED_ROWS):
        digest.update(rows.write_ndjson().encode())
    return digest.hexdigest()


def hash_of(facts: Any) -> str:
    """The SHA-256 of a value that JSON can hold."""
    return sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


def check_rows(frame: pl.DataFrame, key: str) -> pl.DataFrame:
    """Rows cast to the types of a table.

    Raises:
        LakeError: they break the table's contract; names the rule and a row.
    """
    try:
        return TABLES[key].schema.validate(frame, cast=True)
    except (SchemaError, ValidationError, pl.exceptions.PolarsError) as error:
        raise LakeError(f"{key}: the rows break the table's contract, nothing was written: {error}") from error


def with_provenance(frame: pl.DataFrame, record: Record) -> pl.DataFrame:
    """Rows with their provenance columns."""
    columns = provenance_of(TABLES[record.table]).items()
    return frame.with_columns(pl.lit(getattr(record, name), dtype).alias(name) for name, dtype in columns)
