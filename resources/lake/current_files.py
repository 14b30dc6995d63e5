"""Which files a profile reads: a list in the home, by table and partition, each file with the parts of it that count.

lake/.current/mine.json     [["labels/hard_negatives", "003", {"5f0c….parquet": ["1", "2"]}], …]
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from cpmi_dagster.errors import LakeError, first_line
from cpmi_dagster.files.file_states import by_state
from cpmi_dagster.files.whole_files import write_whole
from cpmi_dagster.resources.lake.parts import WHOLE, is_in_parts

LAKE = "lake"
CURRENT = f"{LAKE}/.current"
ENDING = ".json"
KNOWN_LISTS = 8
Place = tuple[str, str | None]
"""A table, and a partition of it."""
Entry = Mapping[str, Sequence[str]]
"""The files of a partition that are read, each with the parts of it that count."""
Counted = Mapping[Place, Entry]


class CurrentFiles:
    """The list of a profile.

    Args:
        home: its folder.
        asked: the parts of a table that are read; all by default.
    """

    def __init__(self, home: Path, profile: str, asked: Callable[[str], Sequence[str]] | None = None) -> None:
        self._home = home
        self._path = home / CURRENT / f"{profile}{ENDING}"
        self._asked = asked
        self._seen: tuple[Counted | None, Counted] = None, {}

    @property
    def counted(self) -> Counted:
        """The files with the parts that the profile asks for.

        Raises:
            LakeError: the list is damaged, or the home is of an earlier form.
        """
        if self._seen[0] is not (listed := self._listed):
            read = {place: own for place, entry in listed.items() if (own := self._read_of(place[0], entry))}
            self._seen = listed, read
        return self._seen[1]

    def count(self, entries: Counted) -> None:
        """Have some partitions read from these files from now on; the caller holds a lock of the profile's list."""
        listed = dict(entries)
        with suppress(FileNotFoundError):
            listed = {**_list_in(self._path.read_bytes(), self._path), **entries}
        rows = [[*place, own] for place, own in sorted(listed.items(), key=str)]
        write_whole(self._path, json.dumps(rows, indent=1))

    def has(self, entries: Counted) -> bool:
        """Whether some partitions are read from these files already."""
        listed = self._listed
        return all(listed.get(place) == entry for place, entry in entries.items())

    @property
    def _listed(self) -> Counted:
        try:
            return _list_in(_bytes_of(self._path), self._path)
        except FileNotFoundError:
            self._check_form()
            return {}

    def _check_form(self) -> None:
        """Refuse a home that was written before files were named by what made them."""
        folders = ("selection", "sources/math_shepherd")
        if any(path for folder in folders for path in (self._home / LAKE / folder).glob("[!.]*.parquet")):
            raise LakeError(
                f"{self._home} was made by an earlier version of this program, which kept its tables in another form; "
                "remove its folder `lake`, or set CPMI_HOME to another place"
            )

    def _read_of(self, key: str, entry: Entry) -> Entry:
        if self._asked is None or not is_in_parts(key):
            return entry
        asked = self._asked(key)
        found = {
            file: parts if parts == [WHOLE] else [part for part in parts if part in asked]
            for file, parts in entry.items()
        }
        return {file: parts for file, parts in found.items() if parts}


@by_state
def _bytes_of(path: Path) -> bytes:
    return path.read_bytes()


@lru_cache(maxsize=KNOWN_LISTS)
def _list_in(data: bytes, path: Path) -> Counted:
    try:
        return {(key, partition): files for key, partition, files in json.loads(data)}
    except (ValueError, TypeError) as error:
        raise LakeError(
            f"{path}, the list of the files that the profile reads, is damaged ({first_line(error)}); remove it, and "
            "`cpmi run` writes it again from the files that are there"
        ) from error
