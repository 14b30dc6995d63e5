"""Locks of several machines: a database frees them with the connection, and without one work goes on."""

import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import dagster as dg
import pytest

from cpmi_dagster.profiles.postgres import Postgres
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag import run_life
from cpmi_dagster.resources.dag.run_life import hold_run, is_orphaned
from cpmi_dagster.resources.lake import postgres_locks, shared_locks
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.postgres_locks import Session
from cpmi_dagster.resources.lake.shared_locks import SharedLocks, note_locks, noted_locks

sys.path.append(str(Path(__file__).resolve().parents[2] / "performance"))
from postgres_server import programs, temporary_server
from waiting import wait_until

HOME, TABLE = "s3://bucket/home", "labels/hard_negatives"
LONG = 120
UNREACHED = Postgres(host="127.0.0.1", port=9)
needs_server = pytest.mark.skipif(programs() is None, reason="PostgreSQL is not installed (apt-get install postgresql)")
HOLD_AND_DIE = """
import os, sys
from cpmi_dagster.profiles.postgres import Postgres
from cpmi_dagster.resources.lake.shared_locks import SharedLocks
lock = SharedLocks(sys.argv[1], Postgres(host="127.0.0.1", port=int(sys.argv[2]))).hold("table")
print(lock is not None, flush=True)
os._exit(9)
"""


@pytest.fixture(scope="module")
def server():
    with temporary_server() as found:
        yield found


@pytest.fixture
def postgres(server, monkeypatch) -> Postgres:
    monkeypatch.setenv("PG_PASSWORD", server.password)
    return Postgres(host="127.0.0.1", port=server.port)


@needs_server
def test_a_lock_is_held_by_one_and_free_when_it_is_closed(postgres):
    one, other = SharedLocks(HOME, postgres), SharedLocks(HOME, postgres)
    machine = Session(postgres)
    with closing(one.hold("table")):
        assert machine.take(f"{HOME} table") is None
        assert other.hold("table") is None
        assert other.is_held("table")
        assert not other.is_held("another table")
        assert not SharedLocks("s3://bucket/another", postgres).is_held("table")
    assert not other.is_held("table")


@needs_server
def test_a_lock_is_free_when_its_process_is_gone(postgres):
    command = [sys.executable, "-c", HOLD_AND_DIE, HOME, str(postgres.port)]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stdout == "True\n"
    locks = SharedLocks(HOME, postgres)
    wait_until(lambda: not locks.is_held("table"), LONG, "the server does not notice that the process has gone")
    with closing(locks.hold("table")) as lock:
        assert lock is not None


@needs_server
def test_many_locks_of_a_process_take_one_connection(postgres):
    session = Session(postgres)
    before = _connections(postgres)
    locks = [session.take(f"shard {number}") for number in range(200)]
    assert all(locks)
    assert session.take("shard 7") is None
    assert _connections(postgres) <= before + 1
    for lock in locks:
        lock.close()
    assert not session.is_held("shard 7")


OTHERS = "from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"


def _connections(postgres: Postgres) -> int:
    """Of other processes and objects than the one that asks."""
    with closing(postgres_locks._connect(postgres)) as connection, connection.cursor() as cursor:
        cursor.execute(f"select count(*) {OTHERS}")
        return cursor.fetchone()[0]


def _drop_connections(postgres: Postgres) -> None:
    """End those of others, and return when they have ended."""
    with closing(postgres_locks._connect(postgres)) as connection, connection.cursor() as cursor:
        cursor.execute(f"select pg_terminate_backend(pid, {LONG * 1000}) {OTHERS}")


@needs_server
def test_two_machines_make_a_file_one_after_the_other_and_the_wait_is_said(postgres, monkeypatch, tmp_path):
    monkeypatch.setenv("CPMI_CACHE", str(tmp_path))
    monkeypatch.setattr(shared_locks, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(shared_locks, "POLL_SECONDS", 0.05)
    lakes = [Lake(HOME, "miniature", locks=SharedLocks(HOME, postgres)) for _ in range(2)]
    seen, said = [], []

    def second() -> None:
        with lakes[1].making(TABLE, "000", said.append):
            seen.append("second")

    thread = threading.Thread(target=second)
    with lakes[0].making(TABLE, "000"):
        thread.start()
        while not said:
            thread.join(0.05)
        seen.append("first")
    thread.join()
    assert seen == ["first", "second"]
    assert "another process makes labels.hard_negatives.000" in said[0]


def test_without_a_database_that_answers_work_goes_on_and_says_so():
    said, done = [], []
    with SharedLocks(HOME, UNREACHED).locked("table", said.append):
        done.append(True)
    assert done
    assert "does not provide locks" in said[0]
    assert "other machines may do the same work" in said[0]


def test_the_password_is_not_in_what_is_noted(tmp_path, monkeypatch):
    monkeypatch.setenv("PG_PASSWORD", "not-in-any-file")
    monkeypatch.setenv("CPMI_ORCHESTRATION__POSTGRES__HOST", "127.0.0.1")
    settings = load_settings("miniature", HOME)
    note_locks(settings, tmp_path)
    assert noted_locks(tmp_path) == SharedLocks(HOME, settings.orchestration.postgres)
    assert "not-in-any-file" not in (tmp_path / shared_locks.FILE_NAME).read_text()
    note_locks(load_settings("miniature", tmp_path / "folder"), tmp_path / "other")
    assert noted_locks(tmp_path / "other") is None


class Record:
    """A run that began long ago, as Dagster records it."""

    def __init__(self, run_id: str) -> None:
        self.dagster_run, self.start_time = dg.DagsterRun("job", run_id=run_id), 1.0


@needs_server
def test_a_run_of_another_machine_lives_as_long_as_it_holds_its_lock(postgres, tmp_path, monkeypatch):
    monkeypatch.setattr(run_life, "noted_locks", lambda _: SharedLocks(HOME, postgres))
    record = Record("0b0b0b0b-0000-0000-0000-000000000000")
    with closing(hold_run(tmp_path / "one machine", record.dagster_run.run_id)):
        assert not is_orphaned(tmp_path / "another machine", record)
    wait_until(lambda: is_orphaned(tmp_path / "another machine", record), LONG, "the lock of the run stays")


@needs_server
def test_locks_are_taken_again_when_the_database_has_dropped_their_connection(postgres, monkeypatch):
    monkeypatch.setattr(postgres_locks, "LOOK_SECONDS", 0.1)
    session, other = Session(postgres), Session(postgres)
    with closing(session.take("run")):
        _drop_connections(postgres)
        wait_until(lambda: other.is_held("run"), LONG, "the lock is not taken again")
        _drop_connections(postgres)
        assert session.take("table"), "a new lock needs no lost connection"
        assert other.is_held("run")
    assert not other.is_held("run")


@needs_server
def test_a_lock_that_another_process_has_taken_is_reported_once_and_taken_back_when_it_is_free(
    postgres, monkeypatch, caplog
):
    session, other = Session(postgres), Session(postgres)
    with closing(session.take("run")):
        session._connection.close()
        with closing(other.take("run")):
            monkeypatch.setattr(postgres_locks, "LOOK_SECONDS", 0.05)
            wait_until(lambda: "another process holds it now" in caplog.text, LONG, "it is not said")
        wait_until(lambda: other.is_held("run"), LONG, "the lock is not taken back")
    assert caplog.text.count("another process holds it now") == 1


@needs_server
def test_a_run_whose_lock_was_lost_for_a_moment_is_not_orphaned_and_all_are_waited_for_at_once(
    postgres, tmp_path, monkeypatch
):
    looks, waits, lives, orphan = iter([True, True, False, True]), [], Record("lives"), Record("orphan")
    monkeypatch.setattr(run_life, "noted_locks", lambda _: SharedLocks(HOME, postgres))
    monkeypatch.setattr(run_life, "is_orphaned", lambda *_: next(looks))
    monkeypatch.setattr(run_life.time, "sleep", waits.append)
    assert run_life.orphaned(tmp_path, [lives, orphan]) == [orphan]
    assert waits == [run_life.SECONDS_TO_RETAKE_LOCK]


def test_without_a_database_no_run_of_another_machine_is_taken_for_orphaned(tmp_path, monkeypatch):
    monkeypatch.setattr(run_life, "noted_locks", lambda _: SharedLocks(HOME, None))
    record = Record("0b0b0b0b-0000-0000-0000-000000000000")
    assert not is_orphaned(tmp_path, record)
    with closing(hold_run(tmp_path, record.dagster_run.run_id)):
        assert not is_orphaned(tmp_path, record)
