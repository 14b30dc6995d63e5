"""Reads text files from outside: plain or gzipped, with byte order marks, with lines of any length.

rows.jsonl, line 3        50,000,000 characters              comes cut, with is_whole = False
rows.jsonl.gz             truncated                          SourceError that names the file
"""

import gzip
import io
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Annotated, TypeVar, cast

from pydantic import Field

from cpmi_dagster.errors import SourceError

GZIP_MAGIC = b"\x1f\x8b"
# some programs put one at the start of a text; in joined files it is also within
BYTE_ORDER_MARK = "\ufeff"
LINE_CHARACTERS = 10_000_000
"""Of the longest line that is read whole."""
SKIPPED_AT_ONCE = 2**20
MOST_ITEMS = 10_000

Item = TypeVar("Item")
BoundedList = Annotated[list[Item], Field(max_length=MOST_ITEMS, fail_fast=True)]
"""A list in a row or request from outside, such as steps; validation stops at the first wrong item."""


def open_text(file: Path) -> io.TextIOWrapper:
    """Open a plain or gzipped text file: lines end at line feeds, bytes that are not UTF-8 become lone surrogates.

    Raises:
        SourceError: the file is UTF-16, as some spreadsheets save CSV; while reading: the gzip file is damaged.
    """
    stream = file.open("rb")
    first = stream.read(len(GZIP_MAGIC))
    if first in (BOM_UTF16_LE, BOM_UTF16_BE):
        stream.close()
        raise SourceError(f"{file} is UTF-16; save it as UTF-8")
    is_gzipped = first == GZIP_MAGIC
    stream.seek(0)
    content = cast("IO[bytes]", _NamedGzip(file, stream) if is_gzipped else stream)
    return io.TextIOWrapper(content, encoding="utf-8", errors="surrogateescape", newline="\n")


def bounded_lines(stream: IO[str]) -> Iterator[tuple[str, bool]]:
    """Yield each line without its byte order mark, and whether it is whole; a line that is too long is cut."""
    while line := stream.readline(LINE_CHARACTERS + 1):
        is_whole = len(line) <= LINE_CHARACTERS or line.endswith("\n")
        yield line.removeprefix(BYTE_ORDER_MARK), is_whole
        while not is_whole:
            rest = stream.readline(SKIPPED_AT_ONCE)
            is_whole = not rest or rest.endswith("\n")


class _NamedGzip(gzip.GzipFile):
    """A gzip file whose errors name it, and which closes the stream below it."""

    def __init__(self, file: Path, stream: IO[bytes]) -> None:
        super().__init__(fileobj=stream, mode="rb")
        self._stream, self._file = stream, file

    def read(self, size: int | None = -1) -> bytes:
        """Read bytes of the content, all by default."""
        return self._read_with(super().read, size)

    def read1(self, size: int = -1) -> bytes:
        """Read bytes of the content, as many as come at once."""
        return self._read_with(super().read1, size)

    def _read_with(self, read: Callable[..., bytes], size: int | None) -> bytes:
        try:
            return read(size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise SourceError(f"{self._file} is damaged ({error}); fetch it again") from error

    def close(self) -> None:
        """Close the file and the stream below it."""
        super().close()
        self._stream.close()
