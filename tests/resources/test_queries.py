"""What a query reaches: the tables and the files it was given. Nothing else is read, and nothing is written."""

import hashlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import duckdb
import polars as pl
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cpmi_dagster.errors import CpmiError, SourceError
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.lake import queries, query_process
from cpmi_dagster.resources.lake.database import Database, query
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.queries import answer, ask
from cpmi_dagster.resources.lake.records import FileRecord

NEGATIVES = "labels/hard_negatives"
ROWS = pl.DataFrame({"trajectory_id": ["t1"], "rank": [1], "answer": ["3"], "source": ["model"]})
# a process started in the background of a shell would ignore interrupts
COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from cpmi_dagster.cli import main
main()
"""
SECRET = "a-secret-of-this-machine"
READERS = (
    "select * from read_text('{}')",
    "select * from read_blob('{}')",
    "select * from read_csv('{}', header = false, columns = {{'a': 'varchar'}})",
    "select * from read_json('{}')",
    "select * from read_parquet('{}')",
    "select * from parquet_metadata('{}')",
    "select * from sniff_csv('{}')",
    "select content from read_text(['{}', '{}'])",
    "select * from glob('{}*')",
    "from '{}'",
    "describe select * from '{}'",
    "summarize from read_text('{}')",
)
WRITERS = (
    "copy (select 1 as x) to '{}'",
    "copy (select 1 as x) to '{}' (format parquet, overwrite true)",
    "copy (select 1 as x, 2 as y) to '{}' (format csv, partition_by (x), overwrite_or_ignore)",
    "copy labels.hard_negatives to '{}' (format json)",
    "copy labels.hard_negatives from '{}'",
    "copy from database cpmi to '{}'",
    "export database '{}'",
    "import database '{}'",
    "attach '{}' as other",
    "attach '{}' as other (read_only)",
    "load '{}'",
    "install '{}'",
    "call enable_logging(storage = 'file', storage_path = '{}')",
    "pragma profile_output = '{}'",
    "set log_query_path = '{}'",
    "set temp_directory = '{}'",
    "set allowed_directories = ['{}']",
    "create persistent secret s (type http, bearer_token '{}')",
)
STATEMENTS = (
    "create table labels.mine as select 1",
    "create temp table mine as select 1",
    "create view labels.mine as select 1",
    "insert into labels.hard_negatives select * from labels.hard_negatives",
    "delete from reports.headline",
    "update reports.headline set measured = 0",
    "drop view labels.hard_negatives",
    "drop schema labels cascade",
    "set enable_external_access = true",
    "set disabled_filesystems = ''",
    "reset disabled_filesystems",
    "set lock_configuration = false",
    "set memory_limit = '100GB'",
    "set variable cpmi_home = '/'",
    "set python_enable_replacements = true",
    "install httpfs",
    "load httpfs",
    "force install spatial",
    "attach ':memory:' as other",
    "checkpoint",
    "vacuum",
    "detach cpmi",
    "use memory",
    "begin transaction",
    "pragma enable_profiling",
    "call force_checkpoint()",
    "prepare q as select 1",
    "select * from os",
    "select * from sys",
)
WRAPPERS = (
    "{}",
    "with t as ({}) select * from t",
    "with t as materialized ({}) select 1",
    "explain {}",
    "explain analyze {}",
    "explain (format json) {}",
    "select 1; {}",
    "{}; select 1",
    "/* select */ {} -- select",
    "select * from ({})",
    "select * from query('{}')",
    "select (select count(*) from ({}))",
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    lake = Lake(tmp_path / "home", "miniature")
    lake.write(ROWS, FileRecord(NEGATIVES, "000", "r", "m", "1"))
    Database(lake, load_settings("miniature", lake.home)).publish()
    (tmp_path / "home" / "dagster").mkdir()
    (tmp_path / "home" / "dagster" / "secret.txt").write_text(SECRET)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text(SECRET)
    pl.DataFrame({"x": [SECRET]}).write_parquet(tmp_path / "outside" / "secret.parquet")
    (lake.root / ".work").mkdir()
    (lake.root / ".work" / "secret.txt").write_text(SECRET)
    return lake.home


def targets(home: Path) -> list[str]:
    """Files of the lake, of the home and outside, by every kind of name."""
    outside, shard = home.parent / "outside", Lake(home, "miniature").paths(NEGATIVES, "000")[0]
    return [
        str(outside / "secret.txt"),
        f"file://{outside}/secret.parquet",
        f"{home}/../outside/secret.txt",
        str(shard),
        str(home / "cpmi.duckdb"),
        str(home / "new.csv"),
        "secret.txt",
        f"lake:///lake/{shard.relative_to(home / 'lake')}",
        "lake:///lake/new.parquet",
        "lake:///lake/labels/hard_negatives/../../../dagster/secret.txt",
        "lake:///dagster/secret.txt",
        "lake:///lake/.work/secret.txt",
        f"lake://{outside}/secret.txt",
        "lake:///files/secret.txt",
        "lake:///../outside/secret.txt",
        "/proc/self/environ",
        "/etc/passwd",
        "/dev/shm/new.csv",
    ]


def state(folder: Path) -> dict[str, tuple[int, str]]:
    """Every file below a folder, hidden ones included, with its time and the hash of its content."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(p): (p.stat().st_mtime_ns, hashlib.sha256(p.read_bytes()).hexdigest()) for p in files}


def hold(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Run a hostile query: it fails, or gives nothing of what is outside."""
    try:
        shown = str(ask(connection, sql, seconds=5).to_dicts())
    except CpmiError:
        return
    assert SECRET not in shown and "root:" not in shown and "PATH=" not in shown, sql


@pytest.fixture
def hostile(home: Path) -> Iterator[Callable[[str], None]]:
    """Runs queries; when all have run, no file has changed and nobody was called."""
    before, shared = state(home.parent), set(Path("/dev/shm").glob("new*"))
    with socket.create_server(("127.0.0.1", 0)) as server, Database(Lake(home, "miniature")).reader() as connection:
        server.setblocking(False)
        port = server.getsockname()[1]
        yield lambda sql: hold(connection, sql.replace("PORT", str(port)))
        with pytest.raises(BlockingIOError):
            server.accept()
        assert connection.sql("select answer from labels.hard_negatives").fetchall() == [("3",)]
    assert state(home.parent) == before
    assert set(Path("/dev/shm").glob("new*")) == shared


def test_no_query_reads_or_writes_a_file_outside_or_changes_the_lake(hostile, home, monkeypatch):
    monkeypatch.chdir(home.parent / "outside")
    asked = [template.replace("{}", target) for template in READERS + WRITERS for target in targets(home)]
    for sql in asked:
        hostile(sql.replace("{{", "{").replace("}}", "}"))
    assert len(asked) > 500


def wrapped(sql: str, wrapper: str) -> str:
    """A query within another, as a text where the other takes it as one."""
    return wrapper.replace("{}", sql.replace("'", "''") if "query(" in wrapper else sql)


def test_no_writer_is_hidden_in_another_statement(hostile, home):
    copies = [template.replace("{}", target) for template in WRITERS[:5] for target in targets(home)]
    for inner, wrapper in itertools.product([*copies, *STATEMENTS], WRAPPERS):
        hostile(wrapped(inner, wrapper))


@pytest.mark.slow
def test_ten_thousand_hostile_queries_change_nothing_and_read_nothing_outside(hostile, home):
    files = [template.replace("{}", target) for template in READERS + WRITERS for target in targets(home)]
    asked = [wrapped(sql, wrapper) for sql, wrapper in itertools.product(files, WRAPPERS)]
    twice = itertools.product(STATEMENTS, WRAPPERS, WRAPPERS)
    asked += [wrapped(wrapped(sql, inner), outer) for sql, inner, outer in twice]
    for sql in asked:
        hostile(sql)
    assert len(asked) > 10_000


def test_no_address_is_called(hostile):
    for address in ("http://127.0.0.1:PORT/a.parquet", "https://127.0.0.1:PORT/a.csv", "s3://127.0.0.1:PORT/b/a.json"):
        for template in (*READERS, *WRITERS):
            hostile(template.replace("{}", address))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.sampled_from(WRAPPERS), max_size=3),
    st.sampled_from(READERS + WRITERS),
    st.sampled_from(range(18)),
    st.text("'\"\\;-/*\0\n\t é$", max_size=3),
)
def test_nested_hostile_queries_change_nothing(hostile, home, wrappers, template, target, noise):
    sql = template.replace("{}", targets(home)[target]) + noise
    for wrapper in wrappers:
        sql = wrapped(sql, wrapper)
    hostile(sql)


def test_a_copy_into_the_lake_says_that_a_query_only_reads(home):
    with Database(Lake(home, "miniature")).reader() as connection:
        for place in ("lake:///lake/new.csv", str(home / "lake" / "new.csv")):
            with pytest.raises(CpmiError, match=r"a query only reads|reads the tables of this home"):
                ask(connection, f"with t as (copy (select 1 as x) to '{place}') select 1")
            with pytest.raises(CpmiError, match="one statement that only reads"):
                ask(connection, f"explain analyze copy (select 1) to '{place}'")


def test_what_only_reads_is_answered_in_every_form(home):
    forms = (
        "from labels.hard_negatives",
        "describe labels.hard_negatives",
        "summarize labels.hard_negatives",
        "explain select 1",
        "explain analyze select count(*) from labels.hard_negatives",
        "-- why\n /* how */ EXPLAIN (ANALYZE, format json) from labels.hard_negatives",
        "show all tables",
        "values (1)",
        "with t as (select 1 as x) select * from t",
        "table labels.hard_negatives",
    )
    with Database(Lake(home, "miniature")).reader() as connection:
        for sql in forms:
            assert ask(connection, sql).height, sql


def test_a_query_that_takes_too_long_is_stopped(home):
    endless = "select count(*) from range(10000000000) a, range(1000) b where (a.range * b.range) % 7 = 3"
    with Database(Lake(home, "miniature")).reader() as connection:
        with pytest.raises(CpmiError, match=r"stopped after 0\.2 s; ask for less, or give a longer --timeout"):
            ask(connection, endless, seconds=0.2)
        assert ask(connection, "select 1 as x").item() == 1


@pytest.mark.parametrize(
    "sql",
    [
        "select list(range) from range(3000000000)",
        "select sum(length(repeat('x' || range, 500000000))) from range(3000)",
        "select repeat('x', 400000000) from range(20)",
    ],
)
def test_a_query_that_takes_too_much_memory_fails_alone(home, monkeypatch, sql):
    monkeypatch.setattr(queries, "MOST_MEMORY", 2**28)
    monkeypatch.setattr(queries, "MOST_OF_PROCESS", 2**29)
    with pytest.raises(CpmiError, match=r"the query exceeds the memory limit|too much memory"):
        query(load_settings("miniature", home), sql)


LONG_CALLS = {
    "one call of a function": "select levenshtein(repeat('a', 1000000), repeat('b', 1000000))",
    "planning": " union all ".join(["select 1 as x"] * 20_000),
}


def answering(process: psutil.Process | None = None) -> list[psutil.Process]:
    """The processes of queries that a process, by default this one, has started."""
    found = []
    for child in (process or psutil.Process()).children():
        with suppress(psutil.NoSuchProcess):  # a helper that has just ended, zombies included
            if query_process.__name__ in child.cmdline():
                found.append(child)
    return found


@pytest.mark.parametrize("sql", LONG_CALLS.values(), ids=LONG_CALLS)
def test_a_query_that_duckdb_does_not_interrupt_is_stopped(home, sql):
    with pytest.raises(CpmiError, match=r"stopped after 0\.3 s; ask for less, or give a longer --timeout"):
        query(load_settings("miniature", home), sql, seconds=0.3)
    assert not answering()


def begun(home: Path) -> tuple[subprocess.Popen[bytes], psutil.Process]:
    """A `cpmi query` that takes minutes, and the process in which DuckDB works on it."""
    arguments = ["query", LONG_CALLS["one call of a function"], "--timeout", "600"]
    environment = {**os.environ, "CPMI_HOME": str(home)}
    command = subprocess.Popen([sys.executable, "-c", COMMAND, *arguments], env=environment)
    while not (processes := answering(psutil.Process(command.pid))) or processes[0].cpu_times().user < 2:
        assert command.poll() is None
        time.sleep(0.1)
    return command, processes[0]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_no_process_is_left_of_a_command_that_is_ended(home, number, code):
    command, process = begun(home)
    command.send_signal(number)
    assert command.wait(60) == code
    process.wait(60)


def test_a_query_whose_process_is_killed_is_an_error_of_ours(home):
    def kill() -> None:
        while not (processes := answering()):
            time.sleep(0.05)
        processes[0].kill()

    threading.Thread(target=kill).start()
    with pytest.raises(CpmiError, match=r"the query ended its process \(SIGKILL\).*; ask for less"):
        query(load_settings("miniature", home), LONG_CALLS["one call of a function"])


@pytest.mark.parametrize("depth", [200, 20_000])
@pytest.mark.parametrize(("before", "after"), [("[", "]"), ("{'a': ", "}"), ("map {1: ", "}")])
def test_a_query_that_is_nested_too_deep_is_an_error_of_ours(home, depth, before, after):
    with pytest.raises(CpmiError):
        query(load_settings("miniature", home), f"select {before * depth}1{after * depth}")


@pytest.mark.parametrize(
    "sql", ["select " + "(" * 20_000 + "1" + ")" * 20_000, "select " + "1+" * 50_000 + "1", "\0", "\ud800"]
)
def test_a_query_that_no_parser_takes_is_an_error_of_ours(home, sql):
    with Database(Lake(home, "miniature")).reader() as connection, pytest.raises(CpmiError):
        ask(connection, sql)


@pytest.mark.parametrize(
    "value",
    ["date '5877642-06-25'", "[timestamp '290000-01-01']", "{'a': date '-infinity'}", "timestamptz '0044-03-15 (BC)'"],
)
def test_a_column_with_dates_that_python_does_not_know_is_named(home, value):
    with pytest.raises(CpmiError, match=r'^the column `d` has dates outside of .*; cast it, as in `"d"::varchar`$'):
        query(load_settings("miniature", home=home), f"select {value} as d")
    rows = query(load_settings("miniature", home=home), f"select ({value})::varchar as d").rows
    assert rows.schema == {"d": pl.String}


def test_rows_beyond_the_limit_are_left_out_and_said_so(home):
    with Database(Lake(home, "miniature")).reader() as connection:
        cut = answer(connection, "select * from range(10)", most_rows=4)
        whole = answer(connection, "select * from range(10)", most_rows=10)
        assert (cut.rows.height, cut.has_more) == (4, True)
        assert (whole.rows.height, whole.has_more) == (10, False)
        assert answer(connection, "explain select 1", most_rows=10).rows.height == 1


def test_show_tables_lists_the_tables_of_every_schema(home):
    with Database(Lake(home, "miniature")).reader() as connection:
        listed = answer(connection, "SHOW tables;").rows
    assert {"labels.step_rewards", "reports.paper_comparison", "alignment.trajectories"} <= set(listed["relation"])
    assert listed["meaning"].null_count() == 0


def test_a_table_without_its_schema_is_suggested_with_it(home):
    with (
        Database(Lake(home, "miniature")).reader() as connection,
        pytest.raises(CpmiError, match=r"step_rewards does not exist.* Did you mean labels\.step_rewards\?"),
    ):
        ask(connection, "from step_rewards")


def test_tables_of_duckdb_itself_are_not_suggested(home):
    with (
        Database(Lake(home, "miniature")).reader() as connection,
        pytest.raises(CpmiError, match=r"nope does not exist! `show tables` lists the tables\."),
    ):
        ask(connection, "from nope")


def test_what_is_wrong_with_a_file_that_is_given_is_said_by_its_own_name(home):
    settings = load_settings("miniature", home)
    (damaged := home.parent / "damaged.json").write_text("no JSON")
    with pytest.raises(CpmiError, match=r'Malformed JSON in file "damaged\.json"'):
        query(settings, "from damaged", files=[damaged])
    with pytest.raises(CpmiError, match="is a folder; --file accepts"):
        query(settings, "from damaged", files=[home.parent])


def test_a_file_that_is_given_is_read_and_no_other_beside_it(home):
    rows, other = home.parent / "rows.jsonl", home.parent / "other.jsonl"
    rows.write_text(json.dumps({"id": "t1", "mine": 7}))
    other.write_text(json.dumps({"id": SECRET}))
    settings = load_settings("miniature", home)
    joined = "select r.mine from rows r join labels.hard_negatives n on n.trajectory_id = r.id"
    assert query(settings, joined, files=[rows]).rows.item() == 7
    for place in (str(other), "lake:///files/other.jsonl"):
        with pytest.raises(CpmiError):
            query(settings, f"from '{place}'", files=[rows])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["nowhere.jsonl"], "there is no file"),
        (["rows.txt"], "the format of .*rows.txt is not known"),
        (["rows.csv", "rows.jsonl"], "are both `rows`"),
        (["b*d.csv"], "has a name that a query cannot use"),
        (["broken.parquet"], "broken.parquet cannot be read"),
    ],
)
def test_files_that_cannot_be_given_are_named(home, names, message):
    for name in ("rows.csv", "rows.jsonl", "rows.txt", "b*d.csv", "broken.parquet"):
        (home.parent / name).write_text("a\n1\n")
    before = (home / "cpmi.duckdb").stat().st_ino
    with pytest.raises(SourceError, match=message):
        query(load_settings("miniature", home), "select 1", files=[home.parent / name for name in names])
    assert (home / "cpmi.duckdb").stat().st_ino == before
