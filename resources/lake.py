"""The lake: every asset as Parquet, written whole or not at all.

    <home>/lake/labels/hard_negatives/shard=003.parquet      partitioned by shard (or recipe=..., benchmark=...)
    <home>/lake/selection/selected_trajectories.parquet      one file
    <home>/lake/.work/labels/answer_logprobs/003-1f0c.../chunk-00002-…    a killed run continues here

    <home>/lake/.damaged/labels.hard_negatives.003.parquet    what was found damaged, and made again

What made a file (fingerprint, inputs, run, model, cost) is in the file's footer, so that one rename commits the rows
and their provenance together. `Lake.write` checks the table's contract first; reading checks the file's seal.
"""

import hashlib
import io
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
from dataframely.exc import SchemaError, ValidationError

from cpmi_dagster.contracts.tables import EARLIER_NAMES, TABLES, provenance_of
from cpmi_dagster.errors import LakeError, first_line
from cpmi_dagster.files.file_states import by_state
from cpmi_dagster.files.locks import locked
from cpmi_dagster.files.whole_files import cannot_be_written, remove_unfinished, write_whole
from resources.sealed_parquet import DamagedFile, checked_seal, write_sealed

FOOTER_KEY = "cpmi"
LOG = logging.getLogger(__name__)
Version = Mapping[tuple[str, str | None], str]
"""The content of files, by table and partition."""
HASHED_ROWS = 100_000
"""Rows that are written out at once to be hashed."""


@dataclass(frozen=True)
class FileRecord:
    """What made a file of the lake, as its footer holds it.

    `fingerprint` covers everything the rows depend on, but not how many were asked for (the `extent`); `content` is the
    hash of the rows themselves, so that a stage whose inputs were made again with the same rows is not run again.
    """

    table: str
    partition: str | None
    fingerprint: str
    run_id: str
    model: str
    code_version: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    extent: Mapping[str, Any] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)
    notes: Sequence[str] = ()
    files: Sequence[str] = ()
    content: str = ""
    rows: int = 0
    written_at: str = ""


class Lake:
    """Reads and writes the Parquet files under `home/lake`.

    Args:
        home: the folder of a profile.
        remake: tables that count as stale.
        version: files that are read in no other version than this.
    """

    def __init__(self, home: Path, remake: frozenset[str] = frozenset(), version: Version | None = None) -> None:
        self.home = home
        self.root = home / "lake"
        self.remake = remake
        self._version = version or {}

    def at(self, version: Version) -> "Lake":
        """The same files, some of which are read in one version or not at all."""
        return Lake(self.home, self.remake, version)

    def path(self, key: str, partition: str | None = None) -> Path:
        """The path of a table, or of one partition of it."""
        partitioning = TABLES[key].partitioning
        if partitioning is None:
            return self.root / f"{key}.parquet"
        return self.root / key / f"{partitioning}={partition}.parquet"

    def partitions(self, key: str) -> list[str]:
        """Partition keys that are on disk."""
        prefix = f"{TABLES[key].partitioning}="
        return sorted(path.stem.removeprefix(prefix) for path in (self.root / key).glob(f"{prefix}*.parquet"))

    def exists(self, key: str) -> bool:
        """Whether any rows of a table were ever written."""
        return bool(self.partitions(key)) if TABLES[key].partitioning else self.path(key).is_file()

    def record(self, key: str, partition: str | None = None) -> FileRecord | None:
        """What made a file, or None where there is none.

        Raises:
            LakeError: the file is truncated, lies in the place of another, or was not written by this package.
        """
        path = self.path(key, partition)
        try:
            record = _record_in(path)
        except FileNotFoundError:
            return None
        if (record.table, record.partition) != (key, partition):
            place = " ".join(filter(None, (record.table, record.partition)))
            raise DamagedFile(path, f"it holds {place}, and was copied or renamed")
        return record

    def intact_record(self, key: str, partition: str | None = None) -> FileRecord | None:
        """What made a file, or None where there is none or it is damaged."""
        try:
            return self.record(key, partition)
        except LakeError:
            return None

    def check(self, key: str, partition: str | None = None) -> None:
        """Read a file and compare every byte with what was written; once a process, unless the file changes.

        Raises:
            LakeError: it is damaged, lies in the place of another, or cannot be read.
        """
        path = self.path(key, partition)
        try:
            checked_seal(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise _unreadable(path, error) from error
        self.record(key, partition)

    def is_whole(self, key: str, partition: str | None = None) -> bool:
        """Whether a file is there, and not damaged anywhere."""
        try:
            self.check(key, partition)
        except LakeError:
            return False
        return self.path(key, partition).is_file()

    def missing(self, key: str, partition: str | None = None) -> LakeError:
        """The error to raise for a file that is needed and not there."""
        where = f"{key} {partition}" if partition else key
        return LakeError(f"{where} has not been made yet; run `cpmi run --only {key}` first")

    def usable_record(self, key: str, partition: str | None = None) -> FileRecord | None:
        """What made a file that can be kept: it is intact, not to be made again, and what it points at is there."""
        record = None if key in self.remake else self.intact_record(key, partition)
        return record if record is not None and self._has_files(record) else None

    def _has_files(self, record: FileRecord) -> bool:
        return all((self.home / file).exists() for file in record.files)

    def write(self, frame: pl.DataFrame, record: FileRecord) -> FileRecord:
        """Check a frame against its table's contract and commit it with one rename.

        Returns:
            The record as written, with row count, content hash and time.

        Raises:
            LakeError: the frame breaks the contract; the message names the rule and a row.
            StorageError: there is no room, or the lake cannot be written.
        """
        valid = _checked(frame, record.table)
        complete = replace(
            record,
            content=rows_hash(_filled(valid)),
            rows=valid.height,
            written_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        provenance = provenance_of(TABLES[record.table]).items()
        stamped = valid.with_columns(pl.lit(getattr(record, name), dtype).alias(name) for name, dtype in provenance)
        write_sealed(stamped, self.path(record.table, record.partition), {FOOTER_KEY: json.dumps(asdict(complete))})
        return complete

    def read(
        self, key: str, partitions: Iterable[str] | str | None = None, columns: Sequence[str] | None = None
    ) -> pl.DataFrame:
        """Rows of a table without their provenance columns.

        Args:
            partitions: which partitions; all on disk by default.
            columns: which columns; all by default.

        Raises:
            LakeError: a file is missing, damaged, or of another version; the message says how to get it.
        """
        if TABLES[key].partitioning is None:
            return self._read(key, None, columns)
        if partitions is None:
            partitions = self.partitions(key)
        wanted = [partitions] if isinstance(partitions, str) else list(partitions)
        empty = TABLES[key].schema.create_empty().select(columns or _own_columns(key))
        return pl.concat([empty, *(self._read(key, partition, columns) for partition in wanted)])

    def head(self, key: str, partition: str | None, rows: int) -> pl.DataFrame:
        """The first rows of a file, without their provenance columns."""
        return pl.read_parquet(self.path(key, partition), columns=_own_columns(key), n_rows=rows)

    def _read(self, key: str, partition: str | None, columns: Sequence[str] | None) -> pl.DataFrame:
        path = self.path(key, partition)
        if not path.is_file():
            raise self.missing(key, partition)
        try:
            self.check(key, partition)
            frame = pl.read_parquet(path, columns=list(columns or _own_columns(key)))
        except pl.exceptions.ColumnNotFoundError as error:
            raise LakeError(f"lake file {path} was made with other columns ({error}); run `cpmi run` again") from error
        except pl.exceptions.PolarsError as error:
            raise DamagedFile(path, first_line(error)) from error
        except OSError as error:
            raise _unreadable(path, error) from error
        self._check_version(key, partition)
        return frame

    def _check_version(self, key: str, partition: str | None) -> None:
        """Refuse a file that another run has replaced since its version was taken."""
        expected = self._version.get((key, partition))
        record = self.record(key, partition) if expected is not None else None
        if record is not None and record.content != expected:
            where = f"{key} {partition}" if partition else key
            raise LakeError(f"{where} was made again while this run was about to read it; run again")

    def making(
        self, key: str, partition: str | None, say: Callable[[str], object] = LOG.warning
    ) -> AbstractContextManager[None]:
        """The lock under which a file is made: a second run waits, and then skips the file."""
        return locked(self.root / ".locks" / f"{key.replace('/', '.')}.{partition or 'all'}.lock", say)

    def tidy(self, key: str, partition: str | None, say: Callable[[str], object] = LOG.warning) -> None:
        """Remove what killed writers of a file left, and put a damaged file aside; the caller holds its lock."""
        path = self.path(key, partition)
        remove_unfinished(path)
        try:
            self.check(key, partition)
        except DamagedFile as error:
            aside = self.root / ".damaged" / f"{key.replace('/', '.')}.{partition or 'all'}.parquet"
            _move(path, aside)
            say(f"{error}; it is made again now, and what was there lies at {aside}")

    def work_folder(self, name: str) -> Path:
        """Folder for unfinished work; no result is read from it."""
        return self.root / ".work" / name

    def chunks(self, key: str, partition: str | None, fingerprint: str) -> "ChunkStore":
        """Where the finished chunks of an unfinished file are kept."""
        return ChunkStore(self.work_folder(key), f"{partition or 'all'}-{fingerprint[:16]}")


class ChunkStore:
    """Finished chunks of a partition that is still being made, under one fingerprint."""

    def __init__(self, work: Path, name: str) -> None:
        self.work = work
        self.folder = work / name
        self.partition = name.rpartition("-")[0]

    def load(self, chunk: str) -> tuple[dict[str, pl.DataFrame], dict[str, Any]] | None:
        """The frames and facts of a chunk, or None where it was not finished or is damaged."""
        try:
            stored = json.loads(self._facts(chunk).read_text(encoding="utf-8"))
            if stored.pop("seal", None) != fingerprint_of(stored):
                raise DamagedFile(self._facts(chunk), "its text is not the one that was written")
            return {name: self._frame(chunk, name, seal) for name, seal in stored["frames"].items()}, stored["facts"]
        except FileNotFoundError:
            return None
        except (LakeError, pl.exceptions.PolarsError, OSError, ValueError, AttributeError) as error:
            LOG.warning("a finished chunk cannot be used and is made again: %s", first_line(error))
            return None

    def save(self, chunk: str, frames: Mapping[str, pl.DataFrame], facts: Mapping[str, Any]) -> None:
        """Commit a chunk: its frames first, then the small file that says they are whole.

        Raises:
            StorageError: there is no room, or the lake cannot be written.
        """
        seals = {name: write_sealed(frame, self._path(chunk, name), {}) for name, frame in frames.items()}
        stored = {"frames": seals, "facts": dict(facts)}
        write_whole(self._facts(chunk), json.dumps({**stored, "seal": fingerprint_of(stored)}))

    def clear(self) -> None:
        """Remove the chunks of this partition, those of earlier fingerprints included."""
        for folder in self.work.glob("*"):
            if folder.name.rpartition("-")[0] == self.partition:
                shutil.rmtree(folder, ignore_errors=True)

    def _frame(self, chunk: str, name: str, seal: str) -> pl.DataFrame:
        path = self._path(chunk, name)
        if checked_seal(path) != seal:
            raise DamagedFile(path, "it is of another chunk")
        return pl.read_parquet(path)

    def _facts(self, chunk: str) -> Path:
        return self.folder / f"chunk-{chunk}.json"

    def _path(self, chunk: str, name: str) -> Path:
        return self.folder / f"chunk-{chunk}.{name.replace('/', '.')}.parquet"


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


def _filled(frame: pl.DataFrame) -> pl.DataFrame:
    """The columns in which some row has a value: one that a later version adds, and fills for none, changes nothing."""
    return frame.select(column.name for column in frame if frame.is_empty() or column.null_count() < frame.height)


def fingerprint_of(parts: Mapping[str, Any]) -> str:
    """Sha256 of a JSON-able description."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


@by_state
def _record_in(path: Path) -> FileRecord:
    """What made a file, as its footer has it."""
    try:
        return FileRecord(**_with_current_names(json.loads(pl.read_parquet_metadata(path)[FOOTER_KEY])))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unreadable(path, error) from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, KeyError, TypeError, ValueError) as error:
        raise DamagedFile(path, first_line(error)) from error


def _move(path: Path, place: Path) -> None:
    try:
        place.parent.mkdir(exist_ok=True)
        os.replace(path, place)
    except OSError as error:
        raise cannot_be_written(place, error) from error


def _unreadable(path: Path, error: OSError) -> LakeError:
    """The error for a file that may be whole, and which this user or machine cannot read."""
    return LakeError(f"lake file {path} cannot be read ({first_line(error)}); look at its permissions and its disk")


def _with_current_names(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a file or chunk, keys of earlier versions renamed."""
    current = {earlier: name for name, earlier in EARLIER_NAMES.items()}
    return {current.get(name, name): value for name, value in facts.items()}


def _own_columns(key: str) -> list[str]:
    """A table's columns without those of its provenance."""
    return list(TABLES[key].schema.columns())


def _checked(frame: pl.DataFrame, key: str) -> pl.DataFrame:
    schema = TABLES[key].schema
    try:
        return schema.validate(frame, cast=True)
    except (SchemaError, ValidationError, pl.exceptions.PolarsError) as error:
        raise LakeError(f"{key}: the rows break the table's contract, nothing was written: {error}") from error
