"""cpmi.duckdb: every table is a described view of what is in the lake now, readable while it is replaced."""

import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import duckdb
import polars as pl
import pytest

from cpmi_dagster.contracts.report_tables import ARTIFACT_NAMES
from cpmi_dagster.contracts.tables import TABLES, column_meanings, columns_of
from cpmi_dagster.errors import StorageError
from cpmi_dagster.files.file_states import file_state
from cpmi_dagster.profiles.partitions import is_needed
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.lake import database
from cpmi_dagster.resources.lake.database import open_second_connection, publish, quoted, reader
from cpmi_dagster.resources.lake.lake import Lake

NEGATIVES, PREDICTIONS = "labels/hard_negatives", "benchmarks/prmbench_predictions"
IDS = "select trajectory_id from labels.hard_negatives order by all"
WRITER = "import duckdb, sys, time; open = duckdb.connect(sys.argv[1]); open.execute('create table mine as select 1'); "
WRITER += "print('open', flush=True); time.sleep(600)"


@pytest.fixture
def lake(settings: Settings) -> Lake:
    return Lake.of(settings)


@pytest.fixture
def path(lake: Lake) -> Path:
    return lake.home / database.FILE_NAME


def put(lake: Lake, key: str, partition: str | None, **values: object) -> None:
    """A file of one row, as the lake has them: with provenance, categories of texts, whole at any moment."""
    zeros = {pl.String(): "x", pl.Int64(): 0, pl.Float64(): 0.5}
    row = {name: values.get(name, zeros.get(dtype)) for name, dtype in columns_of(TABLES[key]).items()}
    path = lake.path(key, partition)
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame([row], columns_of(TABLES[key])).write_parquet(path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


def negatives(lake: Lake, shard: str, name: str) -> None:
    put(lake, NEGATIVES, shard, trajectory_id=name)


def put_first_files(lake: Lake, settings: Settings) -> None:
    """A file of every table, asked for or not."""
    partitions = {"shard": "000", "recipe": settings.recipe_names[0], "topic": "models", "benchmark": "gsm8k"}
    for key, table in TABLES.items():
        put(lake, key, partitions.get(str(table.partitioning)), artifact="contrast")


def counts(connection: duckdb.DuckDBPyConnection) -> dict[str, int]:
    return {key: len(connection.sql(f"from {key.replace('/', '.')}").fetchall()) for key in TABLES}


def ids(lake: Lake, settings: Settings) -> list[str]:
    """What a reader finds, who publishes first; another program, which knows nothing of this package, finds it too."""
    with reader(lake, settings) as connection:
        read = [name for (name,) in connection.sql(IDS).fetchall()]
    with duckdb.connect() as connection:
        connection.execute(f"attach {quoted(str(lake.home / 'cpmi.duckdb'))} as other (read_only)").execute("use other")
        assert [name for (name,) in connection.sql(IDS).fetchall()] == read
    return read


def test_every_table_and_column_is_there_with_its_type_and_described_made_or_not(lake, settings):
    publish(lake, settings)
    with reader(lake, settings) as connection:
        empty = connection.sql("from duckdb_columns() where not internal").pl()
        assert "v1.2.0" in str(connection.sql("select tags from duckdb_databases()").fetchall()), "for older DuckDB"
    put_first_files(lake, settings)
    with reader(lake, settings) as connection:
        columns = connection.sql("from duckdb_columns() where not internal").pl()
        views = dict(connection.sql("select schema_name || '/' || view_name, comment from duckdb_views()").fetchall())
        figures = {name: len(connection.sql(f"from reports.{name}").fetchall()) for name in ARTIFACT_NAMES}
        assert len(connection.sql("from reports.paper_comparison").fetchall()) == 1
        wide = connection.sql("from labels.step_rewards_wide").pl()
    assert {"source_id", "step", "is_right", *settings.rewards.types} <= set(wide.columns)
    assert figures == {**dict.fromkeys(ARTIFACT_NAMES, 0), "contrast": 1}
    same = ["schema_name", "table_name", "column_name", "data_type", "comment"]
    assert columns.select(same).equals(empty.select(same))
    assert {key: views[key] for key in TABLES} == {key: table.meaning for key, table in TABLES.items()}
    described = {tuple(row): comment for *row, _, comment in columns.select(same).iter_rows()}
    for table in TABLES.values():
        for column, meaning in column_meanings(table).items():
            assert described[table.group, table.name, column] == meaning


def test_the_first_file_of_a_table_that_is_asked_for_shows_on_open_connections(lake, settings, path):
    publish(lake, settings)
    before = file_state(path)
    with reader(lake, settings) as connection, duckdb.connect(str(path), read_only=True) as foreign:
        assert set(counts(connection).values()) == {0}
        put_first_files(lake, settings)
        put(lake, "labels/step_rewards", ".earlier/000")
        for opened in (connection, foreign, open_second_connection(connection)):
            assert counts(opened) == {key: int(is_needed(key, settings)) for key in TABLES}
            assert len(opened.sql("from earlier.step_rewards").fetchall()) == 1
        publish(lake, settings)
    assert file_state(path) == before


def test_new_replaced_and_removed_shards_show_on_open_connections_and_to_the_next_reader(lake, settings, path):
    publish(lake, settings)
    assert ids(lake, settings) == []
    negatives(lake, "000", "a")
    with reader(lake, settings) as connection, duckdb.connect(str(path), read_only=True) as foreign:
        for shard, name, expected in (("001", "b", "ab"), ("000", "c", "bc")):
            negatives(lake, shard, name)
            publish(lake, settings)
            for opened in (connection, foreign, open_second_connection(connection)):
                assert opened.sql(IDS).fetchall() == [*map(tuple, expected)]
    shutil.rmtree(lake.root / "labels")
    assert ids(lake, settings) == []


def test_copies_and_partitions_that_are_not_the_profiles_do_not_show(lake, settings):
    recipe = settings.recipe_names[0]
    negatives(lake, "000", "a")
    for name in ("099", "1000"):
        negatives(lake, name, "of more shards once")
    for name in (recipe, "of_last_week"):
        put(lake, PREDICTIONS, name, recipe=name)
    for file in (lake.path(NEGATIVES, "000"), lake.path(PREDICTIONS, recipe)):
        for name in (f"Copy of {file.name}", f"{file.stem} (1).parquet", f"{file.stem}.old.parquet"):
            shutil.copy(file, file.with_name(name))
    assert ids(lake, settings) == ["a"]
    with reader(lake, settings) as connection:
        assert connection.sql(f"select recipe from {PREDICTIONS.replace('/', '.')}").fetchall() == [(recipe,)]


def test_a_home_that_was_copied_answers_from_its_own_files_also_where_it_cannot_be_written(
    lake, settings, tmp_path, monkeypatch
):
    negatives(lake, "000", "a")
    publish(lake, settings)
    place = shutil.copytree(settings.home, tmp_path / "it's a home")
    negatives(lake, "001", "of the first home")
    copied = load_settings("miniature", place)
    monkeypatch.setattr(database, "publish", Mock(side_effect=StorageError("read-only file system")))
    with reader(Lake.of(copied), copied) as connection:
        assert connection.sql(IDS).fetchall() == [("a",)]
    monkeypatch.undo()
    assert ids(Lake.of(copied), copied) == ["a"]


def test_a_database_that_is_damaged_or_held_by_another_program_stops_no_query(lake, settings, path):
    negatives(lake, "000", "a")
    publish(lake, settings)
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout and writer.stdout.readline() == "open\n"
        try:
            assert ids(lake, settings) == ["a"]
        finally:
            writer.kill()
    for content in (b"no database", path.read_bytes()[:-8_000]):
        path.with_name("cpmi.duckdb.wal").write_bytes(b"no log")
        path.write_bytes(content)
        lake.path(NEGATIVES, ".00").write_bytes(b"no file")
        assert ids(lake, settings) == ["a"]
