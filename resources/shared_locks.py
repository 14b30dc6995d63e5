"""Locks of processes on several machines, for a home that is not a folder: advisory locks of the profile's PostgreSQL.

SharedLocks("s3://bucket/prefix", postgres).hold("labels.hard_negatives.003")     None where another process has it

They save work, and say whether a run lives. What is written is right without them: the store refuses a late write. A
profile without PostgreSQL has file locks of its own machine, and other machines may do the same work again.

A process has one connection for the files that it makes, and one for each run that it executes.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from cpmi_dagster.errors import StorageError
from cpmi_dagster.files.locks import PATIENCE_SECONDS
from cpmi_dagster.files.whole_files import write_whole
from cpmi_dagster.profiles.postgres import Postgres
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.postgres_locks import SharedLock, is_held, keep, session_of

FILE_NAME = "shared_locks.json"
POLL_SECONDS = 1.0
LOG = logging.getLogger(__name__)


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
        return session_of(self._database).take(self._key(name))  # pyright: ignore[reportArgumentType]

    def keep(self, name: str) -> SharedLock | None:
        """As `hold`, for a lock that must outlive a restart of the database.

        Raises:
            StorageError: the database does not answer.
        """
        return keep(self._database, self._key(name), name)

    def is_held(self, name: str) -> bool:
        """Whether somebody holds a lock.

        Raises:
            StorageError: the database does not answer.
        """
        return is_held(self._database, self._key(name))

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

    @property
    def _database(self) -> Postgres:
        assert self.postgres is not None
        return self.postgres


class _NoLock:
    """What is held where the database does not answer."""

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
