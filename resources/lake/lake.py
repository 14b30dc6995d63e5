"""The lake: every table as Parquet files, one a partition, each with the record of what made it in its footer.

    <home>/lake/labels/hard_negatives/003.parquet      shard 003; `all` for a table without partitions
    <home>/lake/labels/hard_negatives/.calls/…         what a model answered, see `calls`
    <home>/lake/reports/figures/.earlier/contrast.parquet      what stood there before it, of a few tables
    <home>/lake/.work/models/process_reward_models/…   unfinished training

A file is written beside its place and renamed over it, so that readers see the old rows or the new ones. A file that is
missing, damaged, copied from elsewhere or of another key is made again: it is a pure function of what its record names.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from shutil import copyfile
from typing import Any

import polars as pl

from cpmi_dagster.contracts.keys import FIGURES, SOFT_LABELS, STEP_REWARDS
from cpmi_dagster.contracts.report_tables import ARTIFACT_NAMES
from cpmi_dagster.contracts.tables import TABLES, columns_of
from cpmi_dagster.errors import LakeError, first_line
from cpmi_dagster.files.file_states import by_state, file_digest
from cpmi_dagster.files.locks import locked
from cpmi_dagster.files.whole_files import UNFINISHED, whole_file
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.home_file import claim_home
from cpmi_dagster.resources.lake.partition_writer import PartitionWriter
from cpmi_dagster.resources.lake.records import FOOTER, Record, check_rows, hash_of, rows_hash, with_provenance
from cpmi_dagster.resources.lake.sealed_parquet import DamagedFile, is_intact, write_sealed

LAKE = "lake"
ALL = "all"
CALLS, EARLIER = ".calls", ".earlier"
COMPARED = (STEP_REWARDS, SOFT_LABELS, FIGURES)
"""Tables whose rows are kept when others take their place, so that two settings can be compared."""


class Lake:
    """Reads and writes the tables of a home.

    Args:
        home: the folder of a profile.
        settings: the profile, whose partitions are read; without one, all that are on disk.
    """

    def __init__(self, home: Path, settings: Settings | None = None) -> None:
        self.home, self.root, self._settings = home, home / LAKE, settings

    @classmethod
    def of(cls, settings: Settings) -> "Lake":
        """The lake of a profile's home.

        Raises:
            SettingsError: the home has the results of another profile, or of an earlier form.
        """
        claim_home(settings)
        return cls(settings.home, settings)

    def path(self, key: str, partition: str | None = None) -> Path:
        """Where a partition's file is."""
        return self.root / key / f"{partition or ALL}.parquet"

    def partitions(self, key: str) -> list[str]:
        """Partitions of a table whose files are there."""
        if self._settings is None:
            return sorted(path.stem for path in (self.root / key).glob("[!.]*.parquet"))
        return [name for name in partitions_of(key, self._settings) or () if self.has(key, name)]

    def has(self, key: str, partition: str | None = None) -> bool:
        """Whether a partition's file is there, damaged or not."""
        return self.path(key, partition).is_file()

    def exists(self, key: str) -> bool:
        """Whether any rows of a table were ever written."""
        return bool(self.partitions(key)) if TABLES[key].partitioning else self.has(key)

    def has_rows(self) -> bool:
        """Whether any table was ever written."""
        return any(map(self.exists, TABLES))

    def record(self, key: str, partition: str | None = None) -> Record | None:
        """What made a partition; None where there is no file, or one that is damaged or was copied from elsewhere."""
        try:
            record = _record_in(self.path(key, partition))
        except (OSError, DamagedFile):
            return None
        return record if (record.table, record.partition) == (key, partition) else None

    def is_whole(self, key: str, partition: str | None = None) -> bool:
        """Whether a partition is there, no byte of it is damaged, and what its rows point at is what was written."""
        record = self.record(key, partition)
        try:
            return record is not None and is_intact(self.path(key, partition)) and self.has_files(record)
        except OSError:
            return False

    def has_files(self, record: Record) -> bool:
        """Whether what the rows of a file point at is there, and is what was written."""
        return all((self.home / name).exists() for name in record.files) and all(
            digest_of(self.home / name) == digest for name, digest in record.digests.items()
        )

    def content(self, key: str, partition: str | None = None) -> str:
        """The hash of the rows of a partition.

        Raises:
            LakeError: it is missing or damaged.
        """
        record = self.record(key, partition)
        if record is None:
            raise self._missing(key, partition)
        return record.content

    def read(
        self, key: str, partitions: Iterable[str] | str | None = None, columns: Sequence[str] | None = None
    ) -> pl.DataFrame:
        """Rows of a table, without their provenance columns.

        Args:
            partitions: which partitions; all that have been made by default.
            columns: which columns; all by default.

        Raises:
            LakeError: a file is missing, damaged, or of another version; the message says how to get it.
        """
        if TABLES[key].partitioning is None:
            return self._read(key, None, columns)
        if partitions is None:
            partitions = self.partitions(key)
        wanted = [partitions] if isinstance(partitions, str) else list(partitions)
        empty = TABLES[key].schema.create_empty().select(columns or own_columns(key))
        return pl.concat([empty, *(self._read(key, partition, columns) for partition in wanted)])

    def _read(self, key: str, partition: str | None, columns: Sequence[str] | None) -> pl.DataFrame:
        path = self.path(key, partition)
        if self.record(key, partition) is None:
            raise self._missing(key, partition)
        try:
            if not is_intact(path):
                raise DamagedFile(path, "its bytes are not those that were written")
            return _with_categories(key, pl.read_parquet(path, columns=list(columns or own_columns(key))))
        except pl.exceptions.ColumnNotFoundError as error:
            raise LakeError(
                f"lake file {path} was made with other columns ({first_line(error)}); run `cpmi run` again"
            ) from error
        except pl.exceptions.PolarsError as error:
            raise DamagedFile(path, first_line(error)) from error
        except OSError as error:
            raise LakeError(
                f"lake file {path} cannot be read ({first_line(error)}); look at its permissions and its disk"
            ) from error

    def _missing(self, key: str, partition: str | None) -> LakeError:
        if self.has(key, partition):
            return DamagedFile(self.path(key, partition), "it is truncated, or was copied from elsewhere")
        return LakeError(
            f"{words(key, partition)} has not been made yet; materialize it, or run `cpmi run --only {key}`"
        )

    def head(self, key: str, partition: str | None, rows: int) -> pl.DataFrame:
        """The first rows of a partition, without their provenance columns."""
        return _with_categories(key, pl.read_parquet(self.path(key, partition), columns=own_columns(key), n_rows=rows))

    def write(self, frame: pl.DataFrame, record: Record) -> Record:
        """Check rows against the contract of their table, and put them in place.

        Returns:
            The record as written.

        Raises:
            LakeError: a rule of the contract is broken; the message names it and a row, and nothing is written.
            StorageError: there is no room, or the lake cannot be written.
        """
        valid = check_rows(frame, record.table)
        done = self._completed(record, valid.height, rows_hash(valid))
        path = self.path(record.table, record.partition)
        if record.table in COMPARED:
            self._keep_earlier(done, path)
        write_sealed(with_provenance(valid, record), path, {FOOTER: json.dumps(asdict(done))})
        return done

    def _keep_earlier(self, new: Record, path: Path) -> None:
        """Copy what stands in a place before other rows, made of other facts, are put there."""
        before = self.record(new.table, new.partition)
        if before is not None and before.content != new.content and before.facts != new.facts:
            with whole_file(path.parent / EARLIER / path.name) as unfinished:
                copyfile(path, unfinished)

    def earlier(self, key: str, partition: str | None = None) -> Record | None:
        """What made the rows that stood in the place of a partition's before; None if there were none."""
        path = self.root / key / EARLIER / self.path(key, partition).name
        try:
            return _record_in(path)
        except (OSError, DamagedFile):
            return None

    def read_earlier(self, key: str) -> pl.DataFrame:
        """The rows that stood in the places of a table's partitions before, without those of damaged files."""
        frames = [TABLES[key].schema.create_empty().select(own_columns(key))]
        for partition in self.partitions(key):
            with suppress(OSError, pl.exceptions.PolarsError):
                path = self.root / key / EARLIER / self.path(key, partition).name
                frames.append(_with_categories(key, pl.read_parquet(path, columns=own_columns(key))))
        return pl.concat(frames)

    def write_stream(
        self,
        key: str,
        frames: Iterable[pl.DataFrame],
        records: Mapping[str, Record],
        check: Callable[[], None],
    ) -> None:
        """Write all partitions of a table at once from batches of rows, none of which is kept in memory.

        Args:
            frames: batches of rows, with a column `shard` that says in which partition each is; within a partition
                they stand in the order they come.
            records: what makes each partition; one without rows is an empty file.
            check: called when all rows are written, before any file is put in place.

        Raises:
            LakeError: as `write`; then no partition is written.
            StorageError: as `write`; partitions that were put in place are made again with the others.
        """
        with ExitStack() as open_files:
            writers = {
                name: open_files.enter_context(self._partition_writer(record)) for name, record in records.items()
            }
            for frame in frames:
                valid = check_rows(frame, key).with_columns(frame["shard"])
                for (name,), rows in valid.partition_by("shard", as_dict=True, maintain_order=True).items():
                    writers[str(name)].add(rows.select(own_columns(key)))
            check()

    @contextmanager
    def _partition_writer(self, record: Record) -> Iterator[PartitionWriter]:
        with whole_file(self.path(record.table, record.partition)) as unfinished:
            writer = PartitionWriter(unfinished, record)
            yield writer
            writer.close(self._completed)

    def _completed(self, record: Record, rows: int, content: str) -> Record:
        return replace(
            record,
            content=content,
            digests={name: digest_of(self.home / name) for name in record.files},
            rows=rows,
            written_at=datetime.now(UTC).isoformat(timespec="microseconds"),
        )

    def making(self, key: str, partition: str | None, say: Any) -> AbstractContextManager[None]:
        """The lock under which a partition is made: a second process waits, and then finds the file."""
        return locked(self.root / ".locks" / f"{key.replace('/', '.')}.{partition or ALL}.lock", say)

    def tidy(self, key: str, partition: str | None) -> None:
        """Remove what killed writers left of a partition and its answers of models; the caller holds its lock."""
        folder = self.root / key
        for pattern in (f".{partition or ALL}.parquet.*", f"{CALLS}/*/*/{partition or '*'}/.*"):
            for left in folder.glob(pattern + UNFINISHED):
                left.unlink(missing_ok=True)

    def remove_shards(self) -> None:
        """Remove the tables by shard, which another number of shards would mix; they are made again from answers."""
        for key in (key for key, table in TABLES.items() if table.partitioning == "shard"):
            for pattern in ("[0-9]*.parquet", f"{EARLIER}/*.parquet"):
                for path in (self.root / key).glob(pattern):
                    path.unlink(missing_ok=True)

    def work_folder(self, name: str) -> Path:
        """Folder for unfinished work; no result is read from it."""
        return self.root / ".work" / name


def partitions_of(key: str, settings: Settings) -> list[str] | None:
    """The partitions that a profile gives a table; None for a table in one file."""
    by_partitioning = {
        "shard": settings.shard_keys,
        "recipe": settings.recipe_names,
        "benchmark": list(settings.benchmarks.best_of_n),
        "artifact": list(ARTIFACT_NAMES),
    }
    partitioning = TABLES[key].partitioning
    return by_partitioning[partitioning] if partitioning else None


def words(key: str, partition: str | None) -> str:
    """A partition in sentences."""
    return f"{key} {partition}" if partition else key


def own_columns(key: str) -> list[str]:
    """A table's columns without those of its provenance."""
    return list(TABLES[key].schema.columns())


def digest_of(path: Path) -> str:
    """The hash of a file, or of the weights in a folder.

    Raises:
        OSError: it is not there.
    """
    if path.is_dir():
        return hash_of({weights.name: file_digest(weights) for weights in path.glob("*.safetensors")})
    return file_digest(path)


@by_state
def _record_in(path: Path) -> Record:
    try:
        return Record(**json.loads(pl.read_parquet_metadata(path)[FOOTER]))
    except OSError:
        raise
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, KeyError, TypeError, ValueError) as error:
        raise DamagedFile(path, first_line(error)) from error


def _with_categories(key: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of a file with the categories of today's contract: one may have been added since they were written."""
    kinds = columns_of(TABLES[key])
    return frame.cast({name: kinds[name] for name in frame.columns if isinstance(kinds.get(name), pl.Enum)})
