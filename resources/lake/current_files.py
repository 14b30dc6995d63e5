"""Which files a profile reads: a list in the home, by table and partition, each file with the parts of it that count.

lake/.current/mine.json     [["labels/hard_negatives", "003", {"5f0c….parquet": ["1", "2"]}], …]
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from cpmi_dagster.errors import LakeError, first_line
from cpmi_dagster.resources.lake.home_files import HomeFiles
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
        files: of the home.
        home: its address, for messages.
        asked: the parts of a table that are read; all by default.
    """

    def __init__(
        self, files: HomeFiles, home: object, profile: str, asked: Callable[[str], Sequence[str]] | None = None
    ) -> None:
        self._files = files
        self._home = home
        self._name = f"{CURRENT}/{profile}{ENDING}"
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

        def changed(found: bytes | None) -> bytes:
            listed = {**(_list_in(found, self._where) if found is not None else {}), **entries}
            return json.dumps([[*place, own] for place, own in sorted(listed.items(), key=str)], indent=1).encode()

        self._files.update(self._name, changed)

    def has(self, entries: Counted) -> bool:
        """Whether some partitions are read from these files already."""
        listed = self._listed
        return all(listed.get(place) == entry for place, entry in entries.items())

    @property
    def _where(self) -> str:
        return f"{self._home}/{self._name}"

    @property
    def _listed(self) -> Counted:
        try:
            return _list_in(self._files.glance(self._name), self._where)
        except FileNotFoundError:
            self._check_form()
            return {}

    def _check_form(self) -> None:
        """Refuse a home that was written before files were named by what made them."""
        folders = ("selection", "sources/math_shepherd")
        if any(name.endswith(".parquet") for folder in folders for name in self._files.names(f"{LAKE}/{folder}")):
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


@lru_cache(maxsize=KNOWN_LISTS)
def _list_in(data: bytes, where: str) -> Counted:
    try:
        return {(key, partition): files for key, partition, files in json.loads(data)}
    except (ValueError, TypeError) as error:
        raise LakeError(
            f"{where}, the list of the files that the profile reads, is damaged ({first_line(error)}); remove it, and "
            "`cpmi run` writes it again from the files that are there"
        ) from error
