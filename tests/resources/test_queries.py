"""What a query reaches: the tables of the home. Nothing else is read, and nothing is written."""

import hashlib
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
    "select * from read_text('{}')", "select * from read_blob(['{}', '{}'])", "describe from '{}'", "from glob('{}*')",
    "select * from read_csv('{}', header = false, columns = {'a': 'varchar'})", "select * from read_json('{}')",
    "select * from parquet_metadata('{}')", "from read_duckdb('{}')",
)  # fmt: skip
WRITERS = (
    "copy (select 1 as x) to '{}'", "copy labels.hard_negatives to '{}' (format parquet, overwrite true)",
    "copy labels.hard_negatives from '{}'", "copy from database cpmi to '{}'", "export database '{}'",
    "attach '{}' as other", "load '{}'", "pragma profile_output = '{}'", "set allowed_directories = ['{}']",
    "from enable_logging(storage = 'file', storage_path = '{}')",
)  # fmt: skip
STATEMENTS = (
    "create table labels.mine as select 1", "drop view labels.hard_negatives", "use memory", "begin transaction",
    "insert into memory.cpmi_home values ('/')", "update memory.cpmi_home set home = '/' returning 1", "checkpoint",
    "set enable_external_access = true", "reset allowed_directories", "set lock_configuration = false", "from os",
    "set variable cpmi_home = '/'", "attach ':memory:' as other", "prepare q as select 1", "pragma version",
)  # fmt: skip
WRAPPERS = (
    "{}", "with t as ({}) select * from t", "with t as materialized ({}) select 1", "explain analyze {}",
    "select 1; {}", "{}; select 1", "/* select */ {} -- select", "select * from ({})", "from query('{}')",
    "describe with t as ({}) select * from t", "select 1) union all (with t as ({}) select 1",
)  # fmt: skip


@pytest.fixture(scope="module")
def settings(tmp_path_factory) -> Settings:
    """A profile whose home has one row, beside secrets."""
    folder = tmp_path_factory.mktemp("queries")
    settings = load_settings("miniature", folder / "home")
    put(Lake.of(settings), NEGATIVES, "000", answer="3")
    for place in (settings.home / "dagster", folder / "outside", settings.home / "lake.old"):
        place.mkdir()
        (place / "secret.csv").write_text(SECRET)
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


def test_no_query_reads_or_writes_a_file_calls_an_address_or_changes_anything(settings, connection, monkeypatch):
    root, files = settings.home.parent, targets(settings.home)
    hidden = [*(template.replace("{}", file) for template in WRITERS[:3] for file in files[5:8]), *STATEMENTS]
    hostile = [template.replace("{}", file) for template in READERS + WRITERS for file in files]
    hostile += [
        wrapper.replace("{}", sql.replace("'", "''") if "query(" in wrapper else sql)
        for wrapper in WRAPPERS
        for sql in hidden
    ]
    monkeypatch.chdir(root / "outside")
    before = state(root)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = str(server.getsockname()[1])
        for sql in hostile:
            try:
                shown = str(ask(connection, sql.replace("PORT", port), seconds=5).to_dicts())
            except CpmiError:
                continue
            assert SECRET not in shown and "root:" not in shown and "PATH=" not in shown, sql
        with pytest.raises(BlockingIOError):
            server.accept()
    assert ask(connection, "select answer from labels.hard_negatives").item() == "3"
    assert state(root) == before and not Path("/dev/shm/cpmi-new.csv").exists()


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
    assert [answer(connection, "from range(10)", most_rows=most).has_more for most in (4, 10)] == [True, False]
    assert ask(connection, "select answer from labels.hard_negatives where answer = $a", {"a": "3"}).item() == "3"


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("with t as (copy (select 1) to 'x.csv') select 1", "a query is one statement that only reads, such as"),
        ("from '/etc/x.csv'", "the query failed: it reads the tables of this home, and no other file or address"),
        ("select is_rigt from (select true as is_right)", r"is_rigt.* Did you mean is_right\?"),
        ("from step_rewards", r"step_rewards does not exist.* Did you mean .*labels\.step_rewards\?"),
        ("from nope", r"the query failed: .*nope does not exist! `show tables` lists the tables\."),
        ("select list(range) from range(3000000000)", "the query exceeds the memory limit; ask for fewer rows"),
    ],
)
def test_a_query_that_cannot_be_answered_is_one_clear_sentence(settings, monkeypatch, sql, message):
    monkeypatch.setattr(database, "MOST_MEMORY", 2**28)
    with pytest.raises(CpmiError, match=message):
        query(settings, sql)


def test_a_query_that_takes_too_long_is_stopped_and_the_connection_goes_on(connection):
    slow = "select sum(a.range % b.range) from range(10000000000) a, range(1, 1000) b"
    for sql in (slow, "select * from range(10000000000)"):
        with pytest.raises(CpmiError, match=r"stopped after 0\.2 s; ask for less, or give a longer --timeout"):
            ask(connection, sql, seconds=0.2)
    assert ask(connection, "select 1 as x").item() == 1
