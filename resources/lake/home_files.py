"""The files of a home, by their names: one way to read and commit them, whether the home is a folder or a bucket.

lake/labels/hard_negatives/000/5f0c….parquet      in `.cpmi/mine/`, or an object `s3://bucket/prefix/lake/labels/…`

Most files never change once they are there: `create`, then `path`. The few that do (lists of files, chunks, paces) are
read and written whole. What makes sense on one machine alone lies in `folder`, whatever the home is.
"""

import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cpmi_dagster.files.file_states import by_state
from cpmi_dagster.files.whole_files import whole_file

KEPT = "files"
"""Where a home on a store has what rows point at: weights, reports."""


class Size(NamedTuple):
    """Of a file: its bytes, and when it was written, in seconds since 1970."""

    size: int
    modified: float


class HomeFiles:
    """Reads and commits the files of a home; of this class, of one that is a folder.

    Attributes:
        folder: of this machine; local copies have the paths below it that the files have in the home.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    # files that never change

    def path(self, name: str) -> Path:
        """The path of a file, or of a copy of it; where it would be if there is none."""
        return self.folder / name

    def paths(self, names: Sequence[str]) -> list[Path]:
        """The paths of files of tables, or of copies of them, which are fetched at once."""
        return [self.folder / name for name in names]

    def tail(self, name: str) -> Path:
        """The path of a file of which the last bytes, with a Parquet file's footer, are there.

        Raises:
            FileNotFoundError: there is none; on a folder, once it is read.
        """
        return self.folder / name

    def create(self, name: str, data: bytes | bytearray) -> bool:
        """Put a new file in place, whole or not at all; False where there is one of this name already.

        On a folder the caller holds a lock.

        Raises:
            StorageError: it cannot be written.
        """
        if (self.folder / name).exists():
            return False
        self.write(name, data)
        return True

    def forget(self, name: str) -> bool:
        """Remove the local copy of a file, so that it is fetched again; False where there is none."""
        return False

    # files that change

    def read(self, name: str) -> bytes:
        """The bytes of a file as it is now.

        Raises:
            FileNotFoundError: there is none.
        """
        return (self.folder / name).read_bytes()

    def glance(self, name: str) -> bytes:
        """The bytes of a file as it was a second ago at most: the same object as long as they are the same.

        Raises:
            FileNotFoundError: there is none.
        """
        return _bytes_of(self.folder / name)

    def write(self, name: str, data: bytes | bytearray) -> None:
        """Put a file in place, whole or not at all, over whatever is there.

        Raises:
            StorageError: it cannot be written.
        """
        with whole_file(self.folder / name) as unfinished:
            unfinished.write_bytes(data)

    def update(self, name: str, change: Callable[[bytes | None], bytes]) -> None:
        """Replace a file by what becomes of its bytes; where another machine replaces it meanwhile, of the new ones.

        On a folder the caller holds a lock.

        Args:
            change: from the bytes that are there, None for no file.
        """
        found: bytes | None = None
        with suppress(FileNotFoundError):
            found = self.read(name)
        self.write(name, change(found))

    # all files

    def exists(self, name: str) -> bool:
        """Whether there is a file, or a folder that was kept."""
        return (self.folder / name).exists()

    def names(self, folder: str) -> list[str]:
        """The names in a folder, without the folder's, in order; hidden ones are left out."""
        return sorted(path.name for path in (self.folder / folder).glob("[!.]*"))

    def sizes(self, folder: str) -> dict[str, Size]:
        """The files below a folder, by their names in the home."""
        found = {}
        for path in (self.folder / folder).rglob("*"):
            # others may remove them meanwhile
            with suppress(FileNotFoundError):
                if path.is_file():
                    state = path.stat()
                    found[path.relative_to(self.folder).as_posix()] = Size(state.st_size, state.st_mtime)
        return found

    def remove(self, names: Sequence[str]) -> None:
        """Remove files; those that are not there are not missed."""
        for name in names:
            (self.folder / name).unlink(missing_ok=True)

    def remove_folders(self, folder: str, chosen: Callable[[str], bool]) -> None:
        """Remove the folders of a folder whose names are chosen."""
        for path in (self.folder / folder).glob("*"):
            if chosen(path.name):
                shutil.rmtree(path, ignore_errors=True)

    def look_again(self) -> None:
        """Have what was seen a moment ago looked up again."""

    def check(self) -> None:
        """Find out, once a process, whether files can be committed safely.

        Raises:
            StorageError: they cannot; the message says why.
        """

    # folders that are made here

    def pull(self, folder: str) -> None:
        """Bring the folders that `push` committed below a folder to the local one."""

    def push(self, folder: str, last: str) -> None:
        """Commit the folders below a local folder that are whole, and remove those that are no longer there.

        Args:
            last: the file that is written last in each.
        """

    def keep(self, paths: Sequence[str]) -> list[str]:
        """Keep files and folders that were made in `folder`, for a record that is about to be committed.

        Returns:
            The names under which they are kept.
        """
        return list(paths)

    def show(self, names: Iterable[str]) -> None:
        """Put kept files, now that their record is committed, where people look for them."""


@by_state
def _bytes_of(path: Path) -> bytes:
    return path.read_bytes()
