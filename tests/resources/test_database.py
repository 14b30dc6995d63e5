"""cpmi.duckdb: every relation, described, readable while it is replaced."""

import shutil
import subprocess
import sys

import duckdb
import polars as pl
import pytest

from cpmi_dagster.contracts.tables import PROVENANCE, TABLES, column_meanings, columns_of
from cpmi_dagster.errors import CpmiError, LakeError, StorageError
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.lake.database import Database
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.queries import ask
from cpmi_dagster.resources.lake.records import FileRecord

NEGATIVES = "labels/hard_negatives"
ROWS = pl.DataFrame({"trajectory_id": ["t1"], "rank": [1], "answer": ["3"], "source": ["model"]})


@pytest.fixture
def lake(tmp_path) -> Lake:
    return Lake(tmp_path, "miniature")


@pytest.fixture
def database(lake) -> Database:
    return Database(lake)


def test_every_table_is_a_relation_even_before_it_is_made(database):
    database.publish()
    relations = set(database.row_counts()["relation"])
    assert {f'{table.group}."{table.name}"' for table in TABLES.values()} <= relations
    assert 'reports."paper_comparison"' in relations


def test_every_relation_and_column_is_described(database):
    database.publish()
    with database.reader() as connection:
        comments = dict(
            connection.sql(
                "select schema_name || '/' || view_name, comment from duckdb_views() where not internal "
                "union all select schema_name || '/' || table_name, comment from duckdb_tables() where not internal"
            ).fetchall()
        )
        columns = connection.sql(
            "select schema_name || '/' || table_name, column_name, comment from duckdb_columns() where not internal"
        ).fetchall()
    assert {key: comments[key] for key in TABLES} == {key: table.meaning for key, table in TABLES.items()}
    described = {(key, name): comment for key, name, comment in columns}
    for key, table in TABLES.items():
        assert {name: described[key, name] for name in column_meanings(table)} == column_meanings(table)


def negatives(name, trajectory="t1"):
    return ROWS.with_columns(trajectory_id=pl.lit(trajectory)), FileRecord(NEGATIVES, name, "r", "m", "1")


COUNT = "select count(*) from labels.hard_negatives"


def test_an_open_connection_keeps_its_rows_and_the_next_sees_what_was_written_since(database, lake):
    database.publish()
    for number, shard in enumerate(("000", "001"), 1):
        with duckdb.connect(str(database.path), read_only=True) as foreign:
            lake.write(*negatives(shard))
            database.publish_changes()
            assert foreign.sql(COUNT).fetchall() == [(number - 1,)]
        for opened in (database.reader(), duckdb.connect(str(database.path), read_only=True)):
            with opened as connection:
                assert connection.sql(COUNT).fetchall() == [(number,)]


def test_a_file_that_shows_what_is_read_is_not_published_again(database, lake, monkeypatch):
    lake.write(*negatives("000"))
    database.publish_changes()
    monkeypatch.setattr(Database, "publish", lambda _: pytest.fail("published"))
    database.publish_changes()
    with database.reader():
        pass


def test_rows_of_parts_that_are_not_asked_for_are_not_shown(database, lake):
    both = pl.concat([ROWS, ROWS.with_columns(rank=pl.lit(2, pl.Int64))])
    written = lake.put(both, FileRecord(NEGATIVES, "000", "r", "m", "1", {"1": "a", "2": "b"}))
    database.publish()
    for parts in (["1"], ["2"], ["1", "2"]):
        lake.count({(NEGATIVES, "000"): {written.file_name: parts}})
        with database.reader() as connection:
            ranks = connection.sql("select rank from labels.hard_negatives order by all").fetchall()
        assert ranks == [(int(part),) for part in parts]


def test_a_result_is_stored_in_the_file(database, lake):
    key = "reports/contrast"
    result = pl.DataFrame(schema=columns_of(TABLES[key])).drop(PROVENANCE)
    row = {"artifact": "contrast", "row": "CPMI", "column": "AUC", "measured": 0.5, "profile": "small"}
    lake.write(pl.concat([result, pl.DataFrame([row])], how="diagonal"), FileRecord(key, None, "r", "m", "1"))
    database.publish()
    for path in lake.paths(key):
        path.unlink()
    with duckdb.connect(str(database.path), read_only=True) as connection:
        assert connection.sql("select count(*) from reports.contrast").fetchall() == [(1,)]


def test_a_copied_home_answers_from_its_own_files(database, lake, tmp_path):
    lake.write(*negatives("000"))
    database.publish()
    shutil.copytree(tmp_path, tmp_path.with_name("copy"))
    copy = Lake(tmp_path.with_name("copy"), "miniature")
    lake.write(*negatives("001", "original"))
    ids = "select trajectory_id from labels.hard_negatives order by all"
    with duckdb.connect(str(Database(copy).path)) as foreign, pytest.raises(duckdb.Error, match="copied or moved"):
        foreign.sql(ids).fetchall()
    copy.write(*negatives("002", "copied"))
    with Database(copy).reader() as connection:
        assert connection.sql(ids).fetchall() == [("copied",), ("t1",)]
    with duckdb.connect(str(Database(copy).path)) as foreign:
        assert foreign.sql(ids).fetchall() == [("copied",), ("t1",)]


def test_a_moved_home_answers_from_its_own_files(database, lake, tmp_path):
    lake.write(*negatives("000"))
    database.publish()
    moved = Database(Lake(tmp_path.rename(tmp_path.with_name("moved")), "miniature"))
    with moved.reader() as connection:
        assert connection.sql("select count(*) from labels.hard_negatives").fetchall() == [(1,)]
    with duckdb.connect(str(moved.path)) as foreign, pytest.raises(duckdb.Error):
        foreign.sql("select count(*) from labels.hard_negatives").fetchall()


def test_deleted_tables_are_empty_relations(database, lake):
    lake.write(*negatives("000"))
    database.publish()
    shutil.rmtree(lake.root / "labels")
    with database.reader() as connection:
        assert connection.sql("select count(*) from labels.hard_negatives").fetchall() == [(0,)]


def test_the_file_is_of_a_version_that_duckdb_1_opens(database):
    database.publish()
    with database.reader() as connection:
        tags = connection.sql("select tags from duckdb_databases() where not internal").fetchall()
    assert "v1.2.0" in str(tags)


def test_an_open_reader_does_not_block_publishing_nor_the_reverse(database):
    database.publish()
    with duckdb.connect(str(database.path)) as held:
        database.publish()
        assert held.sql("select count(*) from labels.step_rewards").fetchall() == [(0,)]
    with database.reader() as connection:
        assert connection.sql("select count(*) from labels.step_rewards").fetchall() == [(0,)]


def test_a_query_that_fails_says_why(database):
    database.publish()
    with database.reader() as connection, pytest.raises(CpmiError, match=r"the query failed: .*nothing_there"):
        ask(connection, "select * from nothing_there")


def test_a_query_cannot_write(database):
    database.publish()
    with database.reader() as connection, pytest.raises(CpmiError, match="only reads"):
        ask(connection, "create table t as select 1")


def test_without_a_database_the_error_says_what_to_run(database):
    with pytest.raises(LakeError, match="run `cpmi run` first"), database.reader():
        pass


def counted(database: Database) -> int:
    with database.reader() as connection:
        return ask(connection, "select count(*) from labels.hard_negatives").item()


@pytest.mark.parametrize("content", [b"", b"no database", b"DUCK" * 5_000])
def test_a_damaged_database_is_published_again(database, lake, content):
    lake.write(*negatives("000"))
    database.publish()
    database.path.write_bytes(content)
    assert counted(database) == 1


def test_a_truncated_database_is_published_again(database, lake):
    lake.write(*negatives("000"))
    database.publish()
    database.path.write_bytes(database.path.read_bytes()[:-8_000])
    assert counted(database) == 1


def test_a_damaged_file_of_the_lake_is_not_shown_and_stops_no_query(database, lake, caplog):
    lake.write(*negatives("000"))
    lake.write(*negatives("001", "t2"))
    (path,) = lake.paths(NEGATIVES, "000")
    path.write_bytes(path.read_bytes()[:-100])
    database.publish()
    assert counted(database) == 1
    assert "labels/hard_negatives 000 is damaged and not shown until `cpmi run` has made it again" in caplog.text


@pytest.mark.parametrize("content", [b"", b"no log", b"WAL" * 1_000])
def test_a_write_ahead_log_that_another_program_left_stops_no_query(database, lake, content):
    lake.write(*negatives("000"))
    database.publish()
    database.path.with_name("cpmi.duckdb.wal").write_bytes(content)
    assert counted(database) == 1


WRITER = """
import duckdb, sys, time
connection = duckdb.connect(sys.argv[1])
connection.execute("create table mine as select 1")
print("open", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("killed", [False, True])
def test_a_program_that_writes_into_the_database_or_was_killed_at_it_stops_no_query(database, lake, killed):
    lake.write(*negatives("000"))
    database.publish()
    command = [sys.executable, "-c", WRITER, str(database.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == "open\n"
        if killed:
            writer.kill()
            writer.wait()
        assert counted(database) == 1
        writer.kill()


def test_a_damaged_database_of_a_home_without_results_is_an_error(database):
    database.publish()
    assert counted(database) == 0
    database.path.write_bytes(b"no database")
    with pytest.raises(LakeError, match="there are no results to publish it from; run `cpmi run` first"):
        counted(database)


def test_a_database_without_results_that_another_program_writes_is_not_called_damaged(database):
    database.publish()
    command = [sys.executable, "-c", WRITER, str(database.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == "open\n"
        assert counted(database) == 0
        writer.kill()


def test_a_database_that_cannot_be_opened_nor_published_is_one_clear_sentence(database, lake, monkeypatch):
    lake.write(*negatives("000"))
    database.publish()
    database.path.write_bytes(b"no database")
    monkeypatch.setattr(Database, "publish", lambda _: None)
    with pytest.raises(LakeError, match=r"cpmi\.duckdb cannot be opened .*; see that no other program uses it"):
        counted(database)


def test_a_column_of_the_table_itself_stands_before_provenance_of_that_name(database, lake):
    row = {"shard": "000", "method": "mc", "model": "policy", "trajectories": 1, "wall_seconds": 1.0}
    costs = pl.DataFrame([row | {"forward_tokens": 1, "generated_tokens": 1}])
    lake.write(costs, FileRecord("labels/labeling_costs", "000", "r", "nobody", "1"))
    database.publish()
    with database.reader() as connection:
        assert connection.sql("select model from labels.labeling_costs").fetchall() == [("policy",)]


def test_a_recipe_that_the_profile_does_not_name_any_more_is_kept_and_not_shown(lake, tmp_path):
    settings = load_settings("miniature", tmp_path)
    key, named = "benchmarks/prmbench_predictions", settings.recipe_names[0]
    row = {"category": "c", "problem_id": "p", "step_index": 0, "probability": 0.5}
    for recipe in (named, "of_last_week"):
        lake.write(pl.DataFrame([row | {"recipe": recipe}]), FileRecord(key, recipe, "r", "m", "1"))
    shown = "select recipe from benchmarks.prmbench_predictions"
    for database, expected in ((Database(lake, settings), [(named,)]), (Database(lake), [(named,), ("of_last_week",)])):
        database.publish()
        with database.reader() as connection:
            assert sorted(connection.sql(shown).fetchall()) == expected
    assert lake.partitions(key) == sorted([named, "of_last_week"])


def test_a_recipe_that_is_new_in_the_profile_is_shown_without_being_published(lake, tmp_path):
    settings = load_settings("miniature", tmp_path)
    added = settings.recipes[0].model_copy(update={"name": "new"})
    more = settings.model_copy(update={"recipes": [*settings.recipes, added]})
    key = "benchmarks/prmbench_predictions"
    row = {"category": "c", "problem_id": "p", "step_index": 0, "probability": 0.5}
    Database(lake, settings).publish()
    lake.write(pl.DataFrame([row | {"recipe": "new"}]), FileRecord(key, "new", "r", "m", "1"))
    for profile, expected in ((more, [("new",)]), (settings, []), (more, [("new",)])):
        database = Database(lake, profile)
        with database.reader() as connection:
            assert connection.sql("select recipe from benchmarks.prmbench_predictions").fetchall() == expected


def test_a_copy_of_a_file_beside_it_adds_no_rows(tmp_path):
    settings = load_settings("miniature", tmp_path)
    lake = Lake.of(settings)
    lake.write(*negatives("000"))
    row = {"trajectory_id": "t1", "shard": "000", "question_id": "q", "task": "GSM8K", "composition": "mixed"}
    selected = pl.DataFrame([row])
    lake.write(selected, FileRecord("selection/selected_trajectories", None, "r", "", "1"))
    for path in (lake.paths(NEGATIVES, "000")[0], lake.paths("selection/selected_trajectories")[0]):
        for name in (f"Copy of {path.name}", path.name.replace(".parquet", " (1).parquet"), f"{path.stem}.old.parquet"):
            shutil.copy(path, path.with_name(name))
    database = Database(lake, settings)
    database.publish()
    counts = "select count(*) from labels.hard_negatives union all select count(*) from selection.selected_trajectories"
    with database.reader() as connection, duckdb.connect(str(database.path), read_only=True) as foreign:
        assert connection.sql(counts).fetchall() == foreign.sql(counts).fetchall() == [(1,), (1,)]


def test_what_killed_publishers_left_goes(database):
    left = database.path.with_name(".cpmi.duckdb.5f0c1f2a.cpmi-tmp.wal")
    left.touch()
    database.publish()
    assert not left.exists()


@pytest.mark.parametrize("size", [50_000, 150_000, 250_000])
def test_a_disk_that_fills_up_leaves_no_part_of_a_database(database, lake, full_disk, size):
    lake.write(*negatives("000"))
    with full_disk(size), pytest.raises(StorageError, match=f"{database.path} cannot be written .*make room"):
        database.publish()
    assert not [file for file in database.path.parent.iterdir() if database.path.name in file.name]


def test_a_home_that_cannot_be_written_is_read_as_it_was_published(lake, database, monkeypatch):
    lake.write(*negatives("000"))
    database.publish()
    lake.write(*negatives("001"))

    def refuse(self: Database) -> None:
        raise StorageError("the home cannot be locked (Read-only file system)")

    monkeypatch.setattr(Database, "publish", refuse)
    with database.reader() as connection:
        assert connection.sql(COUNT).fetchall() == [(1,)]
