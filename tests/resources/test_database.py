"""cpmi.duckdb: every table is a described view of what is in the lake now, readable while it is replaced."""

import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import duckdb
import polars as pl
import pytest

from cpmi_dagster.contracts.keys import FIGURES, STEP_REWARDS
from cpmi_dagster.contracts.report_tables import ARTIFACT_NAMES
from cpmi_dagster.contracts.tables import TABLES, column_meanings, columns_of
from cpmi_dagster.errors import LakeError, StorageError
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.lake import database
from cpmi_dagster.resources.lake.database import another, publish, quoted, reader
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.query import ask
from cpmi_dagster.resources.lake.records import Record

NEGATIVES, PREDICTIONS = "labels/hard_negatives", "benchmarks/prmbench_predictions"
IDS = "select trajectory_id from labels.hard_negatives order by all"
WRITER = "import duckdb, sys, time; open = duckdb.connect(sys.argv[1]); open.execute('create table mine as select 1'); "
WRITER += "print('open', flush=True); time.sleep(600)"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings("miniature", tmp_path)


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


def ids(lake: Lake, settings: Settings) -> list[str]:
    with reader(lake, settings) as connection:
        return [name for (name,) in connection.sql(IDS).fetchall()]


def ids_of(path: Path) -> list[str]:
    """What another program reads, which knows nothing of this package."""
    with duckdb.connect() as connection:
        connection.execute(f"attach {quoted(str(path))} as other (read_only)").execute("use other")
        return [name for (name,) in connection.sql(IDS).fetchall()]


def test_every_table_and_column_is_there_with_its_type_and_described_made_or_not(lake, settings):
    publish(lake, settings)
    with reader(lake, settings) as connection:
        empty = connection.sql("from duckdb_columns() where not internal").pl()
        assert "v1.2.0" in str(connection.sql("select tags from duckdb_databases()").fetchall()), "for older DuckDB"
    for key, table in TABLES.items():
        put(lake, key, {None: None, "shard": "000", "recipe": settings.recipe_names[0], "artifact": "contrast"}.get(
            table.partitioning, settings.benchmarks.best_of_n[0]), artifact="contrast")  # fmt: skip
    with reader(lake, settings) as connection:
        made = connection.sql("from duckdb_columns() where not internal").pl()
        views = dict(connection.sql("select schema_name || '/' || view_name, comment from duckdb_views()").fetchall())
        counts = [connection.sql(f"select count(*) from {key.replace('/', '.')}").fetchall() for key in TABLES]
        figures = {name: len(connection.sql(f"from reports.{name}").fetchall()) for name in ARTIFACT_NAMES}
        assert len(connection.sql("from reports.paper_comparison").fetchall()) == 1
        wide = connection.sql("from labels.step_rewards_wide").pl()
    assert {"source_id", "step", "is_right", *settings.rewards.types} <= set(wide.columns)
    assert figures == {**dict.fromkeys(ARTIFACT_NAMES, 0), "contrast": 1}
    same = ["schema_name", "table_name", "column_name", "data_type", "comment"]
    assert made.select(same).equals(empty.select(same)) and counts == [[(1,)]] * len(TABLES)
    assert {key: views[key] for key in TABLES} == {key: table.meaning for key, table in TABLES.items()}
    described = {tuple(row): comment for *row, _, comment in made.select(same).iter_rows()}
    for table in TABLES.values():
        for column, meaning in column_meanings(table).items():
            assert described[table.group, table.name, column] == meaning


def test_what_other_settings_gave_before_can_be_compared(lake, settings):
    def write(key: str, partition: str | None, rows: pl.DataFrame, templates: int) -> None:
        facts = {"settings": {"scoring.templates": templates}}
        lake.write(rows, Record(key, partition, key=str(templates), run_id="r", facts=facts))

    step = {"trajectory_id": "t000000000", "step_index": 0, "reward_type": "cpmi"}
    figure = {"artifact": "contrast", "row": "CPMI", "column": "AUC", "profile": "miniature"}
    schema = TABLES[FIGURES].schema.create_empty().schema
    for templates, value in ((4, 0.5), (2, 0.25)):
        write(STEP_REWARDS, "000", pl.DataFrame([{**step, "reward": value}]), templates)
        write(FIGURES, "contrast", pl.DataFrame([{**figure, "measured": value}], schema), templates)
    earlier = lake.earlier(STEP_REWARDS, "000")
    assert earlier and earlier.settings == {"scoring.templates": 4}
    with reader(lake, settings) as connection:
        both = "select e.reward, r.reward from labels.step_rewards r join earlier.step_rewards e using (trajectory_id)"
        assert connection.sql(both).fetchall() == [(0.5, 0.25)]
        assert connection.sql("select before, now from reports.changes").fetchall() == [(0.5, 0.25)]


def test_new_and_replaced_shards_show_on_open_connections_and_nothing_is_published(lake, settings, path):
    negatives(lake, "000", "a")
    with reader(lake, settings) as connection, duckdb.connect(str(path), read_only=True) as foreign:
        before = path.stat().st_ino
        for shard, name, expected in (("001", "b", "ab"), ("000", "c", "bc"), ("001", "d", "cd")):
            negatives(lake, shard, name)
            publish(lake, settings)
            further = another(connection)
            assert [open.sql(IDS).fetchall() for open in (connection, foreign, further)] == [
                [*map(tuple, expected)]
            ] * 3
        assert path.stat().st_ino == before


def test_a_table_that_is_made_or_removed_shows_to_the_next_reader(lake, settings, path):
    publish(lake, settings)
    assert ids(lake, settings) == []
    with duckdb.connect(str(path), read_only=True) as held:
        negatives(lake, "000", "a")
        assert ids(lake, settings) == ids_of(path) == ["a"]
        assert held.sql(IDS).fetchall() == []
    shutil.rmtree(lake.root / "labels")
    assert ids(lake, settings) == []


def test_copies_and_partitions_that_are_not_the_profiles_do_not_show(lake, settings, path):
    recipe = settings.recipe_names[0]
    negatives(lake, "000", "a")
    negatives(lake, "099", "of more shards once")
    put(lake, PREDICTIONS, recipe, recipe=recipe)
    put(lake, PREDICTIONS, "of_last_week", recipe="of_last_week")
    for file in (lake.path(NEGATIVES, "000"), lake.path(PREDICTIONS, recipe)):
        for name in (f"Copy of {file.name}", file.name.replace(".parquet", " (1).parquet"), f"{file.stem}.old.parquet"):
            shutil.copy(file, file.with_name(name))
    assert ids(lake, settings) == ids_of(path) == ["a"]
    with reader(lake, settings) as connection:
        assert connection.sql(f"select recipe from {PREDICTIONS.replace('/', '.')}").fetchall() == [(recipe,)]


@pytest.mark.parametrize("name", ["moved", "it's a home"])
def test_a_home_that_was_moved_or_copied_answers_from_its_own_files(lake, settings, tmp_path, name, monkeypatch):
    negatives(lake, "000", "a")
    publish(lake, settings)
    place = tmp_path.with_name(f"{tmp_path.name} {name}")
    shutil.copytree(tmp_path, place)
    negatives(lake, "001", "of the first home")
    copied = load_settings("miniature", place)
    monkeypatch.setattr(database, "publish", Mock(side_effect=StorageError("read-only file system")))
    assert ids(Lake.of(copied), copied) == ["a"]
    monkeypatch.undo()
    assert ids(Lake.of(copied), copied) == ids_of(place / "cpmi.duckdb") == ["a"]


def test_a_damaged_file_of_the_lake_is_named_and_stops_no_other_query(lake, settings):
    put(lake, PREDICTIONS, settings.recipe_names[0])
    negatives(lake, "000", "a")
    negatives(lake, "001", "b")
    lake.path(NEGATIVES, "001").write_bytes(lake.path(NEGATIVES, "001").read_bytes()[:-100])
    with reader(lake, settings) as connection:
        with pytest.raises(Exception, match=r"labels/hard_negatives/001 is missing or damaged; run `cpmi run`"):
            ask(connection, IDS)
        assert ask(connection, "select count(*) from benchmarks.prmbench_predictions").item() == 1


@pytest.mark.parametrize("content", [b"", b"no database", b"DUCK" * 5_000, None])
def test_a_damaged_database_or_log_is_published_again(lake, settings, path, content):
    negatives(lake, "000", "a")
    publish(lake, settings)
    path.with_name("cpmi.duckdb.wal").write_bytes(content or b"no log")
    path.write_bytes(path.read_bytes()[:-8_000] if content is None else content)
    assert ids(lake, settings) == ids_of(path) == ["a"]


@pytest.mark.parametrize("killed", [False, True])
def test_a_program_that_writes_into_the_database_or_was_killed_at_it_stops_no_query(lake, settings, path, killed):
    negatives(lake, "000", "a")
    publish(lake, settings)
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == "open\n"
        if killed:
            writer.kill()
            writer.wait()
        assert ids(lake, settings) == ["a"]
        writer.kill()


def test_without_results_the_error_says_where_it_looked(lake, settings):
    with pytest.raises(LakeError, match=r"has no results at .*no other home is in this folder"), reader(lake, settings):
        pass


def test_a_disk_that_fills_up_leaves_no_part_of_a_database_and_a_killed_publisher_nothing(
    lake, settings, path, full_disk
):
    left = path.with_name(".cpmi.duckdb.5f0c1f2a.cpmi-tmp.wal")
    left.touch()
    with full_disk(150_000), pytest.raises(StorageError, match=f"{path} cannot be written .*make room"):
        publish(lake, settings)
    assert not [file for file in path.parent.iterdir() if path.name in file.name]
