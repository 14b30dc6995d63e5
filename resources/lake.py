"""The lake: every asset as Parquet, written whole or not at all.

    <home>/lake/labels/hard_negatives/shard=003.parquet      partitioned by shard (or recipe=..., benchmark=...)
    <home>/lake/selection/selected_trajectories.parquet      one file
    <home>/lake/.work/labels/answer_logprobs/003-1f0c.../chunk-00002-…    a killed run continues here

What made a file (fingerprint, inputs, run, model, cost) is in the file's footer, so that one rename commits the rows
and their provenance together. `Lake.write` checks the table's contract first.
"""

import hashlib
import io
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
from dataframely.exc import SchemaError, ValidationError
from filelock import FileLock

from cpmi_dagster.contracts.tables import EARLIER_NAMES, TABLES, provenance_of
from cpmi_dagster.errors import LakeError, first_line
from cpmi_dagster.files.whole_files import whole_file, write_whole

FOOTER_KEY = "cpmi"


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
    """Reads and writes the Parquet files under `home/lake`; tables in `remake` count as stale."""

    def __init__(self, home: Path, remake: frozenset[str] = frozenset()) -> None:
        self.home = home
        self.root = home / "lake"
        self.remake = remake

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
            LakeError: the file is truncated, or was not written by this package.
        """
        path = self.path(key, partition)
        if not path.is_file():
            return None
        try:
            return FileRecord(**_with_current_names(json.loads(pl.read_parquet_metadata(path)[FOOTER_KEY])))
        except (pl.exceptions.PolarsError, KeyError, TypeError, ValueError, OSError) as error:
            raise _damaged(path, error) from error

    def intact_record(self, key: str, partition: str | None = None) -> FileRecord | None:
        """What made a file, or None where there is none or it is damaged."""
        try:
            return self.record(key, partition)
        except LakeError:
            return None

    def missing(self, key: str, partition: str | None = None) -> LakeError:
        """The error to raise for a file that is needed and not there."""
        where = f"{key} {partition}" if partition else key
        return LakeError(f"{where} has not been made yet; run `cpmi run --only {key}` first")

    def is_current(self, key: str, partition: str | None, *fingerprints: str) -> bool:
        """Whether the file was made by exactly one of these, and what it points at is still there.

        Raises:
            LakeError: the file is damaged.
        """
        record = None if key in self.remake else self.record(key, partition)
        return record is not None and record.fingerprint in fingerprints and self._has_files(record)

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
        """
        valid = _checked(frame, record.table)
        complete = replace(
            record,
            content=content_hash(_filled(valid)),
            rows=valid.height,
            written_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        provenance = provenance_of(TABLES[record.table]).items()
        stamped = valid.with_columns(pl.lit(getattr(record, name), dtype).alias(name) for name, dtype in provenance)
        _write_parquet(stamped, self.path(record.table, record.partition), {FOOTER_KEY: json.dumps(asdict(complete))})
        return complete

    def read(
        self, key: str, partitions: Iterable[str] | str | None = None, columns: Sequence[str] | None = None
    ) -> pl.DataFrame:
        """Rows of a table without their provenance columns.

        Args:
            partitions: which partitions; all on disk by default.
            columns: which columns; all by default.

        Raises:
            LakeError: a file is missing or damaged; the message says how to get it.
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
            return pl.read_parquet(path, columns=list(columns or _own_columns(key)))
        except pl.exceptions.ColumnNotFoundError as error:
            raise LakeError(f"lake file {path} was made with other columns ({error}); run `cpmi run` again") from error
        except (pl.exceptions.PolarsError, OSError) as error:
            raise _damaged(path, error) from error

    def lock(self, key: str, partition: str | None = None) -> FileLock:
        """The lock that is held while a file is made: a second run waits, and then skips the file."""
        path = self.root / ".locks" / f"{key.replace('/', '.')}.{partition or 'all'}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(path)

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
        """The frames and facts of a chunk, or None where it was not finished."""
        facts = self.folder / f"chunk-{chunk}.json"
        if not facts.is_file():
            return None
        stored = json.loads(facts.read_text(encoding="utf-8"))
        frames = {name: pl.read_parquet(self._path(chunk, name)) for name in stored["frames"]}
        return frames, _with_current_names(stored["facts"])

    def save(self, chunk: str, frames: Mapping[str, pl.DataFrame], facts: Mapping[str, Any]) -> None:
        """Commit a chunk: its frames first, then the small file that says they are whole."""
        for name, frame in frames.items():
            _write_parquet(frame, self._path(chunk, name), {})
        text = json.dumps({"frames": list(frames), "facts": dict(facts)})
        write_whole(self.folder / f"chunk-{chunk}.json", text)

    def clear(self) -> None:
        """Remove the chunks of this partition, those of earlier fingerprints included."""
        for folder in self.work.glob("*"):
            if folder.name.rpartition("-")[0] == self.partition:
                shutil.rmtree(folder, ignore_errors=True)

    def _path(self, chunk: str, name: str) -> Path:
        return self.folder / f"chunk-{chunk}.{name.replace('/', '.')}.parquet"


def content_hash(frame: pl.DataFrame) -> str:
    """Sha256 of rows without their provenance."""
    buffer = io.BytesIO()
    frame.rechunk().write_ipc(buffer)
    return hashlib.sha256(buffer.getbuffer()).hexdigest()


def _filled(frame: pl.DataFrame) -> pl.DataFrame:
    """The columns in which some row has a value: one that a later version adds, and fills for none, changes nothing."""
    return frame.select(column.name for column in frame if frame.is_empty() or column.null_count() < frame.height)


def rows_hash(frame: pl.DataFrame) -> str:
    """Sha256 of the values of a small frame, whichever larger frame they are a part of."""
    return hashlib.sha256(frame.write_ndjson().encode()).hexdigest()


def fingerprint_of(parts: Mapping[str, Any]) -> str:
    """Sha256 of a JSON-able description."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


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


def _write_parquet(frame: pl.DataFrame, path: Path, footer: dict[str, str]) -> None:
    with whole_file(path) as unfinished:
        frame.write_parquet(unfinished, metadata=footer)


def _damaged(path: Path, error: Exception) -> LakeError:
    return LakeError(f"lake file {path} is damaged ({first_line(error)}); delete it and run `cpmi run`")
