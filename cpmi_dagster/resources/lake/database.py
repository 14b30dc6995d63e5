"""`cpmi.duckdb`: every table as a view `group.name` over its Parquet files, with comments.

    labels.step_rewards        read_parquet(['<home>/lake/labels/step_rewards/[.0-9][0-9][0-9].parquet'])
    dataset.soft_labels        read_parquet(['<home>/lake/dataset/soft_labels/[.a]ll.parquet'])
    sources.questions          no rows, typed columns: the profile does not ask for the table
    reports.contrast           select * from reports.figures where artifact = 'contrast'
    earlier.figures            the previous rows of reports.figures; likewise of rewards and soft labels
    labels.step_rewards_wide   a row per step: its text, a column per reward type, the judgement of people

New and replaced files show on open connections, the first one of a table too: each pattern also matches an empty file,
such as `.00.parquet` or `.ll.parquet`, since DuckDB refuses a pattern without files. The database is written again, and
renamed into place, only if its statements differ: the profile or columns have changed, or the home was moved.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import polars as pl

from cpmi_dagster.contracts.keys import FIGURES
from cpmi_dagster.contracts.report_tables import ARTIFACT_TITLES
from cpmi_dagster.contracts.tables import TABLES, column_meanings, columns_of
from cpmi_dagster.errors import LakeError, StorageError, first_line
from cpmi_dagster.files.locks import locked
from cpmi_dagster.files.whole_files import remove_unfinished, whole_file
from cpmi_dagster.profiles.partitions import is_needed, partitions_of
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.home_file import nothing_made
from cpmi_dagster.resources.lake.lake import ALL, COMPARED, EARLIER, LAKE, Lake
from cpmi_dagster.resources.lake.parquet import hash_of, is_intact, write_sealed
from cpmi_dagster.trajectories.rows import shard_name

LOG = logging.getLogger(__name__)
FILE_NAME = "cpmi.duckdb"
CATALOG = "cpmi"
WIDE = "labels.step_rewards_wide"
WIDE_COLUMNS = ("source_id", "trajectory_id", "step_index", "step", "is_right")
"""Its columns beside those of reward types; a user's label of such a name becomes `label_…` there."""
FOLDERS = {**{key: key for key in TABLES}, **{f"{key}/{EARLIER}": key for key in COMPARED}}
"""The table by folder of the lake whose files a view reads."""
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
    with suppress(OSError, duckdb.Error), _attach(path) as connection:
        is_shown = connection.sql(f"select {SHOWN}()").fetchall() == [(hash_of(statements),)]
        if is_shown and all(map(is_intact, _empty_files(lake.home, settings))):
            return
    with locked(path.with_suffix(".lock")):
        remove_unfinished(path)
        _write_empty_files(lake.home, settings)
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
    if not path.is_file() and lake.is_empty:
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


def open_second_connection(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
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
        _write_empty_files(Path(folder), settings)
        connection.execute(f"set variable {HOME_VARIABLE} = {quoted(folder)}")
        connection.begin()
        for statement in [*statements, f"create macro {SHOWN}() as {quoted(hash_of(statements))}"]:
            connection.execute(statement)
        connection.commit()
        # closing would move all into the file too, but ignore a full disk
        connection.execute("checkpoint")


def _statements(lake: Lake, settings: Settings) -> list[str]:
    """The SQL that makes the database."""
    views = {key: (table, table.meaning, _select(lake, settings, key)) for key, table in TABLES.items()}
    figures = TABLES[FIGURES]
    for name, title in ARTIFACT_TITLES.items():
        select = f"select * from reports.figures where artifact = {quoted(name)}"
        views[f"reports/{name}"] = figures, f"{title}; ours next to the paper's", select
    for key in COMPARED:
        table, view = TABLES[key], f"earlier/{TABLES[key].name}"
        meaning = f"The previous rows of {table.relation}, as last replaced"
        views[view] = table, meaning, _select(lake, settings, f"{key}/{EARLIER}")
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


def _select(lake: Lake, settings: Settings, folder: str) -> str:
    """The query behind the view of a folder of the lake."""
    key = FOLDERS[folder]
    columns, patterns = _types(key).items(), _patterns(key, settings)
    if not patterns:
        typed = ", ".join(f'null::{kind} as "{name}"' for name, kind in columns)
        return f"select {typed} where false"
    home = f"coalesce(getvariable('{HOME_VARIABLE}'), {_home(lake)})"
    files = ", ".join(f"{home} || {quoted(f'/{LAKE}/{folder}/{pattern}.parquet')}" for pattern in patterns)
    options = "union_by_name = true, hive_partitioning = false, filename = true"
    typed = ", ".join(f'"{name}"::{kind} as "{name}"' for name, kind in columns)
    select = f"select {typed} from read_parquet([{files}], {options})"
    # later shards are left over from a larger number; a pilot's views are those of the whole profile
    last = f" where parse_filename(filename) <= '{shard_name(settings.shards - 1)}.parquet'"
    return select + last if TABLES[key].partitioning == "shard" else select


def _patterns(key: str, settings: Settings) -> dict[str, str]:
    """The empty file by pattern of a table's files that matches it too; none if the profile does not ask for the table.

    {"[.c]pmi_bce": ".pmi_bce", "[.m]c_bce": ".c_bce"}      of the recipes `cpmi_bce` and `mc_bce`
    """
    if not is_needed(key, settings):
        return {}
    if TABLES[key].partitioning == "shard":
        return {"[.0-9][0-9][0-9]": ".00"}
    names = partitions_of(key, settings)
    return {f"[.{name[0]}]{name[1:]}": f".{name[1:]}" for name in ([ALL] if names is None else names)}


def _empty_files(home: Path, settings: Settings) -> dict[Path, str]:
    """The table by file without rows that its view reads."""
    return {
        home / LAKE / folder / f"{name}.parquet": key
        for folder, key in FOLDERS.items()
        for name in _patterns(key, settings).values()
    }


def _write_empty_files(home: Path, settings: Settings) -> None:
    for file, key in _empty_files(home, settings).items():
        remove_unfinished(file)
        write_sealed(pl.DataFrame(schema=columns_of(TABLES[key])), file, {})


def _home(lake: Lake) -> str:
    return quoted(str(lake.home.absolute()))


@cache
def _types(key: str) -> dict[str, str]:
    """The DuckDB type by column of a table; categories are texts."""
    columns = columns_of(TABLES[key]).items()
    schema = {name: pl.String() if isinstance(dtype, pl.Enum) else dtype for name, dtype in columns}
    with duckdb.connect() as connection:
        relation = connection.from_arrow(pl.DataFrame(schema=schema).to_arrow())
        return {name: str(kind) for name, kind in zip(relation.columns, relation.types, strict=True)}
