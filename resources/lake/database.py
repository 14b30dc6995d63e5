"""`cpmi.duckdb`: every table as a view `group.name` over its Parquet files, with comments.

    labels.step_rewards        read_parquet('<home>/lake/labels/step_rewards/[0-9][0-9][0-9].parquet')
    dataset.soft_labels        read_parquet(['<home>/lake/dataset/soft_labels/all.parquet'])
    benchmarks.best_of_n_choices    no rows, typed columns: the table has not been made yet
    reports.contrast           select * from reports.figures where artifact = 'contrast'
    earlier.figures            the previous rows of reports.figures; likewise of rewards and soft labels
    labels.step_rewards_wide   a row per step: its text, a column per reward type, the judgement of people

New and replaced shards show on open connections. The file is written again, and renamed into place, only if its
statements differ: a table or recipe has its first file, columns have changed, or the home was moved.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import polars as pl

from cpmi_dagster.contracts.keys import FIGURES
from cpmi_dagster.contracts.report_tables import ARTIFACT_TITLES
from cpmi_dagster.contracts.tables import TABLES, Table, column_meanings, columns_of
from cpmi_dagster.errors import LakeError, StorageError, first_line
from cpmi_dagster.files.locks import locked
from cpmi_dagster.files.whole_files import remove_unfinished, whole_file
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.home_file import nothing_made
from cpmi_dagster.resources.lake.lake import ALL, COMPARED, EARLIER, LAKE, Lake, partitions_of
from cpmi_dagster.resources.lake.records import hash_of

LOG = logging.getLogger(__name__)
FILE_NAME = "cpmi.duckdb"
CATALOG = "cpmi"
WIDE = "labels.step_rewards_wide"
WIDE_COLUMNS = ("source_id", "trajectory_id", "step_index", "step", "is_right")
"""Its columns beside those of reward types; a user's label of such a name becomes `label_…` there."""
SHARDS = "[0-9][0-9][0-9]"
CHANGES = (
    'create view reports.changes as select artifact, "row", "column", e.measured as before, f.measured as now '
    'from reports.figures f join earlier.figures e using (artifact, "row", "column") '
    "where e.measured is distinct from f.measured",
    "comment on view reports.changes is 'Figures that differ from the previous ones'",
    "comment on column reports.changes.before is 'the figure as it was'",
    "comment on column reports.changes.now is 'the figure as it is'",
)
HOME_VARIABLE = "cpmi_home"
"""The variable by which a connection tells the views where the home is; by default, where it was published."""
SHOWN = "cpmi_shown"
"""A macro of the database: the hash of the statements that made it."""
STORAGE = {"storage_compatibility_version": "v1.2.0"}
"""A file format that older versions of DuckDB open."""
MOST_MEMORY = 4 * 2**30
"""Bytes of memory for a reader, at most half of the machine's, and for an answer."""
SWITCHED_OFF = (
    "enable_progress_bar", "autoinstall_known_extensions", "autoload_known_extensions", "allow_community_extensions",
    "allow_persistent_secrets", "python_enable_replacements", "enable_external_access",
)  # fmt: skip


def publish(lake: Lake, settings: Settings) -> None:
    """Write `cpmi.duckdb`, unless the present one has the same statements.

    Raises:
        StorageError: the disk is full, or the home cannot be written.
        LakeError: DuckDB cannot write it.
    """
    path, statements = lake.home / FILE_NAME, _statements(lake, settings)
    with suppress(duckdb.Error), _attach(path) as connection:
        if connection.sql(f"select {SHOWN}()").fetchall() == [(hash_of(statements),)]:
            return
    with locked(path.with_suffix(".lock")):
        statements = _statements(lake, settings)  # another run may have added tables meanwhile
        remove_unfinished(path)
        try:
            with whole_file(path) as unfinished:
                _write(unfinished, settings, statements)
                # DuckDB would apply a log that another program left
                path.with_name(f"{FILE_NAME}.wal").unlink(missing_ok=True)
        except duckdb.Error as error:
            raise LakeError(f"{path} cannot be published: {first_line(error)}") from error


@contextmanager
def reader(lake: Lake, settings: Settings) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that reads the published tables, opens no file outside of the lake, and has locked settings.

    Run users' SQL by `query.ask`: DuckDB alone would let a query write files into the lake.

    Raises:
        LakeError: nothing has been made yet, or the database can neither be opened nor published again.
    """
    path = lake.home / FILE_NAME
    if not path.is_file() and not lake.has_rows():
        raise LakeError(nothing_made(settings))
    try:
        publish(lake, settings)
    except StorageError as error:
        if not path.is_file():
            raise
        LOG.warning("the results are shown as they were last published: %s", error)
    try:
        connection = _attach(path)
    except duckdb.Error as error:
        raise LakeError(
            f"{path} cannot be opened ({first_line(error)}); see that no other program uses it, and try again"
        ) from error
    with connection:
        _lock(connection, lake)
        yield connection


def another(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """A second connection to a reader's database, for another thread; the caller closes it."""
    further = connection.cursor()
    further.execute(f"use {CATALOG}")
    further.execute(f"set variable {HOME_VARIABLE} = (select home from memory.main.{HOME_VARIABLE})")
    return further


def quoted(text: str) -> str:
    """A text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def _attach(path: Path) -> duckdb.DuckDBPyConnection:
    """A connection that shares no cached database with others of this process to the same path."""
    connection = duckdb.connect()
    return connection.execute(f"attach {quoted(str(path))} as {CATALOG} (read_only)").execute(f"use {CATALOG}")


def _lock(connection: duckdb.DuckDBPyConnection, lake: Lake) -> None:
    """Restrict a connection to files of the lake, and lock its settings."""
    most = min(MOST_MEMORY, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
    connection.execute(f"create table memory.main.{HOME_VARIABLE} as select {_home(lake)} as home")
    connection.execute(f"set variable {HOME_VARIABLE} = {_home(lake)}")
    connection.execute(f"set memory_limit = '{most // 2**20} MiB'")
    # in this order: later settings forbid the earlier ones
    connection.execute("set temp_directory = ''")
    connection.execute(f"set allowed_directories = [{_home(lake)} || '/{LAKE}']")
    for name in SWITCHED_OFF:
        connection.execute(f"set {name} = false")
    connection.execute("set lock_configuration = true")


def _write(path: Path, settings: Settings, statements: list[str]) -> None:
    """Make the database of these statements over empty files, since a damaged file would stop it."""
    with TemporaryDirectory() as folder, duckdb.connect(str(path), config={**STORAGE}) as connection:
        for table in TABLES.values():
            Path(folder, LAKE, table.key).mkdir(parents=True)
            for partition in partitions_of(table.key, settings) or [ALL]:
                file = Path(folder, LAKE, table.key, f"{partition}.parquet")
                connection.execute(f"copy ({_empty(table.key)}) to {quoted(str(file))}")
                if table.partitioning == "shard":
                    break
        for key in COMPARED:
            file = Path(folder, LAKE, key, EARLIER, "000.parquet")
            file.parent.mkdir()
            connection.execute(f"copy ({_empty(key)}) to {quoted(str(file))}")
        connection.execute(f"set variable {HOME_VARIABLE} = {quoted(folder)}")
        connection.begin()
        for statement in [*statements, f"create macro {SHOWN}() as {quoted(hash_of(statements))}"]:
            connection.execute(statement)
        connection.commit()
        # closing would move all into the file too, but ignore a full disk
        connection.execute("checkpoint")


def _statements(lake: Lake, settings: Settings) -> list[str]:
    """The SQL that makes the database."""
    views = {table.key: (table, table.meaning, _select(lake, settings, table)) for table in TABLES.values()}
    figures = TABLES[FIGURES]
    for name, title in ARTIFACT_TITLES.items():
        select = f"select * from reports.figures where artifact = {quoted(name)}"
        views[f"reports/{name}"] = figures, f"{title}; ours next to the paper's", select
    for key in COMPARED:
        table, view = TABLES[key], f"earlier/{TABLES[key].name}"
        there = any((lake.root / key / EARLIER).glob("*.parquet"))
        select = _select_files(lake, table, [f"{EARLIER}/*"]) if there else _empty(key)
        views[view] = table, f"The previous rows of {table.group}.{table.name}, as last replaced", select
    everything = "Every figure of every artifact, ours next to the paper's"
    views["reports/paper_comparison"] = figures, everything, "select * from reports.figures"
    statements = [f"create schema {group}" for group in dict.fromkeys(key.partition("/")[0] for key in views)]
    for key, (table, meaning, select) in views.items():
        view = key.replace("/", ".")
        statements += [f"create view {view} as {select}", f"comment on view {view} is {quoted(meaning)}"]
        for column, text in column_meanings(table).items():
            statements.append(f'comment on column {view}."{column}" is {quoted(text)}')
    return [*statements, *_wide_rewards(settings), *CHANGES]


def _wide_rewards(settings: Settings) -> list[str]:
    """The SQL of `labels.step_rewards_wide`, with the reward types of the profile."""
    types = dict.fromkeys((*settings.rewards.types, *settings.sources.step_labels))
    names = {kind: f"label_{kind}" if kind in WIDE_COLUMNS else kind for kind in types}
    rewards = ", ".join(
        f'max(reward) filter (where reward_type = {quoted(kind)}) as "{name}"' for kind, name in names.items()
    )
    columns = "".join(f', w."{name}"' for name in names.values())
    select = (
        "select t.source_id, t.trajectory_id, w.step_index, t.steps[w.step_index + 1] as step"
        f"{columns}, s.correct[w.step_index + 1] as is_right from (select trajectory_id, step_index, {rewards} "
        "from labels.step_rewards group by all) w join alignment.trajectories t using (trajectory_id) "
        "left join sources.step_truth s on s.row_number = t.row_number"
    )
    meanings = {
        "source_id": "the user's id of the row; null if it has none",
        "trajectory_id": "alignment.trajectories.trajectory_id",
        "step_index": "step, from 0",
        "step": "text of the step",
        **{name: f"labels.step_rewards.reward of the type {kind}; null if it has none" for kind, name in names.items()},
        "is_right": "whether people call the step right; null if nobody has judged it",
    }
    comments = [f'comment on column {WIDE}."{name}" is {quoted(meaning)}' for name, meaning in meanings.items()]
    meaning = "A row for each labelled step: its text, and a column for each reward type of the profile"
    return [f"create view {WIDE} as {select}", f"comment on view {WIDE} is {quoted(meaning)}", *comments]


def _select(lake: Lake, settings: Settings, table: Table) -> str:
    """The query behind the view of a table."""
    if not lake.exists(table.key):
        return _empty(table.key)
    if table.partitioning == "shard":
        # later shards are left over from a larger number
        last = f"{settings.shard_keys[-1]}.parquet"
        return f"{_select_files(lake, table, [SHARDS])} where parse_filename(filename) <= '{last}'"
    return _select_files(lake, table, lake.partitions(table.key) if table.partitioning else [ALL])


def _select_files(lake: Lake, table: Table, partitions: Sequence[str]) -> str:
    """The query over files of a table, by names without suffix, or patterns."""
    home = f"coalesce(getvariable('{HOME_VARIABLE}'), {_home(lake)})"
    files = ", ".join(f"{home} || {quoted(f'/{LAKE}/{table.key}/{partition}.parquet')}" for partition in partitions)
    columns = ", ".join(f'"{name}"::{kind} as "{name}"' for name, kind in _types(table.key).items())
    options = "union_by_name = true, hive_partitioning = false, filename = true"
    return f"select {columns} from read_parquet([{files}], {options})"


def _home(lake: Lake) -> str:
    return quoted(str(lake.home.absolute()))


def _empty(key: str) -> str:
    """A query with a table's columns and no rows."""
    typed = ", ".join(f'null::{kind} as "{name}"' for name, kind in _types(key).items())
    return f"select {typed} where false"


@cache
def _types(key: str) -> dict[str, str]:
    """The DuckDB type by column of a table; categories are texts."""
    columns = columns_of(TABLES[key]).items()
    schema = {name: pl.String() if isinstance(dtype, pl.Enum) else dtype for name, dtype in columns}
    with duckdb.connect() as connection:
        relation = connection.from_arrow(pl.DataFrame(schema=schema).to_arrow())
        return {name: str(kind) for name, kind in zip(relation.columns, relation.types, strict=True)}
