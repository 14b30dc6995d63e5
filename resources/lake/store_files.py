"""A home on an object store: files are objects, of which this machine keeps copies.

lake/labels/hard_negatives/000/5f0c….parquet    an object, committed with one PUT that is refused where there is one
files/5f0c…/models/cpmi_bce/config.json         kept for one record, which names it
files/5f0c…/MANIFEST.json                       written last: what was kept is whole
lake/.current/mine.json                         replaced where nobody else has replaced it since it was read
report/index.html                               a copy of the report that was kept last, for people

A file of a table or of a record is what its name says as long as it is there, so that a copy of it is never stale.
Whether it is there says a listing, which serves all names for a second. Files that change are read from the store.
"""

import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import NamedTuple
from uuid import uuid4

from cpmi_dagster.errors import LakeError, StorageError
from cpmi_dagster.files.whole_files import whole_file
from cpmi_dagster.resources.lake.home_files import KEPT, HomeFiles, Size
from cpmi_dagster.resources.lake.object_store import ObjectStore
from cpmi_dagster.resources.lake.packed_folders import PackedFolders

LOG = logging.getLogger(__name__)
LOOK_SECONDS = 1.0
"""How long a listing is trusted."""
LAKE, HIDDEN = "lake", "lake/.~"
MANIFEST = "MANIFEST.json"
TAILS = ".tails"
TOKEN_CHARACTERS = 16
TAIL_BYTES = 2**16
AT_ONCE = 8


class _Listing(NamedTuple):
    """What there was below a folder at a time."""

    sizes: dict[str, Size]
    seen: float


class StoreFiles(HomeFiles):
    """See `HomeFiles`.

    Args:
        objects: the store, below the home's address.
        folder: of this machine, for copies.
    """

    def __init__(self, objects: ObjectStore, folder: Path) -> None:
        super().__init__(folder)
        self._objects = objects
        self._packed = PackedFolders(objects, folder)
        self._listings: dict[str, _Listing] = {}
        self._glances: dict[str, tuple[bytes, float]] = {}
        self._lock = RLock()

    def path(self, name: str) -> Path:
        """See `HomeFiles`.

        Raises:
            LakeError: it was kept for a record, and is not whole any more.
        """
        if not name.startswith(f"{KEPT}/"):
            return self._copy(name)
        manifest = self._copy(f"{_keeping(name)}/{MANIFEST}")
        listed = json.loads(manifest.read_bytes()) if manifest.exists() else []
        wanted = [file for file in listed if file == name or file.startswith(f"{name}/")]
        if not wanted or not all(copy.exists() for copy in self.paths(wanted)):
            raise LakeError(
                f"files of {self._objects.address}/{name} are missing; run `cpmi run --force` for what they belong to"
            )
        return self.folder / name

    def paths(self, names: Sequence[str]) -> list[Path]:
        """See `HomeFiles`."""
        with ThreadPoolExecutor(AT_ONCE, "fetch") as threads:
            return list(threads.map(self._copy, names))

    def tail(self, name: str) -> Path:
        """See `HomeFiles`."""
        copies = self.folder / name, self.folder / TAILS / name
        for copy in copies:
            if copy.exists():
                return copy
        found = self._listing(_scope(name)).get(name)
        if found is None:
            raise FileNotFoundError(name)
        if found.size <= TAIL_BYTES:
            return self._copy(name)
        data = self._objects.read_end(name, found.size, TAIL_BYTES)
        # the last eight bytes of a Parquet file: how long its footer is, and PAR1
        footer = int.from_bytes(data[-8:-4], "little") + 8
        if TAIL_BYTES < footer <= found.size:
            data = self._objects.read_end(name, found.size, footer)
        with whole_file(copies[1]) as unfinished:
            unfinished.write_bytes(data)
        return copies[1]

    def create(self, name: str, data: bytes | bytearray) -> bool:
        """See `HomeFiles`."""
        if not self._objects.create(name, data):
            self.look_again()
            return False
        self._note(name, Size(len(data), time.time()))
        # the object is what counts: without room for a copy it is fetched when it is read
        with suppress(StorageError):
            super().write(name, data)
        return True

    def forget(self, name: str) -> bool:
        """See `HomeFiles`."""
        copies = [copy for copy in (self.folder / name, self.folder / TAILS / name) if copy.exists()]
        for copy in copies:
            copy.unlink(missing_ok=True)
        return bool(copies)

    def read(self, name: str) -> bytes:
        """See `HomeFiles`."""
        return self._objects.read(name)

    def glance(self, name: str) -> bytes:
        """See `HomeFiles`."""
        with self._lock:
            seen = self._glances.get(name)
            if seen is None or time.monotonic() - seen[1] > LOOK_SECONDS:
                now, data = time.monotonic(), self._objects.read(name)
                seen = self._glances[name] = (seen[0] if seen and seen[0] == data else data, now)
            return seen[0]

    def write(self, name: str, data: bytes | bytearray) -> None:
        """See `HomeFiles`."""
        self._objects.write(name, data)
        self.forget(name)
        self._note(name, Size(len(data), time.time()))

    def update(self, name: str, change: Callable[[bytes | None], bytes]) -> None:
        """See `HomeFiles`."""
        while not self._objects.replace(name, change):
            LOG.debug("%s was replaced by another machine", name)
        with self._lock:
            self._glances.pop(name, None)

    def exists(self, name: str) -> bool:
        """See `HomeFiles`."""
        looked_for = f"{_keeping(name)}/{MANIFEST}" if name.startswith(f"{KEPT}/") else name
        return looked_for in self._listing(_scope(looked_for))

    def names(self, folder: str) -> list[str]:
        """See `HomeFiles`."""
        listed = self._listing(_scope(f"{folder}/x"))
        found = (name.removeprefix(f"{folder}/") for name in listed if name.startswith(f"{folder}/"))
        return sorted(name for name in found if "/" not in name and not name.startswith("."))

    def sizes(self, folder: str) -> dict[str, Size]:
        """See `HomeFiles`."""
        return self._objects.sizes(folder)

    def remove(self, names: Sequence[str]) -> None:
        """See `HomeFiles`."""
        self._objects.delete(names)
        for name in names:
            self.forget(name)
        self.look_again()

    def remove_folders(self, folder: str, chosen: Callable[[str], bool]) -> None:
        """See `HomeFiles`."""
        super().remove_folders(folder, chosen)
        found = self._objects.sizes(folder)
        self.remove([name for name in found if chosen(name.removeprefix(f"{folder}/").partition("/")[0])])

    def look_again(self) -> None:
        """See `HomeFiles`."""
        with self._lock:
            self._listings.clear()
            # the bytes stay, so that what was read of them is not read again where they are the same
            self._glances = {name: (data, -LOOK_SECONDS) for name, (data, _) in self._glances.items()}

    def check(self) -> None:
        """See `HomeFiles`."""
        self._objects.check()

    def pull(self, folder: str) -> None:
        """See `HomeFiles`."""
        self._packed.pull(folder)

    def push(self, folder: str, last: str) -> None:
        """See `HomeFiles`."""
        self._packed.push(folder, last)

    def keep(self, paths: Sequence[str]) -> list[str]:
        """See `HomeFiles`."""
        if not paths:
            return []
        keeping = f"{KEPT}/{uuid4().hex[:TOKEN_CHARACTERS]}"
        files = {f"{keeping}/{found}": self.folder / found for path in paths for found in self._files(path)}
        for name, path in files.items():
            self._objects.upload(name, path)
            with whole_file(self.folder / name) as copy:
                _link(path, copy)
        self.create(f"{keeping}/{MANIFEST}", json.dumps(sorted(files), indent=2).encode())
        return [f"{keeping}/{path}" for path in paths]

    def show(self, names: Iterable[str]) -> None:
        """See `HomeFiles`."""
        for name in names:
            if name.startswith(f"{KEPT}/") and (path := self.path(name)).is_file():
                self._objects.upload(name.removeprefix(f"{_keeping(name)}/"), path)

    def _files(self, path: str) -> list[str]:
        place = self.folder / path
        found = [place] if place.is_file() else sorted(filter(Path.is_file, place.rglob("*")))
        return [file.relative_to(self.folder).as_posix() for file in found]

    def _copy(self, name: str) -> Path:
        """The copy of a file, fetched where there is none; of a file that is not there, no copy."""
        path = self.folder / name
        if not path.exists():
            with suppress(FileNotFoundError), whole_file(path) as unfinished:
                self._objects.download(name, unfinished)
        return path

    def _listing(self, scope: str) -> Mapping[str, Size]:
        with self._lock:
            known = self._listings.get(scope)
            if known is None or time.monotonic() - known.seen > LOOK_SECONDS:
                now = time.monotonic()  # what is written while it is listed may not be in it
                sizes = self._objects.sizes(scope, HIDDEN if scope == LAKE else None)
                known = self._listings[scope] = _Listing(sizes, now)
            return known.sizes

    def _note(self, name: str, size: Size) -> None:
        """What is known of an object now, for the listing in which it is."""
        with self._lock:
            if listing := self._listings.get(_scope(name)):
                self._listings[_scope(name)] = listing._replace(sizes={**listing.sizes, name: size})


def _scope(name: str) -> str:
    """The folder whose listing has an object: all tables of the lake are in one."""
    parts = name.split("/")
    if parts[0] == LAKE and not parts[1].startswith("."):
        return LAKE
    return "/".join(parts[:2] if parts[0] == KEPT else parts[:-1])


def _keeping(name: str) -> str:
    return "/".join(name.split("/")[:2])


def _link(path: Path, copy: Path) -> None:
    try:
        os.link(path, copy)
    except OSError:
        shutil.copyfile(path, copy)
