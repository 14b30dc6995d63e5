"""Folders of a home on an object store, each one object: a checkpoint is there whole, of one machine, or not at all.

lake/.work/models/m/all-1f0c…/checkpoints/checkpoint-40/         in the local folder, as the trainer writes and reads it
lake/.work/models/m/all-1f0c…/checkpoints/checkpoint-40.tar      the object

Machines that train the same model without shared locks may write the same checkpoint: one of the two is there, no mix.
Each removes those it has had and no longer has, so that none takes away what another goes on from.
"""

import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path

from cpmi_dagster.files.whole_files import written_at_once
from cpmi_dagster.resources.lake.object_store import ObjectStore

ENDING = ".tar"


class PackedFolders:
    """The folders of a local folder, and their objects.

    Args:
        folder: the local folder of the home.
    """

    def __init__(self, objects: ObjectStore, folder: Path) -> None:
        self._objects = objects
        self._folder = folder
        self._had: dict[str, set[str]] = {}

    def pull(self, folder: str) -> None:
        """Unpack those that are not here."""
        for name in self._stored(folder):
            self._note(folder, name)
            place = self._folder / folder / name
            if not place.exists():
                self._unpack(f"{folder}/{name}{ENDING}", place)

    def push(self, folder: str, last: str) -> None:
        """Commit those that are whole and not stored, and remove those that were here and no longer are."""
        here = {path.parent.name for path in (self._folder / folder).glob(f"*/{last}")}
        stored = self._stored(folder)
        for name in sorted(here - stored):
            # whoever writes them removes old ones when it pleases
            with suppress(FileNotFoundError):
                self._pack(self._folder / folder / name, f"{folder}/{name}{ENDING}")
                self._note(folder, name)
        gone = self._had.get(folder, set()) - here
        self._objects.delete([f"{folder}/{name}{ENDING}" for name in sorted(gone & stored)])

    def _stored(self, folder: str) -> set[str]:
        names = (name.removeprefix(f"{folder}/") for name in self._objects.sizes(folder))
        return {name.removesuffix(ENDING) for name in names if name.endswith(ENDING) and "/" not in name}

    def _note(self, folder: str, name: str) -> None:
        self._had.setdefault(folder, set()).add(name)

    def _pack(self, place: Path, name: str) -> None:
        with tempfile.TemporaryDirectory(dir=place.parent) as room:
            packed = Path(room) / place.name
            with tarfile.open(packed, "w") as archive:
                archive.add(place, ".")
            self._objects.upload(name, packed)

    def _unpack(self, name: str, place: Path) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as room:
            packed = Path(room) / place.name
            try:
                self._objects.download(name, packed)
            except FileNotFoundError:
                return  # another machine has just removed it
            with written_at_once(place) as unfinished, tarfile.open(packed) as archive:
                archive.extractall(unfinished, filter="data")
