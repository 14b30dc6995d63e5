"""The results that pages read: the connection of `cpmi query`, with the selected trajectories cached in memory.

    from labels.step_rewards where trajectory_id = …    Parquet files of the lake: labels of a new shard show at once
    from memory.main.selected                           the trajectories when the results were opened
    view.kept_rows(QUEUE, …)                            cached rows of a query over all labels

Results are opened anew if the reader asks, a table has its first rows, or `cpmi.duckdb` was written again.
"""

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from textwrap import dedent
from typing import Any

import duckdb
import polars as pl

from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import CpmiError, first_line
from cpmi_dagster.files.file_states import file_state
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.explorer.queries import REWARD_TYPES, SELECTED, TASKS
from cpmi_dagster.resources.lake.database import FILE_NAME, open_second_connection, quoted, reader
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.query import ask

MOST_SECONDS = 60.0
IN_MEMORY = "memory.main.selected"
ROWS_IN_MEMORY = f"as select t.*, s.shard from {SELECTED} order by trajectory_id"
TABLE = re.compile(r"\blabels\.[a-z_]+")
PARAMETER = re.compile(r"\$([a-z_]+)")

Row = dict[str, Any]


@dataclass
class View:
    """The queries of one page, on a connection of its own.

    Attributes:
        statements: their SQL, as `cpmi query` runs it.
    """

    results: "Results"
    connection: duckdb.DuckDBPyConnection
    statements: list[str] = field(default_factory=list)

    def frame(self, sql: str, shard: str = "", **params: Any) -> pl.DataFrame:
        """The rows of a query with parameters `$name`, over the labels of a shard or all; CpmiError as `query.ask`."""
        used = {name: params[name] for name in PARAMETER.findall(sql)}
        self.statements.append(write_out(sql, used))
        sql = TABLE.sub(lambda table: self.results.relation(table[0], shard), sql) if shard else sql
        return ask(self.connection, sql.replace(SELECTED, f"{IN_MEMORY} t"), used, MOST_SECONDS)

    def rows(self, sql: str, shard: str = "", **params: Any) -> list[Row]:
        """The rows of `frame` as dictionaries."""
        return self.frame(sql, shard, **params).to_dicts()

    def kept_rows(self, sql: str, **params: Any) -> list[Row]:
        """The rows of a query over all labels, cached until the results are opened anew."""
        kept, key = self.results.kept, write_out(sql, params)
        if key in kept:
            self.statements.append(key)
        else:
            kept[key] = self.rows(sql, **params)
        return kept[key]


class Results:
    """The results of a home; raises CpmiError if nothing has been made yet, or a file is damaged.

    Attributes:
        opened: time at which trajectories, tasks and reward types were read.
        tasks: of the selected trajectories.
        reward_types: with labels, in the order of the profile; the first one gives the colours.
        kept: cached rows by SQL.
    """

    def __init__(self, settings: Settings) -> None:
        self.opened, self.kept = datetime.now(), dict[str, list[Row]]()
        self._lake, self._open = Lake.of(settings), ExitStack()
        self._connection = self._open.enter_context(reader(self._lake, settings))
        try:
            self._connection.execute(f"create table {IN_MEMORY} {ROWS_IN_MEMORY}")
        except duckdb.OutOfMemoryException:
            # slower, but complete
            self._connection.execute(f"create view {IN_MEMORY} {ROWS_IN_MEMORY}")
        except duckdb.Error as error:
            raise CpmiError(
                f"{first_line(error)}; `cpmi status{settings.profile_option} --verify` names damaged files"
            ) from error
        first = settings.rewards.types
        with self.view() as view:
            self.tasks = [row["task"] for row in view.rows(TASKS)]
            names = [row["reward_type"] for row in view.rows(REWARD_TYPES)]
        self.reward_types = sorted(names, key=lambda name: first.index(name) if name in first else len(first))

    def relation(self, table: str, shard: str) -> str:
        """The file of a table's shard, which is read faster than the table; the table if there is none."""
        path = self._lake.path(table.replace(".", "/"), shard)
        return f"read_parquet({quoted(str(path.absolute()))})" if path.exists() else table

    @contextmanager
    def view(self) -> Iterator[View]:
        """A view for one page."""
        with closing(open_second_connection(self._connection)) as connection:
            yield View(self, connection)


class LatestResults:
    """Caches the results of a home, until a table has its first rows, they are published anew, or the reader asks."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._lake, self._lock = settings, Lake(settings.home, settings), threading.Lock()
        self._results: Results | None = None
        self._opened_at: object = None

    def get(self) -> Results:
        """The results, cached or opened anew."""
        with self._lock:
            path = self._settings.home / FILE_NAME
            made = [key for key in TABLES if self._lake.has_table(key)], file_state(path) if path.exists() else None
            if self._results is None or made != self._opened_at:
                self._results, self._opened_at = Results(self._settings), made
            return self._results

    def refresh(self) -> None:
        """Drop the cached results."""
        with self._lock:
            self._results = None


def write_out(sql: str, params: Mapping[str, Any]) -> str:
    """A query with its parameters in place."""
    return PARAMETER.sub(lambda name: _literal(params[name[1]]), dedent(sql).strip())


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return "null" if value is None else quoted(value) if isinstance(value, str) else str(value)
