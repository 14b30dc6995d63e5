"""The lake: every table as Parquet files that are named by what made them, and never changed.

    <home>/lake/labels/hard_negatives/003/5f0c….parquet      of shard 003; `all` for a table without partitions
    <home>/lake/.current/paper.json                          which files the profile `paper` reads
    <home>/lake/.work/labels/answer_logprobs/003-1f0c…/      a killed run continues here

A file's footer has what made it (settings, models, inputs, run, cost), and the key and the hash of the rows of each of
its parts. Two writers of the same thing write the same name. What a profile reads is what its list names: a stage puts
a file there when it has found or made it.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from pathlib import Path

import polars as pl

from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import LakeError
from cpmi_dagster.files.locks import locked
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.chunk_store import WORK, ChunkStore, unfinished_paces
from cpmi_dagster.resources.lake.current_files import LAKE, Counted, CurrentFiles, Entry
from cpmi_dagster.resources.lake.pace import Pace
from cpmi_dagster.resources.lake.parts import parts_asked
from cpmi_dagster.resources.lake.profile_files import ProfileFile
from cpmi_dagster.resources.lake.records import FileRecord, merged
from cpmi_dagster.resources.lake.table_files import ALL, TableFiles, missing, own_columns, place_of, with_categories

LOG = logging.getLogger(__name__)


class Lake:
    """Reads and writes the Parquet files under `lake` of a home, as one profile sees them.

    Args:
        home: the folder of a profile.
        profile: whose list of current files is read and written.
        remake: tables whose files do not count, so that they are made again.
        counted: the list; by default as it is on disk whenever something is read.
        asked: the parts of a table that are read; all by default.
        owner: the profile file that the list has to be of.

    Attributes:
        tables: the files of its tables, read by the profile or not.
        root: the folder that has them.
    """

    def __init__(
        self,
        home: Path,
        profile: str,
        remake: frozenset[str] = frozenset(),
        counted: Counted | None = None,
        asked: Callable[[str], Sequence[str]] | None = None,
        owner: ProfileFile | None = None,
    ) -> None:
        self.home, self.profile = home, profile
        self.tables = TableFiles(home)
        self.root = home / LAKE
        self.remake = remake
        self._fixed = counted
        self._asked = asked
        self._owner = owner
        self._current = CurrentFiles(home, profile, asked)

    @classmethod
    def of(cls, settings: Settings, remake: Iterable[str] = ()) -> "Lake":
        """The lake of a profile's home.

        Raises:
            SettingsError: it has the results of another profile file.
        """
        asked, owner = cache(partial(parts_asked, settings=settings)), ProfileFile(settings)
        owner.check()
        return cls(settings.home, settings.profile, frozenset(remake), asked=asked, owner=owner)

    def fixed(self) -> "Lake":
        """The same files; which of them are read stays as it is now, whatever other runs make."""
        return Lake(self.home, self.profile, self.remake, self.counted, self._asked, self._owner)

    def seeing(self, entries: Counted) -> "Lake":
        """The same files, some partitions read from these; the list on disk stays as it is."""
        return Lake(self.home, self.profile, self.remake, {**self.counted, **entries})

    # which files are current

    @property
    def counted(self) -> Counted:
        """The files that the profile reads, by table and partition.

        Raises:
            LakeError: the list is damaged, or the home is of an earlier form.
        """
        return self._current.counted if self._fixed is None else self._fixed

    def entry(self, key: str, partition: str | None = None) -> Entry | None:
        """The files of a partition that are read; None where it has not been made."""
        return self.counted.get((key, partition))

    def count(self, entries: Counted) -> None:
        """Have some partitions read from these files from now on."""
        if not self._current.has(entries):
            with self._locked(f"current.{self.profile}", LOG.warning):
                self.claim()
                self._current.count(entries)

    def claim(self) -> None:
        """Note that the list is of the profile's file."""
        if self._owner:
            self._owner.note()

    def partitions(self, key: str) -> list[str]:
        """Partitions of a table that have been made, and whose files are there."""
        made = (partition for name, partition in self.counted if name == key and partition is not None)
        return sorted(partition for partition in made if self.has(key, partition))

    def exists(self, key: str) -> bool:
        """Whether any rows of a table were ever written."""
        return bool(self.partitions(key)) if TABLES[key].partitioning else self.has(key)

    def has(self, key: str, partition: str | None = None) -> bool:
        """Whether a partition has been made, and its files are there, damaged or not."""
        entry = self.entry(key, partition)
        return entry is not None and all((self.home / name).exists() for name in _names(key, partition, entry))

    def has_rows(self) -> bool:
        """Whether any table was ever written."""
        return any(map(self.exists, TABLES))

    def whole_files(self, key: str, partition: str | None = None) -> list[str]:
        """The names of the files of a partition, where all of their rows are read; none otherwise."""
        entry = self.entry(key, partition) or {}
        is_whole = all(
            set(parts) >= set(self.tables.record(key, partition, file).parts) for file, parts in entry.items()
        )
        return list(_names(key, partition, entry)) if is_whole else []

    # what made them

    def paths(self, key: str, partition: str | None = None) -> list[Path]:
        """The paths of the files of a partition."""
        return [self.home / name for name in _names(key, partition, self.entry(key, partition) or {})]

    def records(self, key: str, partition: str | None = None) -> list[FileRecord]:
        """What made each file of a partition.

        Raises:
            LakeError: one is missing, damaged, or lies in the place of another.
        """
        entry = self.entry(key, partition) or {}
        return [self.tables.record(key, partition, name) for name in entry]

    def record(self, key: str, partition: str | None = None) -> FileRecord | None:
        """What made a partition; None where it has not been made.

        Raises:
            LakeError: a file is missing, truncated, lies in the place of another, or was not written by this package.
        """
        entry = self.entry(key, partition)
        if entry is None or not self.has(key, partition):
            return None
        return merged(self.records(key, partition), list(entry.values()))

    def content(self, key: str, partition: str | None = None) -> str:
        """The hash of the rows of a partition.

        Raises:
            LakeError: it is missing.
        """
        record = self.record(key, partition)
        if record is None:
            raise missing(key, partition)
        return record.content

    def intact_record(self, key: str, partition: str | None = None) -> FileRecord | None:
        """What made a partition, or None where there is none or it is damaged."""
        try:
            return self.record(key, partition)
        except LakeError:
            return None

    def found(self, key: str, partition: str | None, keys: Mapping[str, str], check: bool) -> Entry:
        """The files that have parts with these keys: those that are read now, then those with most; no damaged ones.

        Args:
            keys: by part.
            check: read every byte of the files.
        """
        offers: list[tuple[bool, int, str, list[str]]] = []
        read = self.entry(key, partition) or {}
        for record in self.tables.records(key, partition) if key not in self.remake else ():
            file = record.file_name
            if parts := [part for part, own in keys.items() if record.parts.get(part) == own]:
                offers.append((file not in read, -len(parts), file, parts))
        chosen: dict[str, list[str]] = {}
        left = set(keys)
        for *_, file, parts in sorted(offers):
            if (added := [part for part in parts if part in left]) and self.tables.is_usable(
                key, partition, file, check
            ):
                chosen[file] = added
                left -= set(added)
        return chosen

    def check(self, key: str, partition: str | None = None) -> None:
        """Read the files of a partition and compare every byte with what was written; once a process.

        Raises:
            LakeError: one is missing, damaged, lies in the place of another, or cannot be read.
        """
        for file in self.entry(key, partition) or ():
            self.tables.check(key, partition, file)

    def is_whole(self, key: str, partition: str | None = None) -> bool:
        """Whether a partition is there, and not damaged anywhere."""
        try:
            self.check(key, partition)
        except LakeError:
            return False
        return self.has(key, partition)

    # rows

    def write(self, frame: pl.DataFrame, record: FileRecord) -> FileRecord:
        """Commit a file, and have its partition read from it."""
        written = self.put(frame, record)
        self.count({(record.table, record.partition): {written.file_name: list(written.parts)}})
        return written

    def put(self, frame: pl.DataFrame, record: FileRecord) -> FileRecord:
        """Commit a file; see `TableFiles.put`."""
        return self.tables.put(frame, record, is_again=record.table in self.remake)

    def read(
        self, key: str, partitions: Iterable[str] | str | None = None, columns: Sequence[str] | None = None
    ) -> pl.DataFrame:
        """Rows of a table that the profile asks for, without their provenance columns.

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

    def read_whole(self, key: str, partition: str | None, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """All rows of the files that a partition is read from, those of parts that the profile does not ask for too."""
        entry = {record.file_name: list(record.parts) for record in self.records(key, partition)}
        return self.seeing({(key, partition): entry}).read(key, partition, columns)

    def head(self, key: str, partition: str | None, rows: int) -> pl.DataFrame:
        """The first rows of a partition, without their provenance columns."""
        paths = self.paths(key, partition)[:1]
        empty = TABLES[key].schema.create_empty()
        heads = (pl.read_parquet(path, columns=own_columns(key), n_rows=rows) for path in paths)
        return pl.concat([empty, *(with_categories(key, frame) for frame in heads)])

    def _read(self, key: str, partition: str | None, columns: Sequence[str] | None) -> pl.DataFrame:
        entry = self.entry(key, partition)
        if entry is None:
            raise missing(key, partition)
        names = list(columns or own_columns(key))
        keys = TABLES[key].schema.primary_key() if len(entry) > 1 else []
        frames = [
            self.tables.read(key, partition, file, parts, list(dict.fromkeys([*names, *keys])))
            for file, parts in entry.items()
        ]
        if len(frames) == 1:
            return frames[0]
        together = pl.concat(
            [TABLES[key].schema.create_empty().select(frames[0].columns if frames else names), *frames]
        )
        return together.unique(keys, keep="first").sort(keys).select(names) if keys else together

    # work on them

    def making(
        self, key: str, partition: str | None, say: Callable[[str], object] = LOG.warning
    ) -> AbstractContextManager[None]:
        """The lock under which a partition is made: a second run waits, and then finds the files."""
        return self._locked(f"{key.replace('/', '.')}.{partition or ALL}", say)

    def _locked(self, name: str, say: Callable[[str], object]) -> AbstractContextManager[None]:
        return locked(self.root / ".locks" / f"{name}.lock", say)

    def work_folder(self, name: str) -> Path:
        """Folder for unfinished work; no result is read from it."""
        return self.home / WORK / name

    def chunks(self, key: str, partition: str | None, fingerprint: str) -> ChunkStore:
        """Where the finished chunks of an unfinished partition are kept."""
        return ChunkStore(self.home, key, partition, fingerprint)

    def paces(self, key: str) -> dict[str, Pace]:
        """How far the partitions of a table are that are begun and not finished."""
        return unfinished_paces(self.home, key)


def _names(key: str, partition: str | None, entry: Entry) -> Iterator[str]:
    return (place_of(key, partition, file) for file in entry)
