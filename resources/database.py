"""`cpmi.duckdb`: every asset as `schema.table`, with comments, rebuilt next to the old file and renamed over it.

Assets of the groups in `RESULT_GROUPS` are real tables; the others are views over the lake's Parquet files, so they
show a shard the moment it is done. An asset that has not been made yet is an empty relation. A reader keeps the file it
has opened; the next connection reads the new one.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import duckdb
import polars as pl
from filelock import FileLock

from cpmi_dagster.contracts.tables import EARLIER_NAMES, TABLES, Table, column_meanings, columns_of, provenance_of
from cpmi_dagster.errors import CpmiError, LakeError, first_line
from cpmi_dagster.files.whole_files import whole_file
from cpmi_dagster.profiles.settings import Settings
from resources.lake import Lake

FILE_NAME = "cpmi.duckdb"
RESULT_GROUPS = ("reports",)
READING = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
COMPARISON = "reports.paper_comparison"


class Database:
    """Publishes the lake as a DuckDB file, and opens it for reading."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self.path = lake.home / FILE_NAME

    def publish(self) -> None:
        """Write a new file that shows the lake as it is now, and put it in place of the old one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path.with_suffix(".lock")):
            try:
                with whole_file(self.path) as unfinished, duckdb.connect(str(unfinished)) as connection:
                    connection.begin()
                    for table in TABLES.values():
                        self._show(connection, table)
                    _show_comparison(connection)
                    connection.commit()
            except duckdb.Error as error:
                raise LakeError(f"{self.path} cannot be published: {first_line(error)}") from error

    @contextmanager
    def reader(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A read-only connection.

        Raises:
            LakeError: nothing has been published yet.
        """
        if not self.path.is_file():
            raise LakeError(f"there is no database at {self.path}; run `cpmi run` first")
        with duckdb.connect(str(self.path), read_only=True) as connection:
            yield connection

    def row_counts(self) -> pl.DataFrame:
        """Rows of every relation, with columns relation and rows."""
        with self.reader() as connection:
            relations = [row[0] for row in connection.sql(_RELATIONS).fetchall()]
            counts = [connection.sql(f"select count(*) from {relation}").fetchall()[0][0] for relation in relations]
        return pl.DataFrame({"relation": relations, "rows": counts}, schema={"relation": pl.String, "rows": pl.Int64})

    def _show(self, connection: duckdb.DuckDBPyConnection, table: Table) -> None:
        kind = "table" if table.group in RESULT_GROUPS else "view"
        connection.execute(f"create schema if not exists {table.group}")
        _create(connection, kind, f'{table.group}."{table.name}"', self._select(table), table.meaning, table)

    def _select(self, table: Table) -> str:
        provenance = provenance_of(table)
        columns = ", ".join(_provenance(name) if name in provenance else f'"{name}"' for name in columns_of(table))
        if table.partitioning is None:
            path = self._lake.path(table.key)
        else:
            path = self._lake.root / table.key / f"{table.partitioning}=*.parquet"
        if self._lake.exists(table.key):
            rows = f"read_parquet({_quoted(str(path))}, union_by_name = true, hive_partitioning = false)"
            return f"select {columns} from {rows}"
        return _empty_select(table)


_RELATIONS = """
select schema_name || '."' || name || '"' from (
    select schema_name, table_name as name from duckdb_tables() where not internal
    union all
    select schema_name, view_name as name from duckdb_views() where not internal
) order by all
"""


def query(settings: Settings, sql: str) -> pl.DataFrame:
    """The rows of a read-only query on the published results of a profile.

    Raises:
        CpmiError: nothing has been published yet, or DuckDB refuses the query.
    """
    with Database(Lake(settings.home)).reader() as connection:
        return ask(connection, sql)


def ask(connection: duckdb.DuckDBPyConnection, sql: str, params: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """The rows of a query.

    Raises:
        CpmiError: it is not one statement that only reads; DuckDB refuses it, with DuckDB's first line; or a column's
            type has no counterpart here.
    """
    try:
        statements = duckdb.extract_statements(sql)
        if len(statements) != 1 or statements[0].type not in READING:
            raise CpmiError("a query is one statement that only reads, such as `select …` or `describe …`")
        relation = connection.sql(sql, params=dict(params or {}) or None)
        return relation.pl() if relation is not None else pl.DataFrame()
    except duckdb.Error as error:
        raise CpmiError(f"the query failed: {first_line(error)}") from error
    except pl.exceptions.PolarsError as error:
        raise CpmiError(f"a column has a type that cannot be shown; cast it, as in `x::varchar` ({error})") from error


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
    connection.execute(f"comment on {kind} {relation} is {_quoted(meaning)}")
    for column, text in column_meanings(table).items():
        connection.execute(f'comment on column {relation}."{column}" is {_quoted(text)}')


def _provenance(name: str) -> str:
    """A provenance column, also of files that an earlier version wrote under another name."""
    if name not in EARLIER_NAMES:
        return f'"{name}"'
    return f"coalesce(*columns(lambda c: c in ('{name}', '{EARLIER_NAMES[name]}'))) as \"{name}\""


def _empty_select(table: Table) -> str:
    nulls = ", ".join(f'cast(null as {_sql_type(dtype)}) as "{name}"' for name, dtype in columns_of(table).items())
    return f"select {nulls} where false"


def _sql_type(dtype: pl.DataType) -> str:
    if isinstance(dtype, pl.List):
        return f"{_sql_type(dtype.inner)}[]"  # pyright: ignore[reportArgumentType]
    if isinstance(dtype, pl.Struct):
        fields = ", ".join(f'"{field.name}" {_sql_type(field.dtype)}' for field in dtype.fields)  # pyright: ignore[reportArgumentType]
        return f"struct({fields})"
    return {"Int64": "bigint", "Float64": "double", "Boolean": "boolean"}.get(str(dtype), "varchar")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
