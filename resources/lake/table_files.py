"""The Parquet files of tables: each is created once, under the name of what made it, and read back whole or not at all.

lake/labels/hard_negatives/003/5f0c….parquet      of shard 003; `all` in its place for a table without partitions
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import polars as pl
from dataframely.exc import SchemaError, ValidationError

from cpmi_dagster.contracts.tables import TABLES, columns_of, provenance_of
from cpmi_dagster.errors import LakeError, first_line
from cpmi_dagster.files.whole_files import UNFINISHED, write_whole
from cpmi_dagster.resources.lake.current_files import LAKE
from cpmi_dagster.resources.lake.parts import PART, PART_OF_ROW, WHOLE
from cpmi_dagster.resources.lake.records import (
    FOOTER_KEY,
    FileRecord,
    digest_of,
    record_in,
    rows_hash,
    seal_of,
    unreadable,
)
from cpmi_dagster.resources.lake.sealed_parquet import DamagedFile, sealed

ALL = "all"
"""In the place of a partition, of a table that has none."""
AGAIN_CHARACTERS = 8
LOG = logging.getLogger(__name__)


class TableFiles:
    """The files of the tables of a home, whoever reads them.

    Args:
        home: its folder.
    """

    def __init__(self, home: Path) -> None:
        self._home = home

    def names(self, key: str, partition: str | None) -> list[str]:
        """The files of a partition."""
        return sorted(path.name for path in (self._home / _folder(key, partition)).glob("[!.]*"))

    def record(self, key: str, partition: str | None, file: str) -> FileRecord:
        """What made a file.

        Raises:
            LakeError: it is missing, truncated, lies in the place of another, or was not written by this package.
        """
        path = self._home / place_of(key, partition, file)
        try:
            record = record_in(path)
        except FileNotFoundError:
            raise missing(key, partition) from None
        if (record.table, record.partition, record.file_name) != (key, partition, file):
            place = " ".join(filter(None, (record.table, record.partition)))
            raise DamagedFile(path, f"it contains {place}; the file was copied or renamed")
        return record

    def records(self, key: str, partition: str | None) -> list[FileRecord]:
        """What made each file of a partition that is there, of whichever profile; damaged ones are left out."""
        found = []
        for file in self.names(key, partition):
            try:
                found.append(self.record(key, partition, file))
            except LakeError as error:
                LOG.warning("%s", error)
        return found

    def is_usable(self, key: str, partition: str | None, file: str, check: bool) -> bool:
        try:
            if check:
                self.check(key, partition, file)
            return self.has_files(self.record(key, partition, file))
        except LakeError as error:
            LOG.warning("%s", error)
            return False

    def has_files(self, record: FileRecord) -> bool:
        """Whether what the rows of a file point at is there, and is what was written."""
        return all((self._home / name).exists() for name in record.files) and all(
            digest_of(self._home / name) == digest for name, digest in record.digests.items()
        )

    def check(self, key: str, partition: str | None, file: str) -> None:
        """Read a file and compare every byte with what was written; once a process.

        Raises:
            LakeError: it is missing, damaged, lies in the place of another, or cannot be read.
        """
        try:
            seal_of(self._home / place_of(key, partition, file))
        except FileNotFoundError:
            raise missing(key, partition) from None
        self.record(key, partition, file)

    def put(self, frame: pl.DataFrame, record: FileRecord, is_again: bool = False) -> FileRecord:
        """Check a frame against its table's contract and commit it under the name of what made it.

        Args:
            frame: with a column `part`, or one that `PART_OF_ROW` gives, where the table is asked for in parts.
            is_again: by a name of its own, whatever is there.

        Returns:
            The record as written; where another run has made the same meanwhile, of its file.

        Raises:
            LakeError: the frame breaks the contract; the message names the rule and a row.
            StorageError: there is no room, or the lake cannot be written.
        """
        key = record.table
        parts = frame[PART] if PART in frame.columns else None
        valid = _checked(frame.drop(PART, strict=False), key)
        if WHOLE not in record.parts:
            if parts is None and key in PART_OF_ROW:
                parts = valid.select(PART_OF_ROW[key].alias(PART)).to_series()
            valid = valid.with_columns((parts if parts is not None else pl.lit(None)).cast(pl.Categorical).alias(PART))
            valid = valid.sort(TABLES[key].schema.primary_key())
        complete = replace(
            record,
            contents=_contents(valid, record.parts),
            digests={name: digest_of(self._home / name) for name in record.files},
            rows=valid.height,
            written_at=datetime.now(UTC).isoformat(timespec="microseconds"),
        )
        provenance = provenance_of(TABLES[key]).items()
        stamped = valid.with_columns(pl.lit(getattr(record, name), dtype).alias(name) for name, dtype in provenance)
        if is_again or not self._create(stamped, complete):
            if not is_again and self.is_usable(key, record.partition, complete.file_name, check=True):
                return self.record(key, record.partition, complete.file_name)
            complete = replace(complete, again=uuid4().hex[:AGAIN_CHARACTERS])
            self._create(stamped, complete)
        return complete

    def _create(self, stamped: pl.DataFrame, record: FileRecord) -> bool:
        """Put a file in place; False where there is one of its name. The caller holds the partition's lock."""
        path = self._home / place_of(record.table, record.partition, record.file_name)
        if path.exists():
            return False
        data, _ = sealed(stamped, {FOOTER_KEY: json.dumps(asdict(record))})
        write_whole(path, data)
        return True

    def read(
        self, key: str, partition: str | None, file: str, parts: Sequence[str], columns: list[str]
    ) -> pl.DataFrame:
        """The rows of a file that are of some of its parts.

        Raises:
            LakeError: it is missing, damaged, or of another version; the message says how to get it.
        """
        path = self._home / place_of(key, partition, file)
        if not path.is_file():
            raise missing(key, partition)
        try:
            self.check(key, partition, file)
            if set(parts) >= set(self.record(key, partition, file).parts):
                return with_categories(key, pl.read_parquet(path, columns=columns))
            chosen = pl.col(PART).is_null() | pl.col(PART).is_in(list(parts))
            return with_categories(key, pl.read_parquet(path, columns=[*columns, PART]).filter(chosen).select(columns))
        except pl.exceptions.ColumnNotFoundError as error:
            raise LakeError(f"lake file {path} was made with other columns ({error}); run `cpmi run` again") from error
        except pl.exceptions.PolarsError as error:
            raise DamagedFile(path, first_line(error)) from error
        except OSError as error:
            raise unreadable(path, error) from error

    def tidy(self, key: str, partition: str | None) -> None:
        """Remove what killed writers of a partition left; the caller holds its lock."""
        for left in (self._home / _folder(key, partition)).glob(f".*{UNFINISHED}"):
            left.unlink(missing_ok=True)


def place_of(key: str, partition: str | None, file: str) -> str:
    """The name in its home of a file of a partition."""
    return f"{_folder(key, partition)}/{file}"


def _folder(key: str, partition: str | None) -> str:
    """The folder of a partition's files in its home."""
    return f"{LAKE}/{key}/{partition or ALL}"


def words(key: str, partition: str | None) -> str:
    """A partition in sentences."""
    return f"{key} {partition}" if partition else key


def missing(key: str, partition: str | None = None) -> LakeError:
    """The error to raise for a partition that is needed and not there."""
    return LakeError(f"{words(key, partition)} has not been made yet; materialize it, or run `cpmi run --only {key}`")


def _contents(frame: pl.DataFrame, parts: Mapping[str, str]) -> dict[str, str]:
    """The hash of the rows of each part."""
    if PART not in frame.columns:
        return {part: rows_hash(frame) for part in parts}
    of_all = frame.filter(pl.col(PART).is_null()).drop(PART)
    own = {str(part): rows.drop(PART) for (part,), rows in frame.drop_nulls(PART).group_by(PART, maintain_order=True)}
    if others := own.keys() - parts.keys():
        raise LakeError(f"rows of the part {min(others)} were made, and not asked for")
    return {part: rows_hash(pl.concat([of_all, own[part]]) if part in own else of_all) for part in parts}


def own_columns(key: str) -> list[str]:
    """A table's columns without those of its provenance."""
    return list(TABLES[key].schema.columns())


def with_categories(key: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of a file with the categories of today's contract: one may have been added since they were written."""
    kinds = columns_of(TABLES[key])
    return frame.cast({name: kinds[name] for name in frame.columns if isinstance(kinds.get(name), pl.Enum)})


def _checked(frame: pl.DataFrame, key: str) -> pl.DataFrame:
    schema = TABLES[key].schema
    try:
        return schema.validate(frame, cast=True)
    except (SchemaError, ValidationError, pl.exceptions.PolarsError) as error:
        raise LakeError(f"{key}: the rows break the table's contract, nothing was written: {error}") from error
