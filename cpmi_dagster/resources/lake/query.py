"""Users' queries: one statement that reads the published tables, and nothing else.

    query(settings, "select reward_type, count(*) from labels.step_rewards group by all").rows
    query(settings, "copy labels.step_rewards to 'mine.csv'")    CpmiError: a query is one statement that only reads …

On the connection of `database.reader`, DuckDB alone would let a query write into the lake: it takes a COPY in a common
table expression for a statement that reads. As the argument of DuckDB's function `query`, COPY is refused.
"""

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa

from cpmi_dagster.errors import CpmiError, first_line
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake import database
from cpmi_dagster.resources.lake.database import quoted, reader
from cpmi_dagster.resources.lake.lake import Lake

DEFAULT_SECONDS = 60.0
STOP_AGAIN_SECONDS = 0.1
BATCH_ROWS = 100_000
ONLY_READS = "a query is one statement that only reads, such as `select …` or `describe …`"
TOO_LARGE = "the query exceeds the memory limit; ask for fewer rows or columns"
STOPPED = "the query was stopped after {:g} s; ask for less, or give a longer --timeout"
EXPLAIN = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*explain\b\s*(?:analyze\b|verbose\b|\([^()]*\)|\s)*", re.IGNORECASE | re.DOTALL
)
SHOW_TABLES = re.compile(r"\s*show\s+tables\s*;?\s*", re.IGNORECASE)
TABLES_SHOWN = """
    select schema_name || '.' || view_name as relation, comment as meaning from duckdb_views()
    where not internal order by relation
"""
WRITES = "must be at the top level"
"""DuckDB's words for a COPY, INSERT, UPDATE or DELETE within a query."""
INTERRUPTED = "INTERRUPT Error"
NO_FILES = "file system operations are disabled"
LAKE_FILE = re.compile(r"""['"][^'"]*/lake/([^'"]+)\.parquet['"]""")
SUGGESTION = re.compile(r'^(?:Did you mean|Candidate bindings:) "?(.+?)"?\??$', re.MULTILINE)
INTERNAL = ("pg_", "duckdb_", "sqlite_", "pragma_", "information_schema.")


@dataclass(frozen=True)
class Answer:
    """The rows of a query, and whether there are more."""

    rows: pl.DataFrame
    has_more: bool


def query(settings: Settings, sql: str, most_rows: int | None = None, seconds: float = DEFAULT_SECONDS) -> Answer:
    """The answer to a query on a profile's results.

    Raises:
        CpmiError: nothing has been made yet, or as `answer`.
    """
    with reader(Lake.of(settings), settings) as connection:
        return answer(connection, sql, most_rows, seconds)


def answer(
    connection: duckdb.DuckDBPyConnection, sql: str, most_rows: int | None = None, seconds: float = DEFAULT_SECONDS
) -> Answer:
    """The rows of a query; `show tables` lists the tables of every schema.

    Args:
        most_rows: at most so many rows; all by default.
        seconds: after which it is interrupted; a long call of one function first returns.

    Raises:
        CpmiError: as `ask`; or a column has dates that Python cannot hold.
    """
    text = TABLES_SHOWN if SHOW_TABLES.fullmatch(sql) else sql
    answered = ask(connection, text, None, seconds, None if most_rows is None else most_rows + 1)
    rows = answered if most_rows is None else answered.head(most_rows)
    _check_dates(rows)
    return Answer(rows, has_more=rows.height < answered.height)


def ask(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    params: Mapping[str, Any] | None = None,
    seconds: float = DEFAULT_SECONDS,
    most_rows: int | None = None,
) -> pl.DataFrame:
    """The rows of a query.

    Args:
        params: values of `$name` in a query of this package; users' queries have none.

    Raises:
        CpmiError: the query is not one statement that only reads, DuckDB refuses it, a file of the lake is damaged, it
            took too long or too much memory, or polars lacks the type of a column.
    """
    try:
        text = sql if params else _within_query(sql)
        with _stop_after(connection, seconds):
            relation = connection.sql(text, params=dict(params or {}) or None)
            return _rows(relation if most_rows is None else relation.limit(most_rows))
    except (duckdb.OutOfMemoryException, MemoryError) as error:
        raise CpmiError(TOO_LARGE) from error
    except (duckdb.Error, UnicodeError, OSError) as error:  # DuckDB's errors while batches are read are OSErrors
        if str(error).startswith(INTERRUPTED):
            raise CpmiError(STOPPED.format(seconds)) from error
        raise CpmiError(ONLY_READS if WRITES in str(error) else f"the query failed: {_reason(error)}") from error
    except (pl.exceptions.PolarsError, ValueError) as error:  # pyarrow's errors are ValueErrors
        raise CpmiError(f"a column has a type that cannot be shown; cast it, as in `x::varchar` ({error})") from error


def _within_query(sql: str) -> str:
    """A user's SELECT, or EXPLAIN of one, as an argument of DuckDB's `query`.

    Raises:
        CpmiError: it is another statement, or several.
    """
    explain, types = "", _types(sql)
    if types == [duckdb.StatementType.EXPLAIN] and (match := EXPLAIN.match(sql)):
        explain, sql = match[0], sql[match.end() :]
        types = _types(sql)
    if types != [duckdb.StatementType.SELECT]:
        raise CpmiError(ONLY_READS)
    return f"{explain} from query({quoted(sql)})"


def _types(sql: str) -> list[duckdb.StatementType]:
    # encoding refuses a lone surrogate with a UnicodeError; DuckDB would raise a TypeError
    return [statement.type for statement in duckdb.extract_statements(sql.encode().decode())]


def _rows(relation: duckdb.DuckDBPyRelation) -> pl.DataFrame:
    """The rows of a relation, read in batches up to `MOST_MEMORY` bytes."""
    reader, batches, size = relation.to_arrow_reader(BATCH_ROWS), [], 0
    for batch in reader:
        batches.append(batch)
        size += batch.nbytes
        if size > database.MOST_MEMORY:
            raise MemoryError
    rows = pl.from_arrow(pa.Table.from_batches(batches, reader.schema))
    assert isinstance(rows, pl.DataFrame)
    return rows


@contextmanager
def _stop_after(connection: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupt the connection's query after some seconds, and again until it stops."""
    done = threading.Event()

    def stop() -> None:
        wait = seconds
        while not done.wait(wait):
            connection.interrupt()
            wait = STOP_AGAIN_SECONDS

    watch = threading.Thread(target=stop, daemon=True)
    watch.start()
    try:
        yield
    finally:
        done.set()
        watch.join()


def _check_dates(rows: pl.DataFrame) -> None:
    """Refuse dates outside of the years 1 to 9999, which DuckDB holds and Python does not."""
    for column in rows:
        if "Date" in str(column.dtype):  # also within lists and structs
            try:
                column.to_list()
            except (ValueError, OverflowError, pl.exceptions.PanicException) as error:
                raise CpmiError(
                    f"the column `{column.name}` has dates outside of the years 1 to 9999; cast it, as in "
                    f'`"{column.name}"::varchar`'
                ) from error


def _reason(error: Exception) -> str:
    """DuckDB's first line with the table it suggests; our own sentence for a refused, missing or damaged file."""
    if NO_FILES in str(error):
        return "it reads the tables of this home, and no other file or address"
    if match := LAKE_FILE.search(first_line(error)):
        reason = f"{match[1]} is missing or damaged; run `cpmi run`, which makes it again"
        return f"{reason}, or remove it if the profile has no such partition ({first_line(error)})"
    suggestion = SUGGESTION.search(str(error))
    if suggestion and suggestion[1].startswith(INTERNAL):
        return f"{first_line(error)} `show tables` lists the tables."
    names = suggestion and suggestion[1].replace('"', "")
    return f"{first_line(error)} Did you mean {names}?" if names else first_line(error)
