"""What made a file of the lake, as its footer holds it, and the hashes by which it is known."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.contracts.tables import columns_of as table_columns
from cpmi_dagster.errors import LakeError, first_line
from cpmi_dagster.files.file_states import by_state, file_digest
from cpmi_dagster.resources.lake.parts import WHOLE
from cpmi_dagster.resources.lake.sealed_parquet import DamagedFile, checked_seal

FOOTER_KEY = "cpmi"
KEY_CHARACTERS = 32
DATABASE = ".duckdb"
HASHED_ROWS = 100_000
"""Rows that are written out at once to be hashed."""


@dataclass(frozen=True)
class FileRecord:
    """What made a file of the lake.

    Attributes:
        parts: by part, the hash of what made it, which is its key.
        contents: by part, the hash of its rows.
        inputs: what the models, sources and inputs were, by kind and name.
        cost: of the work; of several tables that one body makes, the first has it.
        files: what the rows point at, relative to the home: reward models, the report.
        digests: by file, the hash of its bytes, as they may be written over by another profile.
        again: makes the name another, where the first file of this name is damaged or was not to be used.
    """

    table: str
    partition: str | None
    run_id: str
    model: str
    code_version: str
    parts: Mapping[str, str] = field(default_factory=lambda: {WHOLE: ""})
    contents: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)
    notes: Sequence[str] = ()
    files: Sequence[str] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    rows: int = 0
    written_at: str = ""
    again: str = ""

    @property
    def file_name(self) -> str:
        """The name of the file, by what made its parts."""
        return f"{'-'.join(filter(None, (self.fingerprint, self.again)))}.parquet"

    @property
    def fingerprint(self) -> str:
        """The hash of what made it, by which the file is named."""
        keys = sorted(self.parts.values())
        return keys[0] if len(keys) == 1 and keys[0] else hash_of(sorted(self.parts.items()))[:KEY_CHARACTERS]

    @property
    def as_input(self) -> str | dict[str, str]:
        """The hashes of its rows, as records of what is made from it have them."""
        return self.contents[WHOLE] if WHOLE in self.contents else dict(self.contents)

    @property
    def content(self) -> str:
        """The hash of its rows."""
        return content_of(self.contents)


def content_of(contents: Mapping[str, str]) -> str:
    """The hash of the rows of some parts."""
    return contents[WHOLE] if WHOLE in contents else hash_of(sorted(contents.items()))


def merged(records: Sequence[FileRecord], read: Sequence[Sequence[str]]) -> FileRecord:
    """What made a partition that is kept in several files: of the latest, with the costs, rows and notes of all.

    Args:
        read: the parts that are read of each file.
    """
    places = [(record, part) for record, parts in zip(records, read, strict=True) for part in parts]
    latest = max(records, key=lambda record: record.written_at)
    cost = sum((Cost.from_dict(record.cost) for record in records if record.cost), Cost.zero())
    return replace(
        latest,
        parts={part: record.parts[part] for record, part in places},
        contents={part: record.contents[part] for record, part in places},
        cost=cost.to_dict() if any(record.cost for record in records) else {},
        notes=list(dict.fromkeys(note for record in records for note in record.notes)),
        rows=sum(record.rows for record in records),
    )


@by_state
def record_in(path: Path) -> FileRecord:
    """What made a file, as its footer has it.

    Raises:
        FileNotFoundError: there is none.
        LakeError: it is damaged, or cannot be read.
    """
    try:
        return FileRecord(**json.loads(pl.read_parquet_metadata(path)[FOOTER_KEY]))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unreadable(path, error) from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, KeyError, TypeError, ValueError) as error:
        raise DamagedFile(path, first_line(error)) from error


def seal_of(path: Path) -> str:
    """The seal of a file, which is read and compared with it.

    Raises:
        FileNotFoundError: there is none.
        LakeError: it is damaged, or cannot be read.
    """
    try:
        return checked_seal(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> LakeError:
    """The error for a file that may be whole, and which this user or machine cannot read."""
    return LakeError(f"lake file {path} cannot be read ({first_line(error)}); look at its permissions and its disk")


def digest_of(path: Path) -> str:
    """The hash of a file, or of the weights in a folder; empty for what is written again at any time.

    Raises:
        OSError: it is not there.
    """
    if path.suffix == DATABASE:
        return ""
    if path.is_dir():
        return hash_of({weights.name: file_digest(weights) for weights in path.glob("*.safetensors")})
    return file_digest(path)


def rows_hash(frame: pl.DataFrame) -> str:
    """Sha256 of the values of a frame, whichever larger frame they are a part of, and whatever memory they lie in."""
    digest = hashlib.sha256()
    for rows in frame.iter_slices(HASHED_ROWS):
        digest.update(rows.write_ndjson().encode())
    return digest.hexdigest()


def hash_of(facts: Mapping[str, Any] | Iterable[Any]) -> str:
    """Sha256 of a JSON-able description."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


def hashed_columns(table: str) -> dict[str, str]:
    """Columns and types of a table as keys have them: a category that is added changes no row."""
    kinds = table_columns(TABLES[table]).items()
    return {name: "Enum" if isinstance(kind, pl.Enum) else str(kind) for name, kind in kinds}
