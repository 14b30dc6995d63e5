"""Queries of users: one statement that reads, on a connection that reaches `cpmi.duckdb` and the lake and nothing else.

Whatever the SQL says, such a connection opens no other file or address, writes none, loads no extension, and cannot
change its settings: DuckDB's own file system is switched off, the database is attached read-only, and the lake is a
`ReadOnlyLake`. COPY in a common table expression, which DuckDB takes for a statement that reads, fails at the file.
A slow query is interrupted where DuckDB checks for that; queries of users run in `query_process`, which can be killed.
"""

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import psutil

from cpmi_dagster.errors import CpmiError, SourceError, first_line
from cpmi_dagster.resources.lake.read_only_lake import GIVEN, HOME, ReadOnlyLake

GIB = 2**30
# for DuckDB's tables in memory; texts and results come on top
MOST_MEMORY = 4 * GIB
MOST_OF_PROCESS = 2 * MOST_MEMORY
DEFAULT_SECONDS = 60.0
STOP_AGAIN_SECONDS = 0.1
TOO_LARGE = "the query exceeds the memory limit; ask for fewer rows or columns"
STOPPED = "the query was stopped after {:g} s; ask for less, or give a longer --timeout"
EXPLAIN = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*explain\b\s*(?:analyze\b|verbose\b|\([^()]*\)|\s)*", re.IGNORECASE | re.DOTALL
)
# in the name of a file
MEANS_MORE = set('"*?[]\\')
SHOW_TABLES = re.compile(r"\s*show\s+tables\s*;?\s*", re.IGNORECASE)
TABLES_SHOWN = """
    select schema_name || '.' || view_name as relation, comment as meaning from duckdb_views() where not internal
    union all
    select schema_name || '.' || table_name, comment from duckdb_tables() where not internal
    order by relation
"""
FORMATS = (".jsonl", ".ndjson", ".json", ".parquet", ".csv")
NO_FILES = "LocalFileSystem has been disabled"
SUGGESTION = re.compile(r'^Did you mean "?(.+?)"?\??$', re.MULTILINE)
INTERNAL = ("pg_", "duckdb_", "sqlite_", "pragma_", "information_schema.")
# in this order: settings of files are refused once files are, and everything once the last is set
LOCKS = {
    "enable_progress_bar": "false",
    "temp_directory": "''",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
    "allowed_directories": f"['{HOME}']",
    "enable_external_access": "false",
    "disabled_filesystems": "'LocalFileSystem'",
    "lock_configuration": "true",
}


@dataclass(frozen=True)
class Answer:
    """The rows of a query, and whether it has more than were asked for."""

    rows: pl.DataFrame
    has_more: bool


def locked_connection(
    database: Path, home: Path, home_variable: str, files: Sequence[Path] = (), memory: int = MOST_MEMORY
) -> duckdb.DuckDBPyConnection:
    """A connection that reads a database, the lake of a home and files that are named here, and reaches nothing else.

    Args:
        database: the file; it is attached under its own name.
        home: the folder that holds the lake.
        home_variable: the variable in which the database's views find the home.
        files: each is a view with the name of the file: `rows` for `rows.jsonl`.
        memory: bytes for DuckDB's tables, at most half of the machine's.

    Raises:
        duckdb.Error: the file is damaged, or another program has it open for writing.
    """
    connection = duckdb.connect()
    try:
        most = min(memory, psutil.virtual_memory().total // 2)
        connection.execute(f"set memory_limit = '{most // 2**20} MiB'")
        connection.register_filesystem(ReadOnlyLake(home, {file.name: file.absolute() for file in files}))
        connection.execute(f"attach {quoted(str(database))} as {database.stem} (read_only)")
        connection.execute(f"use {database.stem}")
        connection.execute(f"set variable {home_variable} = '{HOME}'")
        for setting, value in LOCKS.items():
            connection.execute(f"set {setting} = {value}")
        for file in files:
            _show_file(connection, file)
    except BaseException:
        connection.close()
        raise
    return connection


def check_files(files: Sequence[Path]) -> None:
    """Refuse files that cannot be views of a query.

    Raises:
        SourceError: a file is not there, its format is not known, or two have one name.
    """
    names = [_view_name(file) for file in files]
    for file, name in zip(files, names, strict=True):
        if not file.is_file():
            found = f"{file} is a folder" if file.is_dir() else f"there is no file {file}"
            raise SourceError(f"{found}; --file accepts {', '.join(FORMATS)}")
        if not file.name.lower().removesuffix(".gz").endswith(FORMATS):
            raise SourceError(f"the format of {file} is not known; --file accepts {', '.join(FORMATS)}")
        if not name or not file.name.isprintable() or set(file.name) & MEANS_MORE:
            raise SourceError(f"the file {file} has a name that a query cannot use; rename it")
        if names.count(name) > 1:
            raise SourceError(f"two files given with --file are both `{name}` in the query; rename one")


def answer(
    connection: duckdb.DuckDBPyConnection, sql: str, most_rows: int | None = None, seconds: float = DEFAULT_SECONDS
) -> Answer:
    """What a user's query gives; `show tables` lists the tables of every schema.

    Args:
        most_rows: how many rows at most; all by default.
        seconds: until it is stopped.

    Raises:
        CpmiError: see `ask`; or a column has dates that Python does not know.
    """
    text = TABLES_SHOWN if SHOW_TABLES.fullmatch(sql) else sql
    found = ask(connection, text, seconds=seconds, most_rows=None if most_rows is None else most_rows + 1)
    rows = found if most_rows is None else found.head(most_rows)
    _check_dates(rows)
    return Answer(rows, has_more=rows.height < found.height)


def ask(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    params: Mapping[str, Any] | None = None,
    seconds: float = DEFAULT_SECONDS,
    most_rows: int | None = None,
) -> pl.DataFrame:
    """The rows of a query.

    Raises:
        CpmiError: it is not one statement that only reads; DuckDB refuses it, with DuckDB's first line; it took too
            long or too much memory; or a column's type has no counterpart here.
    """
    try:
        _check_reads(sql)
        with _stopped_after(connection, seconds):
            relation = connection.sql(sql, params=dict(params or {}) or None)
            if relation is None:
                return pl.DataFrame()
            return (relation if most_rows is None else relation.limit(most_rows)).pl()
    except duckdb.InterruptException as error:
        raise CpmiError(STOPPED.format(seconds)) from error
    except (duckdb.OutOfMemoryException, MemoryError) as error:
        raise CpmiError(TOO_LARGE) from error
    except (duckdb.Error, UnicodeError) as error:
        raise CpmiError(f"the query failed: {_reason(error)}") from error
    except (pl.exceptions.PolarsError, ValueError) as error:  # pyarrow's errors are of the second kind
        raise CpmiError(f"a column has a type that cannot be shown; cast it, as in `x::varchar` ({error})") from error


def quoted(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def _show_file(connection: duckdb.DuckDBPyConnection, file: Path) -> None:
    """Create the view of a file that the user gave."""
    inside = f"{HOME}/{GIVEN}/{file.name}"
    place = quoted(inside)
    try:
        connection.execute(f'create temp view "{_view_name(file)}" as select * from {place}')
    except duckdb.Error as error:
        raise SourceError(f"{file} cannot be read: {_reason(error).replace(inside, file.name)}") from error


def _check_dates(rows: pl.DataFrame) -> None:
    """Refuse dates outside of the years 1 to 9999, which DuckDB has and no reader of the answer can be given."""
    for column in rows:
        if "Date" in str(column.dtype):  # also within lists and structs
            try:
                column.to_list()
            except (ValueError, OverflowError, pl.exceptions.PanicException) as error:
                raise CpmiError(
                    f"the column `{column.name}` has dates outside of the years 1 to 9999; cast it, as in "
                    f'`"{column.name}"::varchar`'
                ) from error


def _view_name(file: Path) -> str:
    return file.name.partition(".")[0]


def _check_reads(sql: str) -> None:
    if _types(sql) == [duckdb.StatementType.EXPLAIN]:
        explained = EXPLAIN.match(sql)
        sql = sql[explained.end() :] if explained else ""
    if _types(sql) != [duckdb.StatementType.SELECT]:
        raise CpmiError("a query is one statement that only reads, such as `select …` or `describe …`")


def _types(sql: str) -> list[duckdb.StatementType]:
    # half of a character is refused here as text, and by DuckDB as an argument of a wrong type
    return [statement.type for statement in duckdb.extract_statements(sql.encode().decode())]


@contextmanager
def _stopped_after(connection: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupt what the connection does when the time is over, again until it has stopped."""
    done = threading.Event()

    def stop() -> None:
        if not done.wait(seconds):
            connection.interrupt()
            while not done.wait(STOP_AGAIN_SECONDS):
                connection.interrupt()

    watch = threading.Thread(target=stop, daemon=True)
    watch.start()
    try:
        yield
    finally:
        done.set()
        watch.join()


def _reason(error: Exception) -> str:
    """DuckDB's first line and a table it suggests; the last line where it passes on an error of the lake's files."""
    lines = str(error).strip().splitlines()
    if NO_FILES in str(error):
        return "it reads the tables of this home and what is given with --file, and no other file or address"
    if lines and lines[0].startswith("Traceback"):
        return lines[-1].partition(": ")[2] or lines[-1]
    suggestion = SUGGESTION.search(str(error))
    if suggestion and suggestion[1].startswith(INTERNAL):
        return f"{first_line(error)} `show tables` lists the tables."
    return f"{first_line(error)} Did you mean {suggestion[1]}?" if suggestion else first_line(error)
