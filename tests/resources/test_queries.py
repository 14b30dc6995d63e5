"""What a query reaches: the tables of the home. Nothing else is read, and nothing is written."""

import hashlib
import itertools
import socket
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from cpmi_dagster.errors import CpmiError
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.lake import database
from cpmi_dagster.resources.lake.database import reader
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.query import answer, ask, query
from tests.resources.test_database import put

NEGATIVES = "labels/hard_negatives"
SECRET = "a-secret-of-this-machine"
READERS = (
    "select * from read_text('{}')", "select * from read_blob(['{}', '{}'])", "from '{}'", "describe from '{}'",
    "select * from read_csv('{}', header = false, columns = {'a': 'varchar'})", "select * from read_json('{}')",
    "select * from parquet_metadata('{}')", "from sniff_csv('{}')", "from glob('{}*')", "from read_duckdb('{}')",
)  # fmt: skip
WRITERS = (
    "copy (select 1 as x) to '{}'", "copy labels.hard_negatives to '{}' (format parquet, overwrite true)",
    "copy (select 1 as x, 2 as y) to '{}' (format csv, partition_by (x), overwrite_or_ignore)",
    "copy labels.hard_negatives from '{}'", "copy from database cpmi to '{}'", "export database '{}'",
    "import database '{}'", "attach '{}' as other", "load '{}'", "pragma profile_output = '{}'",
    "call enable_logging(storage = 'file', storage_path = '{}')", "set temp_directory = '{}'",
    "from enable_logging(storage = 'file', storage_path = '{}')", "set allowed_directories = ['{}']",
    "create persistent secret s (type http, bearer_token '{}')",
)  # fmt: skip
STATEMENTS = (
    "create table labels.mine as select 1", "create table memory.mine as select 1", "drop view labels.hard_negatives",
    "create view labels.mine as select 1", "insert into memory.cpmi_home values ('/')", "drop schema labels cascade",
    "update memory.cpmi_home set home = '/' returning 1", "delete from memory.cpmi_home", "use memory", "checkpoint",
    "set enable_external_access = true", "reset allowed_directories", "set lock_configuration = false", "detach cpmi",
    "set memory_limit = '100GB'", "set variable cpmi_home = '/'", "install httpfs", "load httpfs", "begin transaction",
    "attach ':memory:' as other", "call force_checkpoint()", "prepare q as select 1", "from os", "pragma version",
)  # fmt: skip
WRAPPERS = (
    "{}", "with t as ({}) select * from t", "with t as materialized ({}) select 1", "explain {}", "explain analyze {}",
    "explain (format json) {}", "select 1; {}", "{}; select 1", "/* select */ {} -- select", "select * from ({})",
    "with t as ({}) from labels.hard_negatives union all from t", "describe with t as ({}) select * from t",
    "explain analyze with t as ({}) select 1", "with a as (with t as ({}) select 1) from a", "from query('{}')",
    "select 1) union all (with t as ({}) select 1",
)  # fmt: skip


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A profile whose home has one row, beside secrets."""
    settings = load_settings("miniature", tmp_path / "home")
    put(Lake.of(settings), NEGATIVES, "000", answer="3")
    for folder in (settings.home / "dagster", tmp_path / "outside", settings.home / "lake.old"):
        folder.mkdir()
        (folder / "secret.csv").write_text(SECRET)
    query(settings, "select 1")
    return settings


@pytest.fixture
def connection(settings: Settings) -> Iterator[duckdb.DuckDBPyConnection]:
    with reader(Lake.of(settings), settings) as opened:
        yield opened


def targets(home: Path) -> list[str]:
    """Files of the lake, of the home and outside, by every kind of name."""
    shard, lake = Lake(home).path(NEGATIVES, "000"), f"{home}/lake"
    names = (
        f"{home.parent}/outside/secret.csv", f"file://{home}/dagster/secret.csv", f"{lake}/../dagster/secret.csv",
        f"{lake}.old/secret.csv", f"{lake}/*/../../dagster/secret.csv", f"{lake}/[.][.]/dagster/secret.csv",
        f"{lake}/new.csv", f"{lake}/labels/new", f"file:{lake}/new.csv", f"{home}/cpmi.duckdb", f"{home}/new.csv",
        "secret.csv", "/proc/self/environ", "/etc/passwd", "/dev/shm/cpmi-new.csv", str(shard),
    )  # fmt: skip
    return [*names, *(f"{scheme}://127.0.0.1:PORT/a.csv" for scheme in ("http", "https", "s3"))]


def state(folder: Path) -> dict[str, tuple[int, str]]:
    """Everything below a folder, with its time and the hash of its content."""
    hashed = {path: hashlib.sha256(path.read_bytes() if path.is_file() else b"") for path in folder.rglob("*")}
    return {str(path): (path.stat().st_mtime_ns, digest.hexdigest()) for path, digest in hashed.items()}


@pytest.fixture
def hold(settings, connection, monkeypatch):
    """Runs hostile queries: they fail, or give nothing of what is outside; no file changes, and nobody is called."""
    root = settings.home.parent
    monkeypatch.chdir(root / "outside")
    before = state(root)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)

        def run(sql: str) -> None:
            try:
                shown = str(ask(connection, sql.replace("PORT", str(server.getsockname()[1])), seconds=5).to_dicts())
            except CpmiError:
                return
            assert SECRET not in shown and "root:" not in shown and "PATH=" not in shown, sql

        yield run
        with pytest.raises(BlockingIOError):
            server.accept()
    assert ask(connection, "select answer from labels.hard_negatives").item() == "3"
    assert state(root) == before and not Path("/dev/shm/cpmi-new.csv").exists()


def wrapped(sql: str, wrapper: str) -> str:
    """A query within another, as a text where the other takes it as one."""
    return wrapper.replace("{}", sql.replace("'", "''") if "query(" in wrapper else sql)


def test_no_query_reads_or_writes_a_file_or_calls_an_address(hold, settings):
    for template, target in itertools.product(READERS + WRITERS, targets(settings.home)):
        hold(template.replace("{}", target))


def test_no_writer_is_hidden_in_another_statement(hold, settings):
    copies = [template.replace("{}", target) for template in WRITERS[:3] for target in targets(settings.home)[5:10]]
    for inner, wrapper in itertools.product([*copies, *STATEMENTS], WRAPPERS):
        hold(wrapped(inner, wrapper))


def test_what_only_reads_is_answered_in_every_form(connection):
    forms = (
        "from labels.hard_negatives", "describe labels.hard_negatives", "summarize labels.hard_negatives", "values (1)",
        "explain select 1;", "explain analyze select count(*) from labels.hard_negatives", "select ';' -- why",
        "-- why\n /* how */ EXPLAIN (ANALYZE, format json) from labels.hard_negatives", "show all tables",
        "with t as (select 1 as x) select * from t", "table labels.hard_negatives", "SHOW tables;", "select 1; -- x",
    )  # fmt: skip
    for sql in forms:
        assert answer(connection, sql, most_rows=1).rows.height == 1, sql
    listed = answer(connection, "show tables").rows
    assert {"labels.step_rewards", "reports.paper_comparison"} <= set(listed["relation"])
    assert answer(connection, "from range(10)", most_rows=4).has_more
    assert not answer(connection, "from range(10)", most_rows=10).has_more
    assert ask(connection, "select answer from labels.hard_negatives where answer = $a", {"a": "3"}).item() == "3"


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("with t as (copy (select 1) to 'x.csv') select 1", "a query is one statement that only reads, such as"),
        ("from '/etc/x.csv'", "the query failed: it reads the tables of this home, and no other file or address"),
        ("from step_rewards", r"step_rewards does not exist.* Did you mean .*labels\.step_rewards\?"),
        ("from nope", r"the query failed: .*nope does not exist! `show tables` lists the tables\."),
        ("select list(range) from range(3000000000)", "the query exceeds the memory limit; ask for fewer rows"),
        ("select repeat('x', 20000000) from range(20)", "the query exceeds the memory limit; ask for fewer rows"),
        (f"select {'[' * 200}1{']' * 200}", "a column has a type that cannot be shown; cast it"),
        ("select date '5877642-06-25' as d", r'the column `d` has dates outside of .*; cast it, as in `"d"::varchar`'),
        ("select [timestamp '290000-01-01'] as d", "the column `d` has dates outside of the years 1 to 9999"),
        ("select " + "(" * 20_000 + "1" + ")" * 20_000, "the query failed: .*depth"),
        ("\0", "the query failed: "),
        ("\ud800", "the query failed: "),
    ],
)  # fmt: skip
def test_a_query_that_cannot_be_answered_is_one_clear_sentence(settings, monkeypatch, sql, message):
    monkeypatch.setattr(database, "MOST_MEMORY", 2**28)
    with pytest.raises(CpmiError, match=message):
        query(settings, sql)


def test_a_query_that_takes_too_long_is_stopped_and_the_connection_goes_on(connection):
    with pytest.raises(CpmiError, match=r"stopped after 0\.2 s; ask for less, or give a longer --timeout"):
        ask(connection, "select sum(a.range % b.range) from range(10000000000) a, range(1, 1000) b", seconds=0.2)
    assert ask(connection, "select 1 as x").item() == 1
