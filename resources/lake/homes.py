"""A home is a folder, or an address on an object store: its files are opened here."""

from functools import cache
from pathlib import Path

from cpmi_dagster.files.places import local_folder
from cpmi_dagster.resources.lake.home_files import HomeFiles


def open_home(home: Path | str) -> HomeFiles:
    """The files of a home.

    Args:
        home: a folder, or the address of an object store.
    """
    return HomeFiles(home) if isinstance(home, Path) else _open_store(home, local_folder(home))


@cache
def _open_store(address: str, folder: Path) -> HomeFiles:
    """One for all of a process: what was seen and checked is known to all who use the home."""
    from cpmi_dagster.resources.lake.object_store import ObjectStore
    from cpmi_dagster.resources.lake.store_files import StoreFiles

    return StoreFiles(ObjectStore(address), folder)
