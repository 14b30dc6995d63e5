"""`cpmi.duckdb`: every asset as `schema.table`, with comments, rebuilt next to the old file and renamed over it.

Results (`RESULT_GROUPS`) are real tables once they are made. All else is a view over the Parquet files of the lake,
so a connection sees rows the moment they are written, also one that is already open. A view needs a file to read:

    lake/labels/hard_negatives/empty.parquet                         no rows; written when the database is published
    lake/labels/hard_negatives/shard=000.parquet                     read_parquet('…/labels/hard_negatives/*.parquet')
    lake/labels/hard_negatives/Copy of shard=000.parquet             left out: a view names the files it shows

A view stores the path of its home. Readers of this package override it with where the database lies now (`cpmi_home`);
for any other connection a view of a database that was copied or moved is an error, and never the rows of the home it
came from.

All that the file holds is in the lake. One that is damaged, that another program holds open for writing, or that has
another's write-ahead log beside it is published again.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import polars as pl

from cpmi_dagster.contracts.tables import TABLES, Table, column_meanings, columns_of
from cpmi_dagster.errors import LakeError, StorageError, first_line
from cpmi_dagster.files.locks import locked, locked_beside
from cpmi_dagster.files.whole_files import remove_unfinished, whole_file
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.input_rows import partitions_of
from cpmi_dagster.resources.lake.lake import LAKE, Lake, name_of
from cpmi_dagster.resources.lake.queries import DEFAULT_SECONDS, Answer, check_files, locked_connection, quoted
from cpmi_dagster.resources.lake.query_process import answer_apart
from cpmi_dagster.resources.lake.read_only_lake import HOME
from cpmi_dagster.resources.lake.sealed_parquet import DamagedFile, checked_seal, sealed

LOG = logging.getLogger(__name__)
FILE_NAME = "cpmi.duckdb"
RESULT_GROUPS = ("reports",)
COMPARISON = "reports.paper_comparison"
EMPTY = "empty.parquet"
# a format that old DuckDB opens; views with `columns` in `coalesce` are read from 1.3 on
STORAGE_VERSION = "v1.2.0"
HOME_VARIABLE = "cpmi_home"
CONFIG: dict[str, str | bool | int | float | list[str]] = {"storage_compatibility_version": STORAGE_VERSION}
EXPORT = "main.cpmi_export"
CHECKPOINT = "checkpoint"
"""Moves all that was written from the log into the file; closing would do so too, and say nothing of a full disk."""
MAGIC = b"DUCK"  # after a checksum of eight bytes


class Database:
    """Publishes the lake as a DuckDB file, and opens it for reading.

    Args:
        settings: the profile whose recipes and benchmarks are shown; without one, all that are on disk.
    """

    def __init__(self, lake: Lake, settings: Settings | None = None) -> None:
        self._lake = lake
        self._settings = settings
        self.path = lake.folder / FILE_NAME

    def publish(self) -> None:
        """Write a new file that shows the lake as it is now, and put it in place of the old one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        for group in RESULT_GROUPS:
            self._lake.files.fetch(f"{LAKE}/{group}")
        with locked(self.path.with_suffix(".lock")):
            remove_unfinished(self.path)
            self._write_empty()
            try:
                with whole_file(self.path) as unfinished:
                    with duckdb.connect(str(unfinished), config=CONFIG) as connection:
                        connection.begin()
                        for table in TABLES.values():
                            self._show(connection, table)
                        _show_comparison(connection)
                        connection.commit()
                        connection.execute(CHECKPOINT)
                    # a log that another program left would be taken for this file's
                    self.path.with_name(f"{FILE_NAME}.wal").unlink(missing_ok=True)
            except duckdb.Error as error:
                raise LakeError(f"{self.path} cannot be published: {first_line(error)}") from error

    def export(self, path: Path, facts: Mapping[str, str], advance: Callable[[int, int], None]) -> pl.DataFrame:
        """Write a file that holds the rows of every table itself, to be read anywhere; the home is left as it is.

        Args:
            path: the file; one that is there is replaced when the new one is complete.
            facts: what it is an export of, for its table `cpmi_export`.
            advance: called with the numbers of tables just written and of all.

        Returns:
            The tables that have rows: relation, rows.

        Raises:
            LakeError: nothing has been made yet, or a file of the lake is damaged.
            StorageError: there is no room for it.
        """
        if not self._lake.has_rows():
            raise LakeError("there is nothing to export yet; run `cpmi run` first")
        try:
            with locked_beside(path, waits=True):
                remove_unfinished(path)
                with whole_file(path) as unfinished, duckdb.connect(str(unfinished), config=CONFIG) as connection:
                    empty = unfinished.with_name(f"{unfinished.name}.empty.parquet")
                    for table in TABLES.values():
                        pl.DataFrame(schema=columns_of(table)).write_parquet(empty)
                        self._show(connection, table, copied=[*self._checked_files(table), empty])
                        advance(1, len(TABLES))
                    empty.unlink()
                    _show_comparison(connection)
                    connection.execute(f"create table {EXPORT} (name varchar, value varchar)")
                    connection.executemany(f"insert into {EXPORT} values (?, ?)", [*map(list, facts.items())])
                    rows = connection.sql(_ROWS).pl()
                    connection.execute(CHECKPOINT)
                path.with_name(f"{path.name}.wal").unlink(missing_ok=True)  # of what was replaced
            return rows
        except duckdb.Error as error:
            raise LakeError(f"{path} cannot be written: {first_line(error)}") from error

    def _checked_files(self, table: Table) -> list[Path]:
        """The files of a table, brought here and read, damage and all, before they are copied."""
        self._lake.files.fetch(f"{LAKE}/{table.key}" if table.partitioning else f"{LAKE}/{table.group}")
        partitions = self._lake.partitions(table.key) if table.partitioning else [None]
        for partition in partitions:
            self._lake.check(table.key, partition)
        return [path for partition in partitions if (path := self._lake.path(table.key, partition)).is_file()]

    def _write_empty(self) -> None:
        for table in TABLES.values():
            remove_unfinished(self._empty(table))
            if not self._has_empty(table):
                with whole_file(self._empty(table)) as unfinished:
                    unfinished.write_bytes(sealed(pl.DataFrame(schema=columns_of(table)), {})[0])

    @property
    def files(self) -> list[str]:
        """The files of the home that `publish` makes; none where each machine has its own."""
        return [FILE_NAME] if self._lake.folder == self._lake.home else []

    def shows(self, *keys: str) -> bool:
        """Whether rows of these tables are seen once written: all are views with today's columns and partitions."""
        try:
            with duckdb.connect(str(self.path), read_only=True) as connection:
                return self._are_shown(connection, keys)
        except duckdb.Error:
            return False

    def _are_shown(self, connection: duckdb.DuckDBPyConnection, keys: Iterable[str]) -> bool:
        found = connection.sql("select schema_name, view_name, sql from duckdb_views() where not internal").fetchall()
        views = {f"{group}/{name}": sql for group, name, sql in found}
        return all(
            key in views and self._is_view_of(views[key], TABLES[key]) and self._has_empty(TABLES[key]) for key in keys
        )

    def _is_view_of(self, sql: str, table: Table) -> bool:
        """Whether a published view names the files of the partitions that the profile has."""
        if self._settings is None or not table.partitioning:
            return True
        published = set(re.findall(rf"'({table.partitioning}=[^']*\.parquet)'", sql))
        named = partitions_of(table.key, self._settings) or ()
        return published == {Path(name_of(table.key, partition)).name for partition in named}

    def _is_database(self) -> bool:
        with self.path.open("rb") as file:
            return file.read(12).endswith(MAGIC)

    @contextmanager
    def reader(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection that only reads, and nothing but the database and the lake; see `queries`.

        Raises:
            LakeError: nothing has been published yet, or the file cannot be opened nor published again.
        """
        if not self.path.is_file() and (self.files or not self._lake.has_rows()):
            raise LakeError(
                f"there is no database at {self.path}; run `cpmi run` first, or change to the folder where you ran it "
                "(or set CPMI_HOME)"
            )
        if self.path.is_file() and not self._is_database() and not self._lake.has_rows():
            raise LakeError(
                f"{self.path} is damaged, and there are no results to publish it from; run `cpmi run` first"
            )
        connection = self._opened()
        if not self._are_shown(connection, (key for key, table in TABLES.items() if table.group not in RESULT_GROUPS)):
            # files that were deleted, or a profile with other partitions
            connection.close()
            try:
                self.publish()
            except StorageError as error:
                if not self.path.is_file():
                    raise
                LOG.warning("the results are shown as an earlier version published them: %s", error)
            connection = self._opened()
        with connection:
            yield connection

    def another(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
        """A further connection to what a reader is connected to, for a thread of its own; the caller closes it."""
        further = connection.cursor()
        further.execute(f"use {self.path.stem}")
        further.execute(f"set variable {HOME_VARIABLE} = '{HOME}'")
        return further

    def _opened(self) -> duckdb.DuckDBPyConnection:
        """A connection to the file, which is published again where it cannot be opened."""
        try:
            return self._connected()
        except duckdb.Error:
            self.publish()
        try:
            return self._connected()
        except duckdb.Error as error:
            raise LakeError(
                f"{self.path} cannot be opened ({first_line(error)}); see that no other program uses it, and try again"
            ) from error

    def _connected(self) -> duckdb.DuckDBPyConnection:
        return locked_connection(self.path, self._lake.files, HOME_VARIABLE)

    def row_counts(self) -> pl.DataFrame:
        """Rows of every relation, with columns relation and rows."""
        with self.reader() as connection:
            relations = [row[0] for row in connection.sql(_RELATIONS).fetchall()]
            counts = [connection.sql(f"select count(*) from {relation}").fetchall()[0][0] for relation in relations]
        return pl.DataFrame({"relation": relations, "rows": counts}, schema={"relation": pl.String, "rows": pl.Int64})

    def _show(self, connection: duckdb.DuckDBPyConnection, table: Table, copied: Sequence[Path] | None = None) -> None:
        """Create the relation of a table: a real one of results that have been made, or of given files, else a view."""
        is_result = copied is not None or (table.group in RESULT_GROUPS and self._lake.exists(table.key))
        columns = ", ".join(f'"{name}"' for name in columns_of(table))
        if copied is not None:
            read = f"[{', '.join(quoted(str(path.absolute())) for path in copied)}]"
        else:
            home = quoted(str(self._lake.folder.absolute()))
            place = home if is_result else f"coalesce(getvariable('{HOME_VARIABLE}'), {home})"
            read = f"{place} || {quoted(f'/{self._files(table).relative_to(self._lake.folder)}')}"
        options = "union_by_name = true, hive_partitioning = false, filename = true"
        select = f"select {columns} from read_parquet({read}, {options})"
        conditions = [*([] if is_result else [self._is_at_home()]), *self._is_of_table(table)]
        if conditions:
            select += f" where {' and '.join(conditions)}"
        kind, relation = "table" if is_result else "view", f'{table.group}."{table.name}"'
        connection.execute(f"create schema if not exists {table.group}")
        _create(connection, kind, relation, select, table.meaning, table)

    def _is_of_table(self, table: Table) -> list[str]:
        """The condition that leaves out files beside a table's, and partitions that the profile no longer names."""
        partitions: list[str] | list[None] = [None]
        if table.partitioning:
            if self._settings is None:
                return []
            partitions = partitions_of(table.key, self._settings) or []
        names = [Path(name_of(table.key, partition)).name for partition in partitions]
        return [f"parse_filename(filename) in ({', '.join(map(quoted, names))})" if names else "false"]

    def _is_at_home(self) -> str:
        """True for a connection to this file, or one of this package; an error for a copy or a file that was moved."""
        places = ", ".join(quoted(str(path)) for path in {self.path.absolute(), self.path.resolve()})
        moved = (
            f"this database was published in {self._lake.folder.absolute()} and has been copied or moved: read it with "
            "`cpmi query`, or run `cpmi run` where it lies now"
        )
        return (
            f"case when getvariable('{HOME_VARIABLE}') is not null "
            f"or exists (select 1 from duckdb_databases() where path in ({places})) "
            f"then true else error({quoted(moved)}) end"
        )

    def _files(self, table: Table) -> Path:
        """A pattern that takes in a table's files and the empty one."""
        path = self._lake.root / table.key
        return path / "*.parquet" if table.partitioning else path.with_name(f"{path.name}.*parquet")

    def _empty(self, table: Table) -> Path:
        path = self._lake.root / table.key
        return path / EMPTY if table.partitioning else path.with_name(f"{path.name}.{EMPTY}")

    def _has_empty(self, table: Table) -> bool:
        empty = self._empty(table)
        try:
            is_sealed = bool(checked_seal(empty))
        except (FileNotFoundError, DamagedFile):
            return False
        return is_sealed and dict(pl.read_parquet_schema(empty)) == columns_of(table)


_RELATIONS = """
select schema_name || '."' || name || '"' from (
    select schema_name, table_name as name from duckdb_tables() where not internal
    union all
    select schema_name, view_name as name from duckdb_views() where not internal
) order by all
"""


_ROWS = """
select schema_name || '.' || table_name as relation, estimated_size as rows from duckdb_tables()
where not internal and schema_name <> 'main' and estimated_size > 0 order by all
"""


def is_export(path: Path) -> bool:
    """Whether a file was written by `Database.export`."""
    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            return bool(connection.sql(f"select name from {EXPORT}").fetchall())
    except duckdb.Error:
        return False


def query(
    settings: Settings,
    sql: str,
    most_rows: int | None = None,
    seconds: float = DEFAULT_SECONDS,
    files: Sequence[Path] = (),
) -> Answer:
    """The rows of a read-only query on the published results of a profile.

    Args:
        most_rows: the first so many rows; all by default.
        seconds: until it is stopped.
        files: read too, each as a view with the name of the file: `rows` for `rows.jsonl`.

    Raises:
        CpmiError: nothing has been published yet, DuckDB refuses the query, or it takes too long.
    """
    check_files(files)
    database = Database(Lake(settings.home), settings)
    with database.reader():  # publishes it where it is missing or damaged; the process opens it itself
        return answer_apart(database.path, settings.home, HOME_VARIABLE, sql, most_rows, seconds, files)


def _show_comparison(connection: duckdb.DuckDBPyConnection) -> None:
    reports = [table for table in TABLES.values() if table.group == "reports" and "artifact" in columns_of(table)]
    if not reports:
        return
    union = " union all ".join(f'select * from reports."{table.name}"' for table in reports)
    meaning = "Every figure of every table of the paper next to ours: the union of the report assets"
    _create(connection, "view", COMPARISON, union, meaning, reports[0])


def _create(
    connection: duckdb.DuckDBPyConnection, kind: str, relation: str, select: str, meaning: str, table: Table
) -> None:
    """Create a table or view, with its meaning and those of the table's columns as comments."""
    connection.execute(f"create {kind} {relation} as {select}")
    connection.execute(f"comment on {kind} {relation} is {quoted(meaning)}")
    for column, text in column_meanings(table).items():
        connection.execute(f'comment on column {relation}."{column}" is {quoted(text)}')
