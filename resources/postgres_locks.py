"""Advisory locks of PostgreSQL: one connection a process for many short ones, and one for each that is kept for days.

lock        pg_try_advisory_lock(hash of "s3://bucket/prefix labels.hard_negatives.003")
freed       when the connection ends, however the process ends
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from threading import Event, RLock, Thread
from typing import Any, Protocol

from cpmi_dagster.errors import StorageError, first_line
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.profiles.postgres import Postgres

CONNECT_SECONDS = 10
LOOK_SECONDS = 5.0
"""Between two looks of a run at whether the connection of its lock is still there."""
CLOSE_SECONDS = 5.0
# a machine that is lost without a word frees its locks after a minute, not after hours
SERVER_OPTIONS = "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3"
# a server that is lost likewise is given up after as long
CLIENT_OPTIONS: Mapping[str, Any] = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
KEY = "hashtextextended(%s, 0)"
HELD = f"""
    select exists (
        select 1 from pg_locks, (select {KEY} as key) wanted
        where locktype = 'advisory' and granted and objsubid = 1
        and database = (select oid from pg_database where datname = current_database())
        and ((classid::bigint << 32) | objid::bigint) = wanted.key
    )
"""
LOG = logging.getLogger(__name__)


class SharedLock(Protocol):
    """A lock that this object holds; closing it, or the end of the process, frees it."""

    def close(self) -> None:
        """Free the lock."""


class KeptLock:
    """A lock for days: a thread takes it again where the database was restarted, or dropped the idle connection.

    Args:
        name: of the lock, for messages.
        retake: a new connection that holds the lock; None where another has it.
    """

    def __init__(self, name: str, connection: Any, retake: Callable[[], Any]) -> None:
        self._name = name
        self._connection = connection
        self._retake = retake
        self._is_with_another = False
        self._closed = Event()
        self._thread = Thread(target=self._keep, name="kept lock", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Free the lock."""
        self._closed.set()
        # a server that no longer answers is not waited for
        self._thread.join(CLOSE_SECONDS)

    def _keep(self) -> None:
        while not self._closed.wait(LOOK_SECONDS):
            try:
                _first(self._connection, "select %s is not null", "")
            except StorageError as error:
                self._take_again(error)
        self._connection.close()

    def _take_again(self, lost: StorageError) -> None:
        """Keep trying; as long as the database is away nobody can find the lock free."""
        self._connection.close()
        try:
            connection = self._retake()
        except StorageError:
            return
        if connection is not None:
            self._connection = connection
            LOG.warning("%s; the lock of the %s is taken again", lost, self._name)
        elif not self._is_with_another:
            LOG.warning("%s; another process holds the lock of the %s now, and does the same work", lost, self._name)
        self._is_with_another = connection is None


class Session:
    """The locks of this process in a database, all on one connection, which is there while one is held."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._connection: Any = None
        self._held: set[str] = set()
        self._turn = RLock()

    def take(self, key: str) -> SharedLock | None:
        """Take a lock; None where somebody holds it, in this process or another."""
        with self._turn:
            if key in self._held:
                return None
            if not self._held:
                self._connection = self._connect()
            try:
                is_ours = _first(self._connection, f"select pg_try_advisory_lock({KEY})", key)
            except StorageError:
                # the locks it held are free; they only save work, and the next one has a new connection
                self._end()
                raise
            if is_ours:
                self._held.add(key)
                return _SessionLock(partial(self._free, key, self._connection))
            if not self._held:
                self._end()
            return None

    def _free(self, key: str, connection: Any) -> None:
        with self._turn:
            if connection is not self._connection or key not in self._held:
                return
            self._held.remove(key)
            with suppress(StorageError):
                _first(connection, f"select pg_advisory_unlock({KEY})", key)
            if not self._held:
                self._end()

    def _end(self) -> None:
        self._held.clear()
        self._connection.close()


@dataclass(frozen=True)
class _SessionLock:
    """A lock of a session."""

    close: Callable[[], None]


@lru_cache
def session_of(postgres: Postgres) -> Session:
    """The locks of this process in a database."""
    return Session(partial(_connection, postgres))


def keep(postgres: Postgres, key: str, name: str) -> SharedLock | None:
    """Take a lock on a connection of its own, which outlives a restart of the database; None where another has it.

    Args:
        name: of the lock, for messages.

    Raises:
        StorageError: the database does not answer.
    """
    take = partial(_holding, postgres, key)
    connection = take()
    return None if connection is None else KeptLock(name, connection, take)


def is_held(postgres: Postgres, key: str) -> bool:
    """Whether somebody holds a lock.

    Raises:
        StorageError: the database does not answer.
    """
    with closing(_connection(postgres)) as connection:
        return _first(connection, HELD, key)


def _holding(postgres: Postgres, key: str) -> Any:
    """A connection that has just taken a lock; None where somebody else holds it."""
    connection = _connection(postgres)
    try:
        if _first(connection, f"select pg_try_advisory_lock({KEY})", key):
            return connection
    except BaseException:
        connection.close()
        raise
    connection.close()
    return None


def _connection(postgres: Postgres) -> Any:
    import psycopg2

    try:
        connection = psycopg2.connect(
            host=postgres.host,
            port=postgres.port,
            dbname=postgres.database,
            user=postgres.user,
            password=environment_variable(postgres.password_variable),
            connect_timeout=CONNECT_SECONDS,
            options=SERVER_OPTIONS,
            **CLIENT_OPTIONS,
        )
    except psycopg2.Error as error:
        raise StorageError(
            f"the database `{postgres.database}` at {postgres.host}:{postgres.port} does not provide locks "
            f"({first_line(error)})"
        ) from None
    connection.autocommit = True
    return connection


def _first(connection: Any, sql: str, key: str) -> bool:
    import psycopg2

    try:
        with connection.cursor() as cursor:
            cursor.execute(sql, (key,))
            return bool(cursor.fetchone()[0])
    except psycopg2.Error as error:
        raise StorageError(f"the locks' database failed ({first_line(error)})") from None
