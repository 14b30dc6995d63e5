"""The lake: every table as Parquet files, one per partition, each with its record in the footer.

    <home>/lake/labels/hard_negatives/003.parquet      shard 003; `all` for a table without partitions
    <home>/lake/labels/hard_negatives/.calls/…         answers of a model, see `answers.cache`
    <home>/lake/reports/figures/.earlier/models.parquet        the previous file, kept for a few tables
    <home>/lake/.work/models/process_reward_models/…   unfinished training

A file is written under a temporary name and renamed, so readers see the old rows or the new ones. A file that is
missing, damaged, copied from elsewhere or of another key is made again: it is a pure function of the facts it records.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shutil import copyfile
from typing import Any

import polars as pl
from filelock import Timeout

from cpmi_dagster.contracts.keys import FIGURES, SOFT_LABELS, STEP_REWARDS
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import LakeError, first_line
from cpmi_dagster.files.locks import file_lock, locked
from cpmi_dagster.files.whole_files import UNFINISHED, whole_file
from cpmi_dagster.profiles.partitions import needed_tables, partition_name, partitions_of
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.home_file import claim_home
from cpmi_dagster.resources.lake.parquet import (
    DamagedFile,
    PartitionWriter,
    Record,
    check_rows,
    digest_of,
    is_intact,
    read_record,
    read_rows,
    rows_hash,
    write_rows,
)

LAKE = "lake"
ALL = "all"
CALLS, EARLIER = ".calls", ".earlier"
COMPARED = (STEP_REWARDS, SOFT_LABELS, FIGURES)
"""Tables whose previous files are kept, so that two settings can be compared."""


class Lake:
    """Reads and writes the tables of a home.

    Args:
        home: the folder of a profile.
        settings: the profile whose tables and partitions are read, and a table that it does not ask for is empty; by
            default, all that is on disk.
        prefix: of the asset keys in a Dagster project of the user's, for messages.
    """

    def __init__(self, home: Path, settings: Settings | None = None, prefix: Sequence[str] = ()) -> None:
        self.home, self.root, self._settings, self._prefix = home, home / LAKE, settings, prefix
        self._option = "" if settings is None else settings.profile_option
        self._needed = frozenset(TABLES if settings is None else needed_tables(settings))

    @classmethod
    def of(cls, settings: Settings, prefix: Sequence[str] = ()) -> "Lake":
        """The lake of a profile's home.

        Raises:
            SettingsError: the home has the results of another profile, or of an earlier form.
        """
        claim_home(settings)
        return cls(settings.home, settings, prefix)

    def path(self, key: str, partition: str | None = None) -> Path:
        """The path of a partition's file."""
        return self.root / key / f"{partition or ALL}.parquet"

    def partitions(self, key: str) -> list[str]:
        """The partitions of a table that have files."""
        if self._settings is None:
            return sorted(path.stem for path in (self.root / key).glob("[!.]*.parquet"))
        return [name for name in partitions_of(key, self._settings) or () if self.has_file(key, name)]

    def has_file(self, key: str, partition: str | None = None) -> bool:
        """Whether a partition has a file, damaged or not."""
        return key in self._needed and self.path(key, partition).is_file()

    def has_table(self, key: str) -> bool:
        """Whether a table has any file."""
        return bool(self.partitions(key)) if TABLES[key].partitioning else self.has_file(key)

    @property
    def is_empty(self) -> bool:
        """Whether no table has a file."""
        return not any(map(self.has_table, TABLES))

    def record(self, key: str, partition: str | None = None) -> Record | None:
        """The record of a partition's file; None if that is missing, damaged, or copied from elsewhere."""
        record = read_record(self.path(key, partition)) if key in self._needed else None
        return record if record and (record.table, record.partition) == (key, partition) else None

    def records(self, key: str, partitions: Iterable[str | None] | None = None) -> list[Record]:
        """The records of a table's files: of some partitions, by default of all."""
        if partitions is None:
            partitions = self.partitions(key) if TABLES[key].partitioning else [None]
        return [record for name in partitions if (record := self.record(key, name))]

    def is_whole(self, key: str, partition: str | None = None) -> bool:
        """Whether a partition's file, and the files that its rows name, are as they were written."""
        record = self.record(key, partition)
        with suppress(OSError):
            return record is not None and is_intact(self.path(key, partition)) and self.has_files(record)
        return False

    def has_files(self, record: Record) -> bool:
        """Whether the files that the rows name are as they were written."""
        return all((self.home / name).exists() for name in record.files) and all(
            digest_of(self.home / name) == digest for name, digest in record.digests.items()
        )

    def content(self, key: str, partition: str | None = None) -> str:
        """The hash of the rows of a partition.

        Raises:
            LakeError: it is missing or damaged.
        """
        if (record := self.record(key, partition)) is None:
            raise self._missing(key, partition)
        return record.content

    def read(
        self, key: str, partitions: Iterable[str] | str | None = None, columns: Sequence[str] | None = None
    ) -> pl.DataFrame:
        """Rows of a table, without provenance columns.

        Args:
            partitions: all that have files by default.
            columns: all by default.

        Raises:
            LakeError: a file is missing, damaged, or of another version; says how to make it.
        """
        empty = TABLES[key].schema.create_empty().select(columns or pl.all())
        if key not in self._needed:
            return empty
        if TABLES[key].partitioning is None:
            return self._read(key, None, columns)
        wanted = self.partitions(key) if partitions is None else partitions
        names = [wanted] if isinstance(wanted, str) else wanted
        return pl.concat([empty, *(self._read(key, name, columns) for name in names)])

    def _read(self, key: str, partition: str | None, columns: Sequence[str] | None) -> pl.DataFrame:
        path = self.path(key, partition)
        if self.record(key, partition) is None:
            raise self._missing(key, partition)
        try:
            if not is_intact(path):
                raise DamagedFile(path, "its bytes are not those that were written", self._option)
            return read_rows(path, key, columns)
        except pl.exceptions.ColumnNotFoundError as error:
            raise LakeError(
                f"lake file {path} was made with other columns ({first_line(error)}); run "
                f"`cpmi run{self._option}` again"
            ) from error
        except pl.exceptions.PolarsError as error:
            raise DamagedFile(path, first_line(error), self._option) from error
        except OSError as error:
            raise LakeError(
                f"lake file {path} cannot be read ({first_line(error)}); look at its permissions and its disk"
            ) from error

    def _missing(self, key: str, partition: str | None) -> LakeError:
        if self.has_file(key, partition):
            return DamagedFile(self.path(key, partition), "it is truncated, or was copied from elsewhere", self._option)
        name = partition_name("/".join((*self._prefix, key)), partition)
        command = "" if self._prefix else f", or run `cpmi run{self._option} --only {key}`"
        return LakeError(f"{name} has not been made yet; materialize it{command}")

    def write(self, frame: pl.DataFrame, record: Record) -> Record:
        """Check rows against their table's contract, and write them.

        Returns:
            The record as written.

        Raises:
            LakeError: the rows break the contract; names the rule and a row, and nothing is written.
            StorageError: the disk is full, or the lake cannot be written.
        """
        valid = check_rows(frame, record.table)
        done = self._complete(record, valid.height, rows_hash(valid))
        path = self.path(record.table, record.partition)
        if record.table in COMPARED:
            self._keep_earlier(done, path)
        write_rows(valid, done, path)
        return done

    def _keep_earlier(self, new: Record, path: Path) -> None:
        """Copy a file before rows made of other facts replace it."""
        before = self.record(new.table, new.partition)
        if before is not None and before.content != new.content and before.facts != new.facts:
            with whole_file(self._earlier_path(new.table, new.partition)) as unfinished:
                copyfile(path, unfinished)

    def _earlier_path(self, key: str, partition: str | None) -> Path:
        path = self.path(key, partition)
        return path.parent / EARLIER / path.name

    def earlier(self, key: str, partition: str | None = None) -> Record | None:
        """The record of a partition's previous file; None if there is none."""
        return read_record(self._earlier_path(key, partition))

    def replaced_since(self, key: str, seconds: float) -> list[str]:
        """The partitions of which other rows replaced the previous ones since a time, in seconds since 1970."""
        files = ((name, self._earlier_path(key, name)) for name in self.partitions(key))
        return [name for name, file in files if file.is_file() and file.stat().st_mtime >= seconds]

    def read_earlier(self, key: str) -> pl.DataFrame:
        """The rows that stood in the places of a table's partitions before, without those of damaged files."""
        frames: list[pl.DataFrame] = [TABLES[key].schema.create_empty()]
        for partition in self.partitions(key):
            with suppress(OSError, pl.exceptions.PolarsError):
                frames.append(read_rows(self._earlier_path(key, partition), key))
        return pl.concat(frames)

    def write_stream(
        self, key: str, frames: Iterable[pl.DataFrame], records: Mapping[str, Record], check: Callable[[], None]
    ) -> None:
        """Write all partitions of a table from a stream of batches, in their order.

        Args:
            frames: batches of rows with a column `shard`, the partition of each.
            records: by partition; one without rows gets an empty file.
            check: called after the last row, before any file is renamed into place.

        Raises:
            LakeError: as `write`; no partition is written.
            StorageError: as `write`; partitions already in place are made again with the others.
        """
        with ExitStack() as open_files:
            writers = {
                name: open_files.enter_context(self._partition_writer(record)) for name, record in records.items()
            }
            columns = list(TABLES[key].schema.columns())
            for frame in frames:
                valid = check_rows(frame, key).with_columns(frame["shard"])
                for (name,), rows in valid.partition_by("shard", as_dict=True, maintain_order=True).items():
                    writers[str(name)].add(rows.select(columns))
            check()

    @contextmanager
    def _partition_writer(self, record: Record) -> Iterator[PartitionWriter]:
        with whole_file(self.path(record.table, record.partition)) as unfinished:
            writer = PartitionWriter(unfinished, record)
            yield writer
            writer.close(self._complete)

    def _complete(self, record: Record, rows: int, content: str) -> Record:
        digests = {name: digest_of(self.home / name) for name in record.files}
        before = self.record(record.table, record.partition)
        is_same = before and (before.content, before.model, before.digests) == (content, record.model, digests)
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        written_at = before.written_at if before and is_same else now
        return replace(record, content=content, digests=digests, rows=rows, written_at=written_at)

    def lock_partition(self, key: str, partition: str | None, say: Any) -> AbstractContextManager[None]:
        """The lock for making a partition: a second process waits, then skips the current file."""
        return locked(self._lock_file(key, partition or ALL), say)

    def _lock_file(self, key: str, name: str) -> Path:
        return self.root / ".locks" / f"{key.replace('/', '.')}.{name}.lock"

    def tidy(self, key: str, partition: str | None) -> None:
        """Remove unfinished files of killed processes from a partition and its answers; the caller holds the lock.

        Recipes share their answers, of which unfinished ones are removed if no other recipe is being made.
        """
        patterns = [f".{partition or ALL}.parquet.*", f"{CALLS}/*/*/{partition or '*'}/.*"]
        with ExitStack() as others:
            if TABLES[key].partitioning == "recipe":
                with suppress(Timeout):
                    own, every = self._lock_file(key, partition or ALL), self._lock_file(key, "*")
                    for file in every.parent.glob(every.name):
                        if file != own:
                            others.enter_context(file_lock(file).acquire(blocking=False))
                    patterns.append(f"{CALLS}/*/*/*/.*")
            for path in [path for each in patterns for path in (self.root / key).glob(each + UNFINISHED)]:
                path.unlink(missing_ok=True)

    def remove_shards(self) -> None:
        """Remove all tables by shard, which another number of shards would mix; kept answers stay."""
        for key in (key for key, table in TABLES.items() if table.partitioning == "shard"):
            for pattern in ("[0-9]*.parquet", f"{EARLIER}/[0-9]*.parquet"):
                for path in (self.root / key).glob(pattern):
                    path.unlink(missing_ok=True)

    def work_folder(self, name: str) -> Path:
        """The folder for unfinished work of this name."""
        return self.root / ".work" / name
