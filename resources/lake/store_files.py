"""A home on an object store: files are objects, of which this machine keeps copies.

lake/labels/hard_negatives/shard=003.parquet    an object, committed with one PUT; a copy of it is read
files/5f0c…/models/cpmi_bce/config.json         kept for one record: never replaced, and named by it
files/5f0c…/MANIFEST.json                       written last: what was kept is whole
report/index.html                               a copy of the report that was kept last, for people

A record's PUT commits its rows, what made them, and with the names of what was kept for it also weights and reports. It
is refused where somebody else has written since its making began. This holds for tables alone: chunks, paces, model
cards and the copy of the report are written over whatever is there.

A copy is used after a look at the store: a listing, which serves all names for a second.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from uuid import uuid4

from cpmi_dagster.errors import LakeError, StorageError
from cpmi_dagster.resources.lake.home_files import NOTHING, HomeFiles, LateWrite, Version
from cpmi_dagster.resources.lake.local_copies import NOTES, LocalCopies
from cpmi_dagster.resources.lake.object_store import Entry, ObjectStore
from cpmi_dagster.resources.lake.packed_folders import PackedFolders

LOOK_SECONDS = 1.0
"""How long a listing is trusted."""
LAKE, HIDDEN = "lake", "lake/.~"
KEPT, MANIFEST = "files", "MANIFEST.json"
TOP = "/"
TOKEN_CHARACTERS = 16
TAIL_BYTES = 2**16
AT_ONCE = 8


@dataclass
class _Listing:
    """What there was below a folder at a time."""

    entries: dict[str, Entry]
    seen: float

    def is_fresh(self) -> bool:
        return time.monotonic() - self.seen < LOOK_SECONDS


class StoreFiles(HomeFiles):
    """See `HomeFiles`.

    Args:
        objects: the store, below the home's address.
        folder: of this machine, for copies.
    """

    def __init__(self, objects: ObjectStore, folder: Path) -> None:
        self.folder = folder
        self._objects = objects
        self._copies = LocalCopies(folder)
        self._tails = LocalCopies(folder / NOTES / "tails", "notes")
        self._packed = PackedFolders(objects, folder)
        self._listings: dict[str, _Listing] = {}
        self._aside: dict[str, Version] = {}
        self._lock = RLock()

    def path(self, name: str) -> Path:
        """See `HomeFiles`."""
        if name.startswith(f"{KEPT}/") and self._entry(name) is None:
            return self._kept_folder(name)
        entry = self._entry(name)
        if entry is None:
            return self.folder / NOTES / "absent" / name
        if self._copies.is_current(name, entry.version):
            return self._copies.path(name)
        try:
            return self._copies.keep(name, lambda path: self._download(name, path), entry.modified)
        except FileNotFoundError:
            self.look_again()
            return self.folder / NOTES / "absent" / name

    def tail(self, name: str) -> Path:
        """See `HomeFiles`."""
        for _ in range(3):
            entry = self._entry(name)
            if entry is None:
                raise FileNotFoundError(name)
            if entry.size <= TAIL_BYTES or self._copies.is_current(name, entry.version):
                return self.path(name)
            if self._tails.is_current(name, entry.version):
                return self._tails.path(name)
            with suppress(LateWrite):
                return self._tails.keep(name, lambda path, found=entry: self._download_tail(name, path, found))
            self.look_again()
        raise LakeError(f"{name} keeps being replaced while it is read; run again")

    def exists(self, name: str) -> bool:
        """See `HomeFiles`."""
        if name.startswith(f"{KEPT}/"):
            return self._entry(f"{_keeping(name)}/{MANIFEST}") is not None
        return self._entry(name) is not None

    def names(self, folder: str) -> list[str]:
        """See `HomeFiles`."""
        found = (name.removeprefix(f"{folder}/") for name in self._entries(folder) if self._entry(name))
        return sorted(name for name in found if "/" not in name and not name.startswith("."))

    def version(self, name: str) -> Version | None:
        """See `HomeFiles`."""
        entry = self._objects.entry(name)
        self._note(name, entry)
        return entry.version if entry else NOTHING

    def commit(self, name: str, data: bytes | bytearray, over: Version | None = None) -> None:
        """See `HomeFiles`."""
        try:
            version = self._objects.write(name, data, over)
        except LateWrite:
            self.look_again()
            raise
        self._note(name, Entry(version, len(data), time.time()))
        # the object is what counts: without room for a copy it is fetched when it is read
        with suppress(StorageError):
            self._copies.keep(name, lambda path: (path.write_bytes(data), version)[1])

    def put_aside(self, name: str, aside: str) -> str:
        """See `HomeFiles`."""
        entry, data = self._entry(name), self.path(name).read_bytes()
        self._objects.write(aside, data)
        if entry is not None:
            # the object stays until the next commit replaces just this version of it
            self._aside[name] = entry.version
        return f"{self._objects.address}/{aside}"

    def remove(self, folder: str, chosen: Callable[[str], bool]) -> None:
        """See `HomeFiles`."""
        self._copies.remove_folders(folder, chosen)
        found = self._objects.entries(folder)
        self._objects.delete([name for name in found if chosen(_first(name, folder))])
        with self._lock:
            for scope in [scope for scope in self._listings if scope.startswith(f"{folder}/")]:
                del self._listings[scope]

    def fetch(self, folder: str, name: str = "", deep: bool = True) -> None:
        """See `HomeFiles`."""

        def is_wanted(path: str) -> bool:
            return path.endswith(f"/{name}" if name else "") and (deep or path.rpartition("/")[0] == folder)

        found = set(filter(is_wanted, self._entries(folder)))
        with ThreadPoolExecutor(AT_ONCE, "fetch") as threads:
            list(threads.map(self.path, found))
        for copy in list(filter(is_wanted, self._copies.names(folder))):
            # a copy that is newer than the listing stays
            if copy not in found and _is_seen(copy, folder) and self._objects.entry(copy) is None:
                self._copies.remove(copy)

    def forget(self, name: str) -> bool:
        """See `HomeFiles`."""
        had = [copies.version(name) is not None for copies in (self._copies, self._tails)]
        for copies in (self._copies, self._tails):
            copies.remove(name)
        return any(had)

    def pull(self, folder: str) -> None:
        """See `HomeFiles`."""
        self._packed.pull(folder)

    def push(self, folder: str, last: str) -> None:
        """See `HomeFiles`."""
        self._packed.push(folder, last)

    def look_again(self) -> None:
        """See `HomeFiles`."""
        with self._lock:
            self._listings.clear()

    def check(self) -> None:
        """See `HomeFiles`."""
        self._objects.check()

    def keep(self, paths: Sequence[str]) -> list[str]:
        """See `HomeFiles`."""
        if not paths:
            return []
        keeping = f"{KEPT}/{uuid4().hex[:TOKEN_CHARACTERS]}"
        files = {f"{keeping}/{found}": self.folder / found for path in paths for found in self._files(path)}
        for name, path in files.items():
            version = self._objects.upload(name, path)
            self._copies.keep(name, lambda copy, path=path, version=version: (_link(path, copy), version)[1])
        self._objects.write(f"{keeping}/{MANIFEST}", json.dumps(sorted(files), indent=2).encode(), NOTHING)
        return [f"{keeping}/{path}" for path in paths]

    def drop(self, names: Iterable[str]) -> None:
        """See `HomeFiles`."""
        for keeping in {_keeping(name) for name in names if name.startswith(f"{KEPT}/")}:
            self._objects.delete(list(self._objects.entries(keeping)))
            self._copies.remove(keeping)
            self._listings.pop(keeping, None)

    def show(self, names: Iterable[str]) -> None:
        """See `HomeFiles`."""
        for name in names:
            if name.startswith(f"{KEPT}/") and (path := self.path(name)).is_file():
                self._objects.upload(name.removeprefix(f"{_keeping(name)}/"), path)

    def _files(self, path: str) -> list[str]:
        place = self.folder / path
        found = [place] if place.is_file() else sorted(filter(Path.is_file, place.rglob("*")))
        return [file.relative_to(self.folder).as_posix() for file in found]

    def _kept_folder(self, name: str) -> Path:
        """The copy of a kept folder, all of its files fetched."""
        entries, keeping = self._entries(name), _keeping(name)
        manifest = self._entry(f"{keeping}/{MANIFEST}")
        listed = json.loads(self.path(f"{keeping}/{MANIFEST}").read_bytes()) if manifest else []
        wanted = [file for file in listed if file.startswith(f"{name}/")]
        if not wanted or not entries.keys() >= set(wanted):
            raise LakeError(
                f"files of {self._objects.address}/{name} are missing; run `cpmi run --force` for what they belong to"
            )
        for file in wanted:
            self.path(file)
        return self._copies.path(name)

    def _download(self, name: str, path: Path) -> Version:
        entry = self._objects.download(name, path)
        self._note(name, entry)
        return entry.version

    def _download_tail(self, name: str, path: Path, entry: Entry) -> Version:
        data = self._objects.read_end(name, entry, TAIL_BYTES)
        # the last eight bytes of a Parquet file: how long its footer is, and PAR1
        footer = int.from_bytes(data[-8:-4], "little") + 8
        if TAIL_BYTES < footer <= entry.size:
            data = self._objects.read_end(name, entry, footer)
        path.write_bytes(data)
        return entry.version

    def _entry(self, name: str) -> Entry | None:
        entry = self._listing(_scope(name)).get(name)
        return None if entry is None or entry.version.is_same(self._aside.get(name)) else entry

    def _entries(self, folder: str) -> dict[str, Entry]:
        """The objects below a folder, hidden ones of the lake only where the folder is hidden."""
        found = self._listing(_scope(f"{folder}/x"))
        return {name: entry for name, entry in found.items() if name.startswith(f"{folder}/")}

    def _listing(self, scope: str) -> Mapping[str, Entry]:
        with self._lock:
            known = self._listings.get(scope)
            if known is None or not known.is_fresh():
                now = time.monotonic()  # what is written while it is listed may not be in it
                known = self._listings[scope] = _Listing(self._list(scope), now)
            return known.entries

    def _list(self, scope: str) -> dict[str, Entry]:
        if scope.startswith(TOP):
            name = scope.removeprefix(TOP)
            entry = self._objects.entry(name)
            return {name: entry} if entry else {}
        return self._objects.entries(scope, HIDDEN if scope == LAKE else None)

    def _note(self, name: str, entry: Entry | None) -> None:
        """What is known of an object now, for the listing in which it is."""
        with self._lock:
            listing = self._listings.get(_scope(name))
            if listing is not None:
                listing.entries = {**listing.entries, name: entry} if entry else _without(listing.entries, name)
            if entry is None or not entry.version.is_same(self._aside.get(name)):
                self._aside.pop(name, None)


def _scope(name: str) -> str:
    """The folder whose listing has an object: all tables of the lake are in one; objects at the top are asked for."""
    parts = name.split("/")
    if parts[0] == LAKE and len(parts) > 1 and not parts[1].startswith("."):
        return LAKE
    if len(parts) == 1:
        return f"{TOP}{name}"
    return "/".join(parts[:2] if parts[0] == KEPT else parts[:-1])


def _is_seen(name: str, folder: str) -> bool:
    """Whether a listing of a folder would have an object."""
    return _scope(f"{folder}/x") != LAKE or _scope(name) == LAKE


def _first(name: str, folder: str) -> str:
    """The first part of a name below a folder."""
    return name.removeprefix(f"{folder}/").partition("/")[0]


def _keeping(name: str) -> str:
    return "/".join(name.split("/")[:2])


def _without(entries: Mapping[str, Entry], name: str) -> dict[str, Entry]:
    return {other: entry for other, entry in entries.items() if other != name}


def _link(path: Path, copy: Path) -> None:
    try:
        os.link(path, copy)
    except OSError:
        shutil.copyfile(path, copy)
