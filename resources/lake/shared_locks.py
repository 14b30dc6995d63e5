"""Locks of processes on several machines, for a home that is not a folder: advisory locks of the profile's PostgreSQL.

SharedLocks("s3://bucket/prefix", postgres).hold("labels.hard_negatives.003")     None where another process has it

They save work, and say whether a run lives. What is written is right without them: the store refuses a late write. A
profile without PostgreSQL has file locks of its own machine, and other machines may do the same work again.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from cpmi_dagster.errors import StorageError
from cpmi_dagster.files.locks import PATIENCE_SECONDS
from cpmi_dagster.files.whole_files import write_whole
from cpmi_dagster.profiles.postgres import Postgres
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.postgres_locks import Session, SharedLock, session_of

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
        return self._session.take(f"{self.home} {name}")

    def is_held(self, name: str) -> bool:
        """Whether somebody holds a lock.

        Raises:
            StorageError: the database does not answer.
        """
        return self._session.is_held(f"{self.home} {name}")

    @contextmanager
    def locked(self, name: str, say: Callable[[str], object] = LOG.warning) -> Iterator[None]:
        """Hold a lock until the block ends; without a database that answers, the block runs all the same.

        Args:
            say: takes a sentence where somebody else holds the lock for long.
        """
        lock, began, has_said = None, time.monotonic(), False
        try:
            while (lock := self.hold(name)) is None:
                if not has_said and time.monotonic() - began > PATIENCE_SECONDS:
                    say(f"another process makes {name}; waiting until it has finished (Ctrl-C ends the wait)")
                    has_said = True
                time.sleep(POLL_SECONDS)
        except StorageError as error:
            say(f"{error}; going on without its lock: other machines may do the same work")
        with closing(lock) if lock else nullcontext():
            yield

    @property
    def _session(self) -> Session:
        assert self.postgres is not None
        return session_of(self.postgres)  # pyright: ignore[reportArgumentType]


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
