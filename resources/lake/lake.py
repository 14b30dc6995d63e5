"""The lake: every asset as Parquet, written whole or not at all.

    <home>/lake/labels/hard_negatives/shard=003.parquet      partitioned by shard (or recipe=..., benchmark=...)
    <home>/lake/selection/selected_trajectories.parquet      one file
    <home>/lake/.work/labels/answer_logprobs/003-1f0c.../chunk-00002-…    a killed run continues here

    <home>/lake/.damaged/labels.hard_negatives.003.parquet    what was found damaged, and made again

What made a file (fingerprint, inputs, run, model, cost) is in the file's footer, so that one rename commits the rows
and their provenance together. `Lake.write` checks the table's contract first; reading checks the file's seal.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
from dataframely.exc import SchemaError, ValidationError

from cpmi_dagster.contracts.tables import TABLES, provenance_of
from cpmi_dagster.errors import LakeError, first_line
from cpmi_dagster.files.file_states import by_state
from cpmi_dagster.files.locks import locked
from cpmi_dagster.files.whole_files import remove_unfinished
from cpmi_dagster.resources.lake.chunk_store import WORK, ChunkStore, unfinished_paces
from cpmi_dagster.resources.lake.fingerprints import rows_hash
from cpmi_dagster.resources.lake.home_files import LateWrite, Version
from cpmi_dagster.resources.lake.homes import open_home
from cpmi_dagster.resources.lake.pace import Pace
from cpmi_dagster.resources.lake.sealed_parquet import DamagedFile, checked_seal, sealed
from cpmi_dagster.resources.lake.shared_locks import SharedLocks

FOOTER_KEY = "cpmi"
LAKE = "lake"
LOG = logging.getLogger(__name__)
Found = TypeVar("Found")
Place = tuple[str, str | None]
"""A table, and a partition of it."""
Contents = Mapping[Place, str]
"""The hashes of the rows of files."""
Begun = Mapping[Place, Version | None]
"""The files that were in place when their making began."""


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
    """Reads and writes the Parquet files under `lake` of a home.

    Args:
        home: the folder of a profile, or its address on an object store.
        remake: tables that count as stale.
        contents: files that are read with no other rows than these.
        begun: files that are replaced in no other version than this.
        locks: of several machines, where the home is on an object store.

    Attributes:
        files: of the home.
        folder: of this machine, with what is not shared; the home itself where that is a folder.
        root: the folder of this machine that has the files of tables, or copies of them.
    """

    def __init__(
        self,
        home: Path | str,
        remake: frozenset[str] = frozenset(),
        contents: Contents | None = None,
        begun: Begun | None = None,
        locks: SharedLocks | None = None,
    ) -> None:
        self.home = home
        self.files = open_home(home)
        self.folder = self.files.folder
        self.root = self.folder / LAKE
        self.remake = remake
        self._contents = contents or {}
        self._begun = begun or {}
        self._locks = locks if locks and locks.postgres else None

    def at(self, contents: Contents, begun: Begun | None = None) -> "Lake":
        """The same files, some of which are read, or replaced, in one version or not at all."""
        return Lake(self.home, self.remake, contents, begun, self._locks)

    def remaking(self, keys: Iterable[str]) -> "Lake":
        """The same files, those of some tables stale."""
        return Lake(self.home, frozenset(keys), locks=self._locks)

    def path(self, key: str, partition: str | None = None) -> Path:
        """The path of a table's file, or of one partition's; on an object store, that of a current copy."""
        return self.files.path(name_of(key, partition))

    def partitions(self, key: str) -> list[str]:
        """Partition keys that have been made."""
        prefix, suffix = f"{TABLES[key].partitioning}=", ".parquet"
        names = self.files.names(f"{LAKE}/{key}")
        return [
            name.removeprefix(prefix).removesuffix(suffix)
            for name in names
            if name.startswith(prefix) and name.endswith(suffix)
        ]

    def exists(self, key: str) -> bool:
        """Whether any rows of a table were ever written."""
        return bool(self.partitions(key)) if TABLES[key].partitioning else self.has(key)

    def has(self, key: str, partition: str | None = None) -> bool:
        """Whether there is a file, damaged or not."""
        return self.files.exists(name_of(key, partition))

    def has_rows(self) -> bool:
        """Whether any table was ever written."""
        return any(map(self.exists, TABLES))

    def begun(self, keys: Iterable[str], partition: str | None) -> Begun:
        """The files that are in place now, to be replaced in this version only."""
        return {(key, partition): self.files.version(name_of(key, partition)) for key in keys}

    def record(self, key: str, partition: str | None = None) -> FileRecord | None:
        """What made a file, or None where there is none.

        Raises:
            LakeError: the file is truncated, lies in the place of another, or was not written by this package.
        """
        try:
            path, record = self._fetched(name_of(key, partition), self.files.tail, _record_in)
        except FileNotFoundError:
            return None
        if (record.table, record.partition) != (key, partition):
            place = " ".join(filter(None, (record.table, record.partition)))
            raise DamagedFile(path, f"it contains {place}; the file was copied or renamed")
        return record

    def content(self, key: str, partition: str | None = None) -> str:
        """The hash of the rows of a file.

        Raises:
            LakeError: the file is missing.
        """
        record = self.record(key, partition)
        if record is None:
            raise self.missing(key, partition)
        return record.content

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
        try:
            self._fetched(name_of(key, partition), self.files.path, _seal_of)
        except FileNotFoundError:
            return
        self.record(key, partition)

    def _fetched(self, name: str, find: Callable[[str], Path], read: Callable[[Path], Found]) -> tuple[Path, Found]:
        """A file and what is read of it; where a local copy is damaged, of the object itself."""
        path = find(name)
        try:
            return path, read(path)
        except DamagedFile:
            if not self.files.forget(name):
                raise
            path = find(name)
            return path, read(path)

    def is_whole(self, key: str, partition: str | None = None) -> bool:
        """Whether a file is there, and not damaged anywhere."""
        try:
            self.check(key, partition)
        except LakeError:
            return False
        return self.has(key, partition)

    def missing(self, key: str, partition: str | None = None) -> LakeError:
        """The error to raise for a file that is needed and not there."""
        return LakeError(f"{_words(key, partition)} has not been made yet; run `cpmi run --only {key}` first")

    def usable_record(self, key: str, partition: str | None = None) -> FileRecord | None:
        """What made a file that can be kept: it is intact, not to be made again, and what it points at is there."""
        record = None if key in self.remake else self.intact_record(key, partition)
        return record if record is not None and self._has_files(record) else None

    def _has_files(self, record: FileRecord) -> bool:
        return all(map(self.files.exists, record.files))

    def file(self, path: str, key: str, partition: str | None = None) -> Path:
        """Where a file or folder lies that the rows of a table's file point at: weights, a report.

        Args:
            path: as the rows have it, relative to the home.

        Raises:
            LakeError: it is not whole.
        """
        record = self.intact_record(key, partition)
        kept = (file for file in record.files if file.endswith(path)) if record else iter(())
        return self.files.path(next(kept, path))

    def write(self, frame: pl.DataFrame, record: FileRecord) -> FileRecord:
        """Check a frame against its table's contract and commit it with one rename.

        Returns:
            The record as written, with row count, content hash and time.

        Raises:
            LakeError: the frame breaks the contract; the message names the rule and a row.
            LateWrite: another run has made the file since its making began here.
            StorageError: there is no room, or the lake cannot be written.
        """
        valid = _checked(frame, record.table)
        before = self.intact_record(record.table, record.partition) if record.files else None
        complete = replace(
            record,
            files=self.files.keep(record.files),
            content=rows_hash(valid),
            rows=valid.height,
            written_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        provenance = provenance_of(TABLES[record.table]).items()
        stamped = valid.with_columns(pl.lit(getattr(record, name), dtype).alias(name) for name, dtype in provenance)
        data, _ = sealed(stamped, {FOOTER_KEY: json.dumps(asdict(complete))})
        place = record.table, record.partition
        try:
            over = self._begun[place] if place in self._begun else self.files.version(name_of(*place))
            self.files.commit(name_of(*place), data, over)
        except LateWrite as error:
            self.files.drop(complete.files)
            raise LateWrite(
                f"{_words(*place)} was made by another run while this one was making it too; the other's rows stay, "
                "and these are not written"
            ) from error
        self.files.show(complete.files)
        self.files.drop(before.files if before else ())
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
        if not self.has(key, partition):
            self.files.look_again()
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
        self._check_contents(key, partition)
        return frame

    def _check_contents(self, key: str, partition: str | None) -> None:
        """Refuse a file that another run has replaced since its version was taken."""
        expected = self._contents.get((key, partition))
        record = self.record(key, partition) if expected is not None else None
        if record is not None and record.content != expected:
            raise LakeError(f"{_words(key, partition)} was rebuilt while this run was about to read it; run again")

    def making(
        self, key: str, partition: str | None, say: Callable[[str], object] = LOG.warning
    ) -> AbstractContextManager[None]:
        """The lock under which a file is made: a second run waits, and then skips the file."""
        name = f"{key.replace('/', '.')}.{partition or 'all'}"
        return self._locks.locked(name, say) if self._locks else locked(self.root / ".locks" / f"{name}.lock", say)

    def tidy(self, key: str, partition: str | None, say: Callable[[str], object] = LOG.warning) -> None:
        """Remove what killed writers of a file left, and put a damaged file aside; the caller holds its lock."""
        path = self.path(key, partition)
        remove_unfinished(path)
        try:
            self.check(key, partition)
        except DamagedFile as error:
            aside = f"{LAKE}/.damaged/{key.replace('/', '.')}.{partition or 'all'}.parquet"
            place = self.files.put_aside(name_of(key, partition), aside)
            say(f"{error}; it is made again now, and what was there lies at {place}")

    def work_folder(self, name: str) -> Path:
        """Folder of this machine for unfinished work; no result is read from it."""
        return self.folder / WORK / name

    def chunks(self, key: str, partition: str | None, fingerprint: str) -> ChunkStore:
        """Where the finished chunks of an unfinished file are kept."""
        return ChunkStore(self.files, key, partition, fingerprint)

    def paces(self, key: str) -> dict[str, Pace]:
        """How far the partitions of a table are that are begun and not finished."""
        return unfinished_paces(self.files, key)


def name_of(key: str, partition: str | None) -> str:
    """The name of a table's file in its home, or of one partition's."""
    partitioning = TABLES[key].partitioning
    return f"{LAKE}/{key}.parquet" if partitioning is None else f"{LAKE}/{key}/{partitioning}={partition}.parquet"


def _words(key: str, partition: str | None) -> str:
    return f"{key} {partition}" if partition else key


@by_state
def _record_in(path: Path) -> FileRecord:
    """What made a file, as its footer has it."""
    try:
        return FileRecord(**json.loads(pl.read_parquet_metadata(path)[FOOTER_KEY]))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unreadable(path, error) from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, KeyError, TypeError, ValueError) as error:
        raise DamagedFile(path, first_line(error)) from error


def _seal_of(path: Path) -> str:
    try:
        return checked_seal(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> LakeError:
    """The error for a file that may be whole, and which this user or machine cannot read."""
    return LakeError(f"lake file {path} cannot be read ({first_line(error)}); look at its permissions and its disk")


def _own_columns(key: str) -> list[str]:
    """A table's columns without those of its provenance."""
    return list(TABLES[key].schema.columns())


def _checked(frame: pl.DataFrame, key: str) -> pl.DataFrame:
    schema = TABLES[key].schema
    try:
        return schema.validate(frame, cast=True)
    except (SchemaError, ValidationError, pl.exceptions.PolarsError) as error:
        raise LakeError(f"{key}: the rows break the table's contract, nothing was written: {error}") from error
