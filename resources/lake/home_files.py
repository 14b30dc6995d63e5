"""The files of a home, by their names: one way to read and commit them, whether the home is a folder or a bucket.

lake/labels/hard_negatives/shard=003.parquet      in `.cpmi/mine/`, or an object `s3://bucket/prefix/lake/labels/…`

Whoever uses a home's files asks for a name's local path, and commits bytes under a name; see `store_files` for what
that is on an object store. What makes sense on one machine alone lies in `folder`, whatever the home is.
"""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from cpmi_dagster.errors import LakeError


class Version(NamedTuple):
    """Which bytes a name has: what the store says of them; empty for none."""

    e_tag: str = ""
    number: str | None = None

    def is_same(self, other: "Version | None") -> bool:
        """Whether these are the same bytes; some stores write ETags with quotes here and without them there."""
        return other is not None and self.e_tag.strip('"') == other.e_tag.strip('"')


NOTHING = Version()


class LateWrite(LakeError):
    """Somebody else has committed a file since this process looked at it."""


class HomeFiles(ABC):
    """Reads and commits the files of a home.

    Attributes:
        folder: of this machine; local copies have the paths below it that the files have in the home.
    """

    folder: Path

    @abstractmethod
    def path(self, name: str) -> Path:
        """The path of a file, or of a current copy of it; where it would be if there is none."""

    @abstractmethod
    def tail(self, name: str) -> Path:
        """The path of a file of which the last bytes, with a Parquet file's footer, are current.

        Raises:
            FileNotFoundError: there is none.
        """

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether there is a file, or a folder that was kept."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, without the folder's, in order; hidden ones are left out."""

    @abstractmethod
    def version(self, name: str) -> Version | None:
        """What there is under a name now, to be given to `commit`; None where no one else can replace it unseen."""

    @abstractmethod
    def commit(self, name: str, data: bytes | bytearray, over: Version | None = None) -> None:
        """Put a file in place, whole or not at all.

        Args:
            over: the version it is to replace; any where it is None.

        Raises:
            LateWrite: there is another version by now.
            StorageError: it cannot be written.
        """

    @abstractmethod
    def put_aside(self, name: str, aside: str) -> str:
        """Move a file that cannot be used out of the way, and say where it lies; `commit` may replace it."""

    @abstractmethod
    def remove(self, folder: str, chosen: Callable[[str], bool]) -> None:
        """Remove the folders of a folder whose names are chosen."""

    @abstractmethod
    def fetch(self, folder: str, name: str = "", deep: bool = True) -> None:
        """Bring the local copies of the files below a folder up to date.

        Args:
            name: of the files; all by default.
            deep: those in folders of the folder too.
        """

    @abstractmethod
    def forget(self, name: str) -> bool:
        """Remove the local copy of a file, so that it is fetched again; False where there is none."""

    @abstractmethod
    def pull(self, folder: str) -> None:
        """Bring the folders that `push` committed below a folder to the local one."""

    @abstractmethod
    def push(self, folder: str, last: str) -> None:
        """Commit the folders below a local folder that are whole, and remove those that are no longer there.

        Args:
            last: the file that is written last in each.
        """

    @abstractmethod
    def look_again(self) -> None:
        """Have what was seen a moment ago looked up again."""

    @abstractmethod
    def check(self) -> None:
        """Find out, once a process, whether files can be committed safely.

        Raises:
            StorageError: they cannot; the message says why.
        """

    @abstractmethod
    def keep(self, paths: Sequence[str]) -> list[str]:
        """Keep files and folders that were made in `folder`, for a record that is about to be committed.

        Returns:
            The names under which they are kept.
        """

    @abstractmethod
    def drop(self, names: Iterable[str]) -> None:
        """Remove what was kept for a record that was not committed, or is replaced."""

    @abstractmethod
    def show(self, names: Iterable[str]) -> None:
        """Put kept files, now that their record is committed, where people look for them."""


def remove_folders(folder: Path, chosen: Callable[[str], bool]) -> None:
    """Remove the folders of a folder whose names are chosen."""
    for path in folder.glob("*"):
        if chosen(path.name):
            shutil.rmtree(path, ignore_errors=True)
