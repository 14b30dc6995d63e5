"""A file of the lake: rows that keep their table's contract, the record of what made them, and a seal.

    rows, schema, … {"cpmi": "{…}", "cpmi.seal": "sha256:3f9a…"}     the hash of the file with zeros for these digits

Record("labels/hard_negatives", "003", key="5f0c…", run_id="9b21…", facts={"code_version": "7", "seed": 0, …})

By the seal any flipped bit is found: Parquet's checksums of pages do not cover the footer, where one can crash the
reader.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
from dataframely.exc import SchemaError, ValidationError

from cpmi_dagster.contracts.tables import TABLES, columns_of, provenance_of
from cpmi_dagster.errors import LakeError
from cpmi_dagster.files.file_states import by_state, file_digest
from cpmi_dagster.files.whole_files import whole_file

FOOTER = "cpmi"
"""The name of the record among a file's metadata."""
HASHED_ROWS = 100_000
"""Rows per chunk of hashing."""
GROUP_ROWS = 1_000
"""Rows per row group, whose metadata stay in memory until the file is closed."""
MARK = b"sha256:"
ZEROS = b"0" * 64
SEAL = {"cpmi.seal": (MARK + ZEROS).decode()}
"""Metadata of a file before it is sealed."""
TAIL_BYTES = 4096
"""Bytes at the end of a file within which the seal stands."""


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
    cost: Mapping[str, Any] = field(default_factory=dict)
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


def digest_of(path: Path) -> str:
    """The hash of a file that rows name, or of the weights in a folder.

    Raises:
        OSError: it does not exist.
    """
    if path.is_dir():
        return hash_of({weights.name: file_digest(weights) for weights in path.glob("*.safetensors")})
    return file_digest(path)


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


class DamagedFile(LakeError):
    """A file of the lake whose rows cannot be used; `option` names the profile that makes it again."""

    def __init__(self, path: Path, reason: str, option: str = "") -> None:
        super().__init__(f"lake file {path} is damaged ({reason}); run `cpmi run{option}`, which makes it again")


def read_record(path: Path) -> Record | None:
    """The record of a file; None if that is missing or damaged, or cannot be read."""
    with suppress(OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException, KeyError, TypeError, ValueError):
        return _read_record(path)
    return None


@by_state
def _read_record(path: Path) -> Record:
    return Record(**json.loads(pl.read_parquet_metadata(path)[FOOTER]))


def read_rows(path: Path, key: str, columns: Sequence[str] | None = None, most: int | None = None) -> pl.DataFrame:
    """Rows of a table's file without provenance columns, with the categories of the present contract.

    Args:
        columns: all of the contract by default.
        most: only so many rows, the first ones.

    Raises:
        OSError, PolarsError: the file cannot be read, or lacks a column.
    """
    frame = pl.read_parquet(path, columns=list(columns or TABLES[key].schema.columns()), n_rows=most)
    kinds = columns_of(TABLES[key])
    return frame.cast({name: kinds[name] for name in frame.columns if isinstance(kinds.get(name), pl.Enum)})


def write_rows(rows: pl.DataFrame, record: Record, path: Path) -> None:
    """Write rows that `check_rows` has passed, with their provenance and record, into a sealed file.

    Raises:
        StorageError: the disk is full, or the folder cannot be written.
    """
    write_sealed(with_provenance(rows, record), path, {FOOTER: json.dumps(asdict(record))})


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
        digits = hashlib.file_digest(file, "sha256").hexdigest()
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


class PartitionWriter:
    """Writes a sealed file.

    Args:
        path: of the file.
        record: of the file, without what follows from its rows.
    """

    def __init__(self, path: Path, record: Record) -> None:
        self._record, self._path, self._rows, self._digest = record, path, 0, sha256()
        self._waiting: list[pl.DataFrame] = []
        empty = with_provenance(TABLES[record.table].schema.create_empty(), record).to_arrow()
        self._writer = pq.ParquetWriter(path, empty.schema, compression="zstd", write_statistics=False)

    def add(self, frame: pl.DataFrame) -> None:
        """Add rows that `check_rows` has passed."""
        self._rows += frame.height
        self._waiting.append(frame)
        if sum(each.height for each in self._waiting) >= GROUP_ROWS:
            self._write()

    def _write(self) -> None:
        frame = pl.concat(self._waiting)
        self._waiting = []
        self._digest.update(frame.write_ndjson().encode())
        self._writer.write_table(with_provenance(frame, self._record).to_arrow())

    def close(self, complete: Callable[[Record, int, str], Record]) -> None:
        """Finish the file; `complete` adds the number of rows and their hash to the record."""
        if self._waiting:
            self._write()
        record = complete(self._record, self._rows, self._digest.hexdigest())
        self._writer.add_key_value_metadata({FOOTER: json.dumps(asdict(record)), **SEAL})
        self._writer.close()
        seal(self._path)
