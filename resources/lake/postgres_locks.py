"""Advisory locks of PostgreSQL: all locks of a process are on one connection.

lock         pg_try_advisory_lock(hash of "s3://bucket/prefix labels.hard_negatives.003")
freed        when the connection ends, however the process ends
taken again  on a new connection, where the database was restarted or dropped the idle one
"""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from threading import RLock, Thread
from typing import Any

from cpmi_dagster.errors import StorageError, first_line
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.profiles.postgres import Postgres

CONNECT_SECONDS = 10
LOOK_SECONDS = 5.0
"""Between two checks of the connection that has the locks."""
# a machine that disappears frees its locks after a minute, not after hours
SERVER_OPTIONS = "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3"
# a server that disappears is given up after 25 seconds
CLIENT_OPTIONS: Mapping[str, Any] = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
HASH = "hashtextextended(%s, 0)"
TRY, UNLOCK = f"select pg_try_advisory_lock({HASH})", f"select pg_advisory_unlock({HASH})"
HELD = f"""
    select exists (
        select 1 from pg_locks, (select {HASH} as hash) wanted
        where locktype = 'advisory' and granted and objsubid = 1
        and database = (select oid from pg_database where datname = current_database())
        and ((classid::bigint << 32) | objid::bigint) = wanted.hash
    )
"""
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class SharedLock:
    """A lock that this process holds; `close`, or the end of the process, frees it."""

    close: Callable[[], None]


class Session:
    """The locks of this process in a database. A thread takes them again where their connection was lost.

    Every method raises `StorageError` where the database does not answer, except when a lock is freed.
    """

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._connection: Any = None
        self._is_ours: dict[str, bool] = {}
        """Of each lock that this process holds, whether the connection has it."""
        self._turn = RLock()
        self._watcher = Thread(target=self._watch, name="locks of PostgreSQL", daemon=True)

    def take(self, key: str) -> SharedLock | None:
        """Take a lock; None where somebody holds it, in this process or another."""
        with self._turn:
            if key in self._is_ours or not self._ask(TRY, key):
                return None
            self._is_ours[key] = True
            if not self._watcher.is_alive():
                self._watcher.start()
            return SharedLock(partial(self._free, key))

    def is_held(self, key: str) -> bool:
        """Whether somebody holds a lock, in this process or another."""
        return self._ask(HELD, key)

    def _free(self, key: str) -> None:
        with self._turn:
            if self._is_ours.pop(key, False):
                with suppress(StorageError):
                    self._ask(UNLOCK, key)

    def _ask(self, sql: str, key: str) -> bool:
        """The answer to a query; where the connection was lost, on a new one that has taken the locks again."""
        with self._turn:
            if self._connection is not None:
                with suppress(StorageError):
                    return _first(self._connection, sql, key)
                self._connection.close()
                self._connection = None
            self._connection = _connect(self._postgres)
            self._is_ours = dict.fromkeys(self._is_ours, False)
            self._retake()
            for name, is_ours in self._is_ours.items():
                found = "it is taken again" if is_ours else "another process holds it now, and does the same work"
                LOG.warning("the connection to PostgreSQL was lost, and with it the lock `%s`: %s", name, found)
            return _first(self._connection, sql, key)

    def _retake(self) -> None:
        for key, is_ours in self._is_ours.items():
            self._is_ours[key] = is_ours or _first(self._connection, TRY, key)

    def _watch(self) -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            with self._turn, suppress(StorageError):
                if self._is_ours:
                    self._ask("select %s is not null", "")
                    self._retake()


@lru_cache
def session_of(postgres: Postgres) -> Session:
    """The locks of this process in a database."""
    return Session(postgres)


def _connect(postgres: Postgres) -> Any:
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
        raise StorageError(f"the database of the locks failed ({first_line(error)})") from None
