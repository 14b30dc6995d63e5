"""A home is a folder, or an address on an object store: its files are opened here."""

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

from cpmi_dagster.files.places import local_folder
from cpmi_dagster.files.whole_files import cannot_be_written, whole_file
from cpmi_dagster.resources.lake.home_files import HomeFiles, Version, remove_folders


class FolderFiles(HomeFiles):
    """A home that is a folder: every name is a path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """See `HomeFiles`."""
        return self.folder / name

    def tail(self, name: str) -> Path:
        """See `HomeFiles`."""
        return self.folder / name

    def exists(self, name: str) -> bool:
        """See `HomeFiles`."""
        return (self.folder / name).exists()

    def names(self, folder: str) -> list[str]:
        """See `HomeFiles`."""
        return sorted(path.name for path in (self.folder / folder).glob("[!.]*"))

    def version(self, name: str) -> Version | None:
        """See `HomeFiles`."""
        return None

    def commit(self, name: str, data: bytes | bytearray, over: Version | None = None) -> None:
        """See `HomeFiles`."""
        with whole_file(self.folder / name) as unfinished:
            unfinished.write_bytes(data)

    def put_aside(self, name: str, aside: str) -> str:
        """See `HomeFiles`."""
        place = self.folder / aside
        try:
            place.parent.mkdir(exist_ok=True)
            os.replace(self.folder / name, place)
        except OSError as error:
            raise cannot_be_written(place, error) from error
        return str(place)

    def remove(self, folder: str, chosen: Callable[[str], bool]) -> None:
        """See `HomeFiles`."""
        remove_folders(self.folder / folder, chosen)

    def fetch(self, folder: str, name: str = "", deep: bool = True) -> None:
        """See `HomeFiles`."""

    def forget(self, name: str) -> bool:
        """See `HomeFiles`."""
        return False

    def pull(self, folder: str) -> None:
        """See `HomeFiles`."""

    def push(self, folder: str, last: str) -> None:
        """See `HomeFiles`."""

    def look_again(self) -> None:
        """See `HomeFiles`."""

    def check(self) -> None:
        """See `HomeFiles`."""

    def keep(self, paths: Sequence[str]) -> list[str]:
        """See `HomeFiles`."""
        return list(paths)

    def drop(self, names: Iterable[str]) -> None:
        """See `HomeFiles`."""

    def show(self, names: Iterable[str]) -> None:
        """See `HomeFiles`."""


def open_home(home: Path | str) -> HomeFiles:
    """The files of a home.

    Args:
        home: a folder, or the address of an object store.
    """
    return FolderFiles(home) if isinstance(home, Path) else _open_store(home, local_folder(home))


@cache
def _open_store(address: str, folder: Path) -> HomeFiles:
    """One for all of a process: what was seen and checked is known to all who use the home."""
    from cpmi_dagster.resources.lake.object_store import ObjectStore
    from cpmi_dagster.resources.lake.store_files import StoreFiles

    return StoreFiles(ObjectStore(address), folder)
