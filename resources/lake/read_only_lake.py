"""The lake as queries reach it: the Parquet files of its tables, read and never written.

    lake:///lake/labels/hard_negatives/000/5f0c….parquet     <home>/lake/labels/hard_negatives/000/5f0c….parquet
    lake:///lake/.work/…, lake:///../etc/passwd              no such file
    copy (select 1) to 'lake:///lake/x.parquet'              PermissionError: a query only reads
    lake:///files/rows.jsonl                                 the file that the user gave under this name

DuckDB's own access to files is switched off while it answers a query, so SQL reaches nothing else.
"""

import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISDIR
from threading import get_ident
from typing import Any

from fsspec.spec import AbstractFileSystem

PROTOCOL = "lake"
# what stands for the home in the views' paths
HOME = f"{PROTOCOL}://"
FOLDER = "lake"
GIVEN = "files"


class ReadOnlyLake(AbstractFileSystem):
    """The folder `lake` of a home, without what is hidden in it, and files that the user gave.

    Args:
        home: the folder that holds `lake`.
        given: files by their names.
    """

    protocol = PROTOCOL
    root_marker = "/"
    cachable = False

    def __init__(self, home: Path, given: Mapping[str, Path]) -> None:
        super().__init__(use_listings_cache=False)
        self._home = home
        self._given = given

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Name, size and kind of a file or folder.

        Raises:
            FileNotFoundError: there is none, or it is no part of the lake.
        """
        name = str(self._strip_protocol(path))
        state = self._place(name).stat()
        kind = "directory" if S_ISDIR(state.st_mode) else "file"
        return {"name": name, "size": state.st_size, "type": kind, "mtime": state.st_mtime}

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """What a folder holds, in the order of names; nothing for what has been removed meanwhile."""
        entries = list(self._entries(str(self._strip_protocol(path))))
        return entries if detail else [entry["name"] for entry in entries]

    def modified(self, path: str) -> datetime:
        """When a file was written."""
        return datetime.fromtimestamp(self.info(path)["mtime"], UTC)

    def _entries(self, folder: str) -> Iterator[dict[str, Any]]:
        place = self._place(folder)
        for name in sorted(os.listdir(place)):
            try:
                yield self.info(f"{folder}/{name}")
            except FileNotFoundError:
                continue

    def _open(self, path: str, mode: str = "rb", *_: Any, **__: Any) -> Any:
        if mode != "rb":
            raise PermissionError("a query only reads")
        return _File(self._place(str(self._strip_protocol(path))))

    def _place(self, name: str) -> Path:
        """The path behind a name; hidden ones and those that lead out of the lake are not there."""
        parts = [part for part in name.split("/") if part]
        if parts[:1] == [GIVEN] and len(parts) == 2 and parts[1] in self._given:
            return self._given[parts[1]]
        if parts[:1] != [FOLDER] or any(part.startswith(".") or "\0" in part for part in parts):
            raise FileNotFoundError(name)
        return self._home.absolute().joinpath(*parts)


class _File:
    """A file that several threads of DuckDB read at once.

    Each reads where it has sought itself; a thread that has not reads on where the last one ended.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self._position = 0
        # by the thread's number: a thread of DuckDB has no `threading.local` that lasts from one call to the next
        self._sought: dict[int, int] = {}

    def seek(self, position: int) -> int:
        """Set where this thread reads next."""
        self._sought[get_ident()] = self._position = position
        return position

    def tell(self) -> int:
        """Where this thread reads next."""
        return self._sought.get(get_ident(), self._position)

    def read(self, size: int = -1) -> bytes:
        """The next bytes, all that are left by default."""
        start = self._sought.pop(get_ident(), None)
        if start is None:
            start = self._position
            self._sought.clear()
        wanted = os.fstat(self._file.fileno()).st_size - start if size < 0 else size
        found = os.pread(self._file.fileno(), wanted, start)
        self._position = start + len(found)
        return found

    def close(self) -> None:
        """Close the file for all threads."""
        self._file.close()
