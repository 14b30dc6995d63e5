"""Copies of objects on the disk of this machine, each with the version of the object that it is a copy of.

~/.cache/cpmi-dagster/bucket-prefix-5f0c1f2a/lake/labels/hard_negatives/shard=003.parquet
                                   …/.store/copies/lake/labels/hard_negatives/shard=003.parquet.json    version, state

A copy counts only where the file is in the state that is written down beside it: processes may fetch, replace and be
killed at the same time, and none takes one version for another.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from cpmi_dagster.files.whole_files import whole_file, write_whole
from cpmi_dagster.resources.lake.home_files import Version, remove_folders

NOTES = Path(".store")
ENDING = ".json"


class LocalCopies:
    """The copies in a folder.

    Args:
        kind: of copies, where a folder has several.
    """

    def __init__(self, folder: Path, kind: str = "copies") -> None:
        self._folder = folder
        self._notes = folder / NOTES / kind

    def path(self, name: str) -> Path:
        """Where the copy of an object lies."""
        return self._folder / name

    def is_current(self, name: str, version: Version) -> bool:
        """Whether there is a copy of this version."""
        return version.is_same(self.version(name))

    def version(self, name: str) -> Version | None:
        """The version of which there is a copy; None where there is none."""
        try:
            noted = json.loads(self._note(name).read_text(encoding="utf-8"))
            is_same = noted["state"] == _state(self.path(name))
            return Version(*noted["version"]) if is_same else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, name: str, write: Callable[[Path], Version], modified: float | None = None) -> Path:
        """Write a copy, in place of an older one.

        Args:
            write: writes it, and says which version it is.
            modified: when the object was written.

        Raises:
            StorageError: there is no room for it.
        """
        path = self.path(name)
        with whole_file(path) as unfinished:
            version = write(unfinished)
            if modified is not None:
                os.utime(unfinished, (modified, modified))
            # of the file itself: under its name there may be another process's the next moment
            state = _state(unfinished)
        self._write_note(name, version, state)
        return path

    def note(self, name: str, version: Version) -> None:
        """Take the file that lies in a copy's place for one of this version."""
        self._write_note(name, version, _state(self.path(name)))

    def _write_note(self, name: str, version: Version, state: list[int]) -> None:
        write_whole(self._note(name), json.dumps({"version": list(version), "state": state}))

    def names(self, folder: str) -> Iterator[str]:
        """The objects below a folder of which there are copies."""
        for note in (self._notes / folder).rglob(f"*{ENDING}"):
            yield note.relative_to(self._notes).as_posix().removesuffix(ENDING)

    def remove(self, name: str) -> None:
        """Remove a copy, or all below a folder."""
        for path in (self.path(name), self._notes / name):
            shutil.rmtree(path, ignore_errors=True)
        for path in (self._note(name), self.path(name)):
            path.unlink(missing_ok=True)

    def remove_folders(self, folder: str, chosen: Callable[[str], bool]) -> None:
        """Remove the folders of a folder whose names are chosen, and all in them."""
        for place in (self._folder / folder, self._notes / folder):
            remove_folders(place, chosen)

    def _note(self, name: str) -> Path:
        return self._notes / f"{name}{ENDING}"


def _state(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_ino, found.st_size, found.st_mtime_ns]
