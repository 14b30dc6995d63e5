"""Locks of processes on several machines, for a home that is not a folder: advisory locks of the profile's PostgreSQL.

lock        pg_try_advisory_lock(hash of "s3://bucket/prefix labels.hard_negatives.003")
freed       when the connection ends, however the process ends

They save work, and say whether a run lives. What is written is right without them: the store refuses a late write. A
profile without PostgreSQL has file locks of its own machine, and other machines may do the same work again.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

from cpmi_dagster.errors import StorageError, first_line
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.files.locks import PATIENCE_SECONDS
from cpmi_dagster.files.whole_files import write_whole
from cpmi_dagster.profiles.postgres import Postgres
from cpmi_dagster.profiles.settings import Settings

FILE_NAME = "shared_locks.json"
CONNECT_SECONDS = 10
POLL_SECONDS = 1.0
LOOK_SECONDS = 5.0
"""Between two looks of a run at whether the connection of its lock is still there."""
# a machine that is lost without a word frees its locks after a minute, not after hours
KEEP_ALIVE = "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3"
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


class SharedLock:
    """A lock that this object holds; closing it, or the end of the process, frees it."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def close(self) -> None:
        """Free the lock."""
        self._connection.close()


class KeptLock(SharedLock):
    """A lock for days: a thread takes it again where the database was restarted, or dropped the idle connection.

    Args:
        retake: a new connection that holds the lock; None where another has it.
    """

    def __init__(self, connection: Any, retake: Callable[[], Any]) -> None:
        super().__init__(connection)
        self._retake = retake
        self._closed = Event()
        self._thread = Thread(target=self._keep, name="kept lock", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Free the lock."""
        self._closed.set()
        self._thread.join()
        super().close()

    def _keep(self) -> None:
        while not self._closed.wait(LOOK_SECONDS):
            try:
                _first(self._connection, "select %s is not null", "")
            except StorageError as error:
                self._take_again(error)

    def _take_again(self, lost: StorageError) -> None:
        """Keep trying; as long as the database is away nobody can find the lock free."""
        self._connection.close()
        try:
            if (connection := self._retake()) is not None:
                self._connection = connection
                LOG.warning("%s; its lock is taken again", lost)
        except StorageError:
            return


@dataclass(frozen=True)
class SharedLocks:
    """The locks of a home.

    Attributes:
        home: its address.
        postgres: the database; None where there is none, and nothing is known of other machines.
    """

    home: str
    postgres: Postgres | None

    def hold(self, name: str) -> SharedLock | None:
        """Take a lock that nobody holds; None where somebody does.

        Raises:
            StorageError: the database does not answer.
        """
        connection = self._holding(name)
        return None if connection is None else SharedLock(connection)

    def keep(self, name: str) -> SharedLock | None:
        """As `hold`, for a lock that must outlive a restart of the database.

        Raises:
            StorageError: the database does not answer.
        """
        connection = self._holding(name)
        return None if connection is None else KeptLock(connection, partial(self._holding, name))

    def _holding(self, name: str) -> Any:
        """A connection that has just taken a lock; None where somebody else holds it."""
        connection = self._connect()
        try:
            if _first(connection, f"select pg_try_advisory_lock({KEY})", self._key(name)):
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        return None

    def is_held(self, name: str) -> bool:
        """Whether somebody holds a lock.

        Raises:
            StorageError: the database does not answer.
        """
        with closing(self._connect()) as connection:
            return _first(connection, HELD, self._key(name))

    @contextmanager
    def locked(self, name: str, say: Callable[[str], object] = LOG.warning) -> Iterator[None]:
        """Hold a lock until the block ends; without a database that answers, the block runs all the same.

        Args:
            say: takes a sentence where somebody else holds the lock for long.
        """
        with closing(self._waited_for(name, say)):
            yield

    def _waited_for(self, name: str, say: Callable[[str], object]) -> SharedLock:
        began, has_said = time.monotonic(), False
        while True:
            try:
                if lock := self.hold(name):
                    return lock
            except StorageError as error:
                say(f"{error}; going on without its lock: other machines may do the same work")
                return _NoLock()
            if not has_said and time.monotonic() - began > PATIENCE_SECONDS:
                say(f"another process makes {name}; waiting until it has finished (Ctrl-C ends the wait)")
                has_said = True
            time.sleep(POLL_SECONDS)

    def _key(self, name: str) -> str:
        return f"{self.home} {name}"

    def _connect(self) -> Any:
        import psycopg2

        postgres = self.postgres
        assert postgres is not None
        try:
            connection = psycopg2.connect(
                host=postgres.host,
                port=postgres.port,
                dbname=postgres.database,
                user=postgres.user,
                password=environment_variable(postgres.password_variable),
                connect_timeout=CONNECT_SECONDS,
                options=KEEP_ALIVE,
            )
        except psycopg2.Error as error:
            raise StorageError(
                f"the database `{postgres.database}` at {postgres.host}:{postgres.port} gives no locks "
                f"({first_line(error)})"
            ) from None
        connection.autocommit = True
        return connection


class _NoLock(SharedLock):
    """What is held where the database does not answer."""

    def __init__(self) -> None:
        super().__init__(None)

    def close(self) -> None:
        """Nothing is held."""


def shared_locks(settings: Settings) -> SharedLocks | None:
    """The locks of a profile's home on an object store; None for a folder, whose locks are its files."""
    return SharedLocks(settings.home, settings.orchestration.postgres) if isinstance(settings.home, str) else None


def note_locks(settings: Settings, folder: Path) -> None:
    """Write down, for processes that do not know the profile, where its locks are.

    Args:
        folder: the home's `dagster`.
    """
    if locks := shared_locks(settings):
        postgres = locks.postgres.model_dump(mode="json") if locks.postgres else None
        write_whole(folder / FILE_NAME, json.dumps({"home": locks.home, "postgres": postgres}))


def noted_locks(folder: Path) -> SharedLocks | None:
    """What `note_locks` wrote; None for a home that is a folder."""
    try:
        noted = json.loads((folder / FILE_NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return SharedLocks(noted["home"], Postgres(**noted["postgres"]) if noted["postgres"] else None)


def _first(connection: Any, sql: str, key: str) -> bool:
    import psycopg2

    try:
        with connection.cursor() as cursor:
            cursor.execute(sql, (key,))
            return bool(cursor.fetchone()[0])
    except psycopg2.Error as error:
        raise StorageError(f"the database of the locks fails ({first_line(error)})") from None
