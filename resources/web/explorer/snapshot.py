"""What the explorer reads: the locked connection of `cpmi query`, with what every page needs held in memory.

A page's SQL names tables as users do, and is shown as it is. Where that is faster, another relation with the same rows
stands in for a table:

    dataset.soft_labels      memory.main.soft_labels                                      sorted by trajectory
    labels.step_rewards      read_parquet('<home>/lake/labels/step_rewards/017.parquet')      one shard alone

A run makes labels while the explorer is open: they show at once, and answers over all of them are kept until their
files change. When another table was made again, or labels for the first time, all is opened anew.
"""

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import CpmiError, first_line
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.database import another, quoted, reader
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.query import ask
from cpmi_dagster.resources.web.explorer.queries import REWARD_TYPES, SELECTED, TASKS

MOST_SECONDS = 60.0
MOST_KEPT = 200
# of the lake's files, of which the copies in memory take up to five times as much
MOST_IN_MEMORY = 2**29
LABELS = "labels"
TABLE = re.compile(r"\b(?:sources|alignment|selection|labels|dataset)\.[a-z_0-9]+\b")
PARAMETER = re.compile(r"\$([a-z_]+)")
TRAJECTORIES = "alignment.trajectories"
IN_MEMORY = {
    "sources.step_truth": "select row_number, correct, kind from {table} order by row_number",
    "selection.selected_trajectories": "select trajectory_id, shard, task, composition from {table}",
    TRAJECTORIES: "select * exclude (run_id, model, code_version) from {table} "
    "semi join selection.selected_trajectories using (trajectory_id) order by trajectory_id",
    "dataset.soft_labels": "select trajectory_id, step_index, reward_type, soft_label from {table} "
    "order by trajectory_id, step_index, reward_type",
}
"""Tables that are held in memory; of trajectories those that are selected, which are all that the pages ask for."""
GROUPS = ("sources", "alignment", "selection", "dataset")
"""Of the tables that pages read beside labels."""

Row = dict[str, Any]
Files = dict[Path, tuple[int, int, int]]
"""Inode, size and time of change of files."""


@dataclass
class View:
    """The queries behind one page, each answered on a connection of the page's own.

    Attributes:
        shown: their SQL as the reader sees it, to be run with `cpmi query`.
    """

    snapshot: "Snapshot"
    connection: duckdb.DuckDBPyConnection
    shown: list[str] = field(default_factory=list)

    def rows(self, sql: str, shard: str | None = None, **params: Any) -> list[Row]:
        """The rows of a query, as `frame` has them."""
        return self.frame(sql, shard, **params).to_dicts()

    def frame(self, sql: str, shard: str | None = None, **params: Any) -> pl.DataFrame:
        """The rows of a query.

        Args:
            sql: names its parameters `$name`.
            shard: that holds all rows which the query asks for.

        Raises:
            CpmiError: see `query.ask`.
        """
        used = {name: params[name] for name in PARAMETER.findall(sql)}
        self.shown.append(written_out(sql, used))
        return ask(self.connection, self.snapshot.faster(sql, shard), used, MOST_SECONDS)

    def kept_rows(self, sql: str, **params: Any) -> list[Row]:
        """The rows of a query over the whole set, which is answered once, until labels change."""
        used = {name: params[name] for name in PARAMETER.findall(sql)}
        text = written_out(sql, used)
        self.shown.append(text)
        kept = self.snapshot.kept
        rows = kept.get(text)
        if rows is None:
            if len(kept) >= MOST_KEPT:
                kept.clear()
            rows = kept[text] = ask(self.connection, self.snapshot.faster(sql, None), used, MOST_SECONDS).to_dicts()
        return rows


class Snapshot:
    """The results of a home: tables in memory as they were when it was opened, all else as it is now.

    Attributes:
        tasks: of the selected trajectories.
        reward_types: those with labels; first those that reward models learn from, then the profile's others.
        state: see `state_of`, when it was opened.
        kept: answers of queries over the whole set, by their SQL; another one when labels have changed.

    Raises:
        LakeError: nothing has been published yet.
    """

    def __init__(self, settings: Settings) -> None:
        self._lake = Lake.of(settings)
        self._open = ExitStack()
        self.state = state_of(self._lake)  # what is made meanwhile opens it anew
        self._connection = self._open.enter_context(reader(self._lake, settings))
        self._labels: Files | None = None
        self._held: dict[str, str] = {}
        for table in IN_MEMORY:
            self._hold(table)
        with self.view() as view:
            self.tasks = [row["task"] for row in view.rows(TASKS)]
        self._first_types = [*(recipe.reward_type for recipe in settings.recipes), *settings.rewards.types]
        self.look()

    def look(self) -> None:
        """Drop cached answers over the whole set if labels have changed; called for every page."""
        labels = files_of(self._lake, LABELS)
        if labels == self._labels:
            return
        self._labels, self.kept = labels, dict[str, list[Row]]()
        first = self._first_types
        with self.view() as view:
            found = [row["reward_type"] for row in view.rows(REWARD_TYPES)]
        self.reward_types = sorted(found, key=lambda name: first.index(name) if name in first else len(first))

    @contextmanager
    def view(self) -> Iterator[View]:
        """The queries of one page, on a connection of their own."""
        with closing(another(self._connection)) as connection:
            yield View(self, connection)

    def faster(self, sql: str, shard: str | None) -> str:
        """The query with the relations in it that are read fastest."""
        if TRAJECTORIES in self._held:
            sql = sql.replace(SELECTED, f"{TRAJECTORIES} t")
        return TABLE.sub(lambda found: self._relation(found[0], shard), sql)

    def _relation(self, table: str, shard: str | None) -> str:
        key = table.replace(".", "/")
        if table in self._held:
            return self._held[table]
        if shard and TABLES[key].partitioning == "shard" and self._lake.has(key, shard):
            return f"read_parquet({quoted(str(self._lake.path(key, shard).absolute()))})"
        return table

    def _hold(self, table: str) -> None:
        """Copy a table into memory, unless it is too large for that."""
        if sum(size for _, size, _ in files_of(self._lake, table.replace(".", "/")).values()) > MOST_IN_MEMORY:
            return
        name = f"memory.main.{table.partition('.')[2]}"
        try:
            self._connection.execute(f"create table {name} as {IN_MEMORY[table].format(table=table)}")
        except duckdb.OutOfMemoryException:
            return
        except duckdb.Error as error:
            raise CpmiError(
                f"{table} cannot be read ({first_line(error)}); `cpmi status --verify` names damaged files"
            ) from error
        self._held[table] = name


class Snapshots:
    """The current snapshot of a home; a new one is opened when a table other than labels was made again."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lake = Lake.of(settings)
        self._lock = threading.Lock()
        self._current: Snapshot | None = None

    def current(self) -> Snapshot:
        """The snapshot of what is published now.

        Raises:
            LakeError: nothing has been published yet.
        """
        with self._lock:
            if self._current is None or self._current.state != state_of(self._lake):
                self._current = Snapshot(self._settings)
            else:
                self._current.look()
            return self._current


def state_of(lake: Lake) -> tuple[Files, list[str]]:
    """The files of the tables beside labels, and which tables of labels there are."""
    return files_of(lake, *GROUPS), [key for key in TABLES if key.startswith(LABELS) and lake.exists(key)]


def files_of(lake: Lake, *keys: str) -> Files:
    """The files of some tables, or of all tables of some groups."""
    found: Files = {}
    for key, table in TABLES.items():
        if key in keys or table.group in keys:
            for path in (lake.path(key, name) for name in (lake.partitions(key) if table.partitioning else [None])):
                with suppress(FileNotFoundError):
                    state = path.stat()
                    found[path] = state.st_ino, state.st_size, state.st_mtime_ns
    return found


def written_out(sql: str, params: Mapping[str, Any]) -> str:
    """The query with its parameters in place, as a reader can run it."""
    lines = [line for line in sql.strip("\n").splitlines() if line.strip()]
    margin = min(len(line) - len(line.lstrip()) for line in lines)
    text = "\n".join(line[margin:].rstrip() for line in lines)
    return PARAMETER.sub(lambda found: _literal(params[found[1]]), text)


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return "null" if value is None else str(value)
