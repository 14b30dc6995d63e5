"""What the explorer reads: the locked connection of `cpmi query`, with what every page needs held in memory.

A page's SQL names tables as users do, and is shown as it is. Where that is faster, another relation with the same rows
stands in for a table:

    dataset.soft_labels      memory.main.soft_labels                                      sorted by trajectory
    labels.step_rewards      read_parquet('lake:///lake/labels/step_rewards/shard=017…')  the trajectory's shard alone

A run writes tables of the lake while the explorer is open. A page compares the files of the tables in memory with what
was read of them, and reads them again where they differ; answers over all labels are kept until labels change.
"""

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from cpmi_dagster.contracts.keys import STEP_REWARDS
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import CpmiError, first_line
from cpmi_dagster.files.file_states import FileState, file_state
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.database import Database
from cpmi_dagster.resources.lake.lake import LAKE, Lake
from cpmi_dagster.resources.lake.queries import GIB, ask, quoted
from cpmi_dagster.resources.lake.read_only_lake import HOME
from cpmi_dagster.resources.web.explorer.queries import REWARD_TYPES, SELECTED, TASKS

MOST_SECONDS = 60.0
MOST_KEPT = 200
# of the lake's files, of which the copies in memory take up to five times as much
MOST_IN_MEMORY = GIB // 2
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
States = tuple[FileState | None, ...]

Row = dict[str, Any]


@dataclass(frozen=True)
class Shown:
    """A query as the reader sees it, to be run with `cpmi query`."""

    sql: str


@dataclass
class View:
    """The queries behind one page, each answered on a connection of the page's own."""

    snapshot: "Snapshot"
    connection: duckdb.DuckDBPyConnection
    shown: list[Shown] = field(default_factory=list)

    def rows(self, sql: str, shard: str | None = None, **params: Any) -> list[Row]:
        """The rows of a query.

        Args:
            sql: names its parameters `$name`.
            shard: that holds all rows which the query asks for.

        Raises:
            CpmiError: see `queries.ask`.
        """
        used = {name: params[name] for name in PARAMETER.findall(sql)}
        self.shown.append(Shown(written_out(sql, used)))
        return ask(self.connection, self.snapshot.faster(sql, shard), used, MOST_SECONDS).to_dicts()

    def kept_rows(self, sql: str, **params: Any) -> list[Row]:
        """The rows of a query over the whole set, which is answered once, until labels change."""
        used = {name: params[name] for name in PARAMETER.findall(sql)}
        text = written_out(sql, used)
        self.shown.append(Shown(text))
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
        state: of the files whose rows are in memory.
        kept: answers of queries over the whole set, by their SQL; another one when labels have changed.

    Raises:
        LakeError: nothing has been published yet.
    """

    def __init__(self, settings: Settings) -> None:
        self._lake = Lake(settings.home)
        self._database = Database(self._lake, settings)
        self._open = ExitStack()
        self._connection = self._open.enter_context(self._database.reader())
        self.state = held_state(self._lake, self._database)
        self._labels: States | None = None
        self._replaced: dict[str, str] = {}
        for table in IN_MEMORY:
            self._hold(table)
        for table in {each.key for each in TABLES.values() if each.group == "labels"}:
            self._lake.files.fetch(f"{LAKE}/{table}", deep=False)
        with self.view() as view:
            self.tasks = [row["task"] for row in view.rows(TASKS)]
        self._first_types = [*(recipe.reward_type for recipe in settings.recipes), *settings.rewards.types]
        self.look()

    def look(self) -> None:
        """Forget the answers over the whole set where labels have changed; asked for with every page."""
        labels = _states(self._lake, STEP_REWARDS)
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
        with closing(self._database.another(self._connection)) as connection:
            yield View(self, connection)

    def faster(self, sql: str, shard: str | None) -> str:
        """The query with the relations in it that are read fastest."""
        if TRAJECTORIES in self._replaced:
            sql = sql.replace(SELECTED, f"{TRAJECTORIES} t")
        return TABLE.sub(lambda found: self._relation(found[0], shard), sql)

    def _relation(self, table: str, shard: str | None) -> str:
        key = table.replace(".", "/")
        if table in self._replaced:
            return self._replaced[table]
        if shard and TABLES[key].partitioning == "shard" and self._lake.path(key, shard).is_file():
            table = f"read_parquet({quoted(f'{HOME}/{LAKE}/{key}/shard={shard}.parquet')})"
        return table

    def _hold(self, table: str) -> None:
        """Copy a table into memory, unless it is too large for that."""
        key = table.replace(".", "/")
        files = [self._lake.path(key, partition) for partition in self._lake.partitions(key) or [None]]
        if sum(file.stat().st_size for file in files if file.is_file()) > MOST_IN_MEMORY:
            return
        name = f"memory.main.{TABLES[key].name}"
        try:
            self._connection.execute(f"create table {name} as {IN_MEMORY[table].format(table=table)}")
        except duckdb.OutOfMemoryException:
            return
        except duckdb.Error as error:
            raise CpmiError(
                f"{table} cannot be read ({first_line(error)}); `cpmi status --verify` names damaged files"
            ) from error
        self._replaced[table] = name


class Snapshots:
    """The current snapshot of a home; a new one is opened when rows that it has in memory were made again."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lake = Lake(settings.home)
        self._database = Database(self._lake, settings)
        self._lock = threading.Lock()
        self._current: Snapshot | None = None

    def current(self) -> Snapshot:
        """The snapshot of what is published now.

        Raises:
            LakeError: nothing has been published yet.
        """
        with self._lock:
            if self._current is None or self._current.state != held_state(self._lake, self._database):
                self._current = Snapshot(self._settings)
            else:
                self._current.look()
            return self._current


def held_state(lake: Lake, database: Database) -> States:
    """What changes when a home is published, or a table that is held in memory is made again."""
    states = [_states(lake, table.replace(".", "/")) for table in IN_MEMORY]
    return (_state(database.path), *(state for each in states for state in each))


def _states(lake: Lake, key: str) -> States:
    """The states of a table's files, or of current copies of them where the home is on an object store."""
    if TABLES[key].partitioning is None:
        return (_state(lake.path(key)),)
    lake.files.fetch(f"{LAKE}/{key}", deep=False)
    return tuple(map(_state, sorted((lake.root / key).glob("[!.]*.parquet"))))


def _state(path: Path) -> FileState | None:
    try:
        return file_state(path)
    except FileNotFoundError:
        return None


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
