"""`cpmi.duckdb`: every table as `schema.table`, with comments, rebuilt next to the old file and renamed over it.

Results (`RESULT_GROUPS`) are real tables once they are made. All else is a view over the files that the profile reads;
the database is written again whenever these change, so that an open connection stops nobody.

    lake/labels/hard_negatives/000/5f0c….parquet        read_parquet(['…/5f0c….parquet', …]) where the part is read
    lake/labels/hard_negatives/000/copy of 5f0c….parquet    left out: a view names the files it shows

A view stores the path of its home. Readers of this package override it with where the database lies now (`cpmi_home`);
for any other connection a view of a database that was copied or moved is an error, and never the rows of the home it
came from.

All that the file holds is in the lake. One that is damaged, that another program holds open for writing, or that has
another's write-ahead log beside it is published again.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile

import duckdb
import polars as pl

from cpmi_dagster.contracts.tables import TABLES, Table, column_meanings, columns_of
from cpmi_dagster.errors import LakeError, StorageError, first_line
from cpmi_dagster.files.locks import locked
from cpmi_dagster.files.whole_files import remove_unfinished, whole_file
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.current_files import Entry
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.parts import PART, is_in_parts, partitions_of
from cpmi_dagster.resources.lake.queries import DEFAULT_SECONDS, Answer, check_files, locked_connection, quoted
from cpmi_dagster.resources.lake.query_process import answer_apart
from cpmi_dagster.resources.lake.read_only_lake import HOME
from cpmi_dagster.resources.lake.records import hash_of
from cpmi_dagster.resources.lake.table_files import place_of

LOG = logging.getLogger(__name__)
FILE_NAME = "cpmi.duckdb"
SOON_SECONDS = 5.0
RESULT_GROUPS = ("reports",)
COMPARISON = "reports.paper_comparison"
# a format that old DuckDB opens; views with `columns` in `coalesce` are read from 1.3 on
STORAGE_VERSION = "v1.2.0"
HOME_VARIABLE = "cpmi_home"
CONFIG: dict[str, str | bool | int | float | list[str]] = {"storage_compatibility_version": STORAGE_VERSION}
SHOWN = "cpmi_shown"
"""A macro of the database: the hash of what it shows."""
CHECKPOINT = "checkpoint"
"""Moves all that was written from the log into the file; closing would do so too, and say nothing of a full disk."""
MAGIC = b"DUCK"  # after a checksum of eight bytes


class Database:
    """Publishes the lake as a DuckDB file, and opens it for reading.

    Args:
        settings: the profile whose recipes and benchmarks are shown; without one, all that are on disk.
        is_of_run: `cpmi run` has it, which publishes at its end.
    """

    def __init__(self, lake: Lake, settings: Settings | None = None, is_of_run: bool = False) -> None:
        self._lake = lake
        self._settings = settings
        self._is_of_run = is_of_run
        self._published = -SOON_SECONDS
        self.path = lake.home / FILE_NAME

    def publish(self) -> None:
        """Write a new file that shows the lake as it is now, and put it in place of the old one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.path.with_suffix(".lock")):
            remove_unfinished(self.path)
            try:
                with whole_file(self.path) as unfinished:
                    with duckdb.connect(str(unfinished), config=CONFIG) as connection:
                        connection.begin()
                        connection.execute(f"create macro {SHOWN}() as {quoted(self._shown())}")
                        for table in TABLES.values():
                            self._show(connection, table)
                        _show_comparison(connection)
                        connection.commit()
                        connection.execute(CHECKPOINT)
                    # a log that another program left would be taken for this file's
                    self.path.with_name(f"{FILE_NAME}.wal").unlink(missing_ok=True)
            except duckdb.Error as error:
                raise LakeError(f"{self.path} cannot be published: {first_line(error)}") from error

    def publish_soon(self) -> None:
        """`publish_changes`, unless that was a moment ago: labels show while a run makes more."""
        if time.monotonic() - self._published > SOON_SECONDS:
            self.publish_changes()
            self._published = time.monotonic()

    def publish_after_step(self) -> None:
        """`publish_changes`, if this step is not one of many of a run that publishes at its end."""
        if not self._is_of_run:
            self.publish_changes()

    def publish_changes(self) -> None:
        """`publish`, unless the file shows what the profile reads."""
        try:
            with duckdb.connect(str(self.path), read_only=True) as connection:
                is_shown = self._are_shown(connection)
        except duckdb.Error:
            is_shown = False
        if not is_shown:
            self.publish()

    def _are_shown(self, connection: duckdb.DuckDBPyConnection) -> bool:
        try:
            return connection.sql(f"select {SHOWN}()").fetchall() == [(self._shown(),)]
        except duckdb.CatalogException:
            return False

    def _shown(self) -> str:
        """The hash of what the database should show: columns, and the files that the profile reads."""
        return hash_of(
            [
                [table.key, {name: str(kind) for name, kind in columns_of(table).items()}, *map(list, entries.items())]
                for table in TABLES.values()
                for entries in [{str(name): own for (_, name), own in self._entries(table).items()}]
            ]
        )

    def _entries(self, table: Table) -> dict[tuple[str, str | None], Entry]:
        """The files of a table that are shown, by partition; none of partitions of which one is missing or damaged."""
        places = (place for place in self._places(table) if self._lake.intact_record(*place))
        return {place: self._lake.counted[place] for place in places}

    def _places(self, table: Table) -> list[tuple[str, str | None]]:
        """The partitions of a table that have been made, of those that the profile has."""
        named = None if self._settings is None else partitions_of(table.key, self._settings) or [None]
        counted = (place for place in self._lake.counted if place[0] == table.key)
        return sorted((place for place in counted if named is None or place[1] in named), key=str)

    def _is_database(self) -> bool:
        with self.path.open("rb") as file:
            return file.read(12).endswith(MAGIC)

    @contextmanager
    def reader(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection that only reads, and nothing but the database and the lake; see `queries`.

        Raises:
            LakeError: nothing has been published yet, or the file cannot be opened nor published again.
        """
        if not self.path.is_file():
            raise LakeError(
                f"there is no database at {self.path}; run `cpmi run` first, or change to the folder where you ran it "
                "(or set CPMI_HOME)"
            )
        if not self._is_database() and not self._lake.has_rows():
            raise LakeError(
                f"{self.path} is damaged, and there are no results to publish it from; run `cpmi run` first"
            )
        connection = self._opened()
        if not self._are_shown(connection):
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
        return locked_connection(self.path, self._lake.home, HOME_VARIABLE)

    def row_counts(self) -> pl.DataFrame:
        """Rows of every relation, with columns relation and rows."""
        with self.reader() as connection:
            relations = [row[0] for row in connection.sql(_RELATIONS).fetchall()]
            counts = [connection.sql(f"select count(*) from {relation}").fetchall()[0][0] for relation in relations]
        return pl.DataFrame({"relation": relations, "rows": counts}, schema={"relation": pl.String, "rows": pl.Int64})

    def _show(self, connection: duckdb.DuckDBPyConnection, table: Table) -> None:
        """Create the relation of a table: a real one of results that have been made, else a view."""
        entries = self._entries(table)
        for key, partition in self._places(table):
            if (key, partition) not in entries and self._lake.has(key, partition):
                LOG.warning("%s %s is damaged and not shown until `cpmi run` has made it again", key, partition or "")
        is_result = table.group in RESULT_GROUPS and bool(entries)
        select = self._select(table, entries, is_result)
        kind, relation = "table" if is_result else "view", f'{table.group}."{table.name}"'
        connection.execute(f"create schema if not exists {table.group}")
        _create(connection, kind, relation, select, table.meaning, table)

    def view_of(self, key: str) -> str:
        """The query behind the view of a table, as the lake is now."""
        return self._select(TABLES[key], self._entries(TABLES[key]), is_result=False)

    def _select(self, table: Table, entries: Mapping[tuple[str, str | None], Entry], is_result: bool) -> str:
        columns = ", ".join(f'"{name}"' for name in columns_of(table))
        if is_result:
            names, home = [str(path.absolute()) for place in entries for path in self._lake.paths(*place)], "''"
        else:
            names = [f"/{place_of(*place, file)}" for place, entry in entries.items() for file in entry]
            home = f"coalesce(getvariable('{HOME_VARIABLE}'), {quoted(str(self._lake.home.absolute()))})"
        if not names:
            typed = ", ".join(f'null::{kind} as "{name}"' for name, kind in _types(table.key))
            return f"select {typed} where false"
        read = f"[{', '.join(f'{home} || {quoted(name)}' for name in names)}]"
        options = "union_by_name = true, hive_partitioning = false, filename = true"
        conditions = [*([] if is_result else [self._is_at_home()]), *self._are_read(table, entries)]
        where = f" where {' and '.join(conditions)}" if conditions else ""
        return f"select {columns} from read_parquet({read}, {options}){where}"

    def _are_read(self, table: Table, entries: Mapping[tuple[str, str | None], Entry]) -> Iterator[str]:
        """The conditions that leave out the parts of files that the profile does not ask for."""
        for (key, name), entry in entries.items() if is_in_parts(table.key) else ():
            for file, parts in entry.items():
                if set(parts) < set(self._lake.tables.record(key, name, file).parts):
                    is_part = f"{PART} is null or {PART} in ({', '.join(map(quoted, parts))})"
                    yield f"(parse_filename(filename) <> {quoted(file)} or {is_part})"

    def _is_at_home(self) -> str:
        """True for a connection to this file, or one of this package; an error for a copy or a file that was moved."""
        places = ", ".join(quoted(str(path)) for path in {self.path.absolute(), self.path.resolve()})
        moved = (
            f"this database was published in {self._lake.home.absolute()} and has been copied or moved: read it with "
            "`cpmi query`, or run `cpmi run` where it lies now"
        )
        return (
            f"case when getvariable('{HOME_VARIABLE}') is not null "
            f"or exists (select 1 from duckdb_databases() where path in ({places})) "
            f"then true else error({quoted(moved)}) end"
        )


@cache
def _types(key: str) -> list[tuple[str, str]]:
    """The columns of a table with their types, as DuckDB reads them from its files."""
    buffer = BytesIO()
    pl.DataFrame(schema=columns_of(TABLES[key])).write_parquet(buffer)
    with duckdb.connect() as connection, NamedTemporaryFile(suffix=".parquet") as file:
        file.write(buffer.getvalue())
        file.flush()
        found = connection.sql(f"describe select * from read_parquet({quoted(file.name)})").fetchall()
    return [(name, kind) for name, kind, *_ in found]


_RELATIONS = """
select schema_name || '."' || name || '"' from (
    select schema_name, table_name as name from duckdb_tables() where not internal
    union all
    select schema_name, view_name as name from duckdb_views() where not internal
) order by all
"""


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
    database = Database(Lake.of(settings), settings)
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
