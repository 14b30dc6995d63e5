"""Files of others, read with bounds: a small file may become a large one in memory, and a line need not end.

    rows.jsonl, line 3        50,000,000 characters              refused, or passed over by its number
    rows.jsonl.gz             2.9 MB that become 9.8 GB          refused once it holds 200 times its size

The bounds are settings, `sources.limits`; what is read without a profile has the defaults.
"""

import gzip
import io
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field

from cpmi_dagster.errors import SourceError

GZIP_MAGIC = b"\x1f\x8b"
# some programs put one at the start of a text; where files were joined, it is within
BYTE_ORDER_MARK = "\ufeff"
# a file that holds less than this may grow by any factor
ALWAYS_ALLOWED = 8 * 2**20
SKIPPED_AT_ONCE = 2**20
MOST_ITEMS = 10_000

Item = TypeVar("Item")
BoundedList = Annotated[list[Item], Field(max_length=MOST_ITEMS, fail_fast=True)]
"""A list in a row or a request of others: steps, labels, messages. The first wrong item is the only one named."""


class ReadingLimits(BaseModel):
    """How much of a file is read at most; of what, an error says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    line_characters: int = Field(default=10_000_000, ge=1, description="longest line, and largest row of Parquet")
    json_characters: int = Field(default=500_000_000, ge=1, description="largest .json file, which is read whole")
    expansion: int = Field(default=200, ge=1, description="times its own size that a compressed file may hold")

    def most_held(self, file: Path) -> int:
        """Bytes that a compressed file may hold."""
        return max(ALWAYS_ALLOWED, self.expansion * file.stat().st_size)


DEFAULT_LIMITS = ReadingLimits()


def too_expanded(file: Path, limits: ReadingLimits) -> SourceError:
    """The error of a compressed file that holds too much."""
    return SourceError(
        f"{file} expands to more than {limits.expansion} times its own size; see that it is what you expect, and raise "
        "`sources.limits.expansion` in the profile if it is"
    )


def open_text(file: Path, limits: ReadingLimits = DEFAULT_LIMITS) -> io.TextIOWrapper:
    """A plain or gzipped text whose lines end at line feeds; bytes that are not UTF-8 come as lone surrogates.

    Reading a gzipped one raises a SourceError where it is damaged or holds more than the limits allow.

    Raises:
        SourceError: it is UTF-16, as some spreadsheets save CSV.
    """
    stream = file.open("rb")
    first = stream.read(len(GZIP_MAGIC))
    if first in (BOM_UTF16_LE, BOM_UTF16_BE):
        stream.close()
        raise SourceError(f"{file} is UTF-16; save it as UTF-8")
    is_gzipped = first == GZIP_MAGIC
    stream.seek(0)
    content = cast("IO[bytes]", _BoundedGzip(file, stream, limits) if is_gzipped else stream)
    return io.TextIOWrapper(content, encoding="utf-8", errors="surrogateescape", newline="\n")


def bounded_lines(stream: IO[str], limits: ReadingLimits = DEFAULT_LIMITS) -> Iterator[tuple[str, bool]]:
    """The lines of a stream without byte order marks, and whether each is whole; of a long one the beginning alone."""
    while line := stream.readline(limits.line_characters + 1):
        is_whole = len(line) <= limits.line_characters or line.endswith("\n")
        yield line.removeprefix(BYTE_ORDER_MARK), is_whole
        while not is_whole:
            part = stream.readline(SKIPPED_AT_ONCE)
            is_whole = not part or part.endswith("\n")


class _BoundedGzip(gzip.GzipFile):
    """A gzipped file that names itself where it is damaged or too large; it closes the stream it reads."""

    def __init__(self, file: Path, stream: IO[bytes], limits: ReadingLimits) -> None:
        super().__init__(fileobj=stream, mode="rb")
        self._stream, self._file, self._limits = stream, file, limits
        self._most = limits.most_held(file)

    def read1(self, size: int = -1) -> bytes:
        """Bytes of the content; `io.TextIOWrapper` reads with this alone."""
        try:
            found = super().read1(size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise SourceError(f"{self._file} is damaged ({error}); fetch it again") from error
        if self.tell() > self._most:
            raise too_expanded(self._file, self._limits)
        return found

    def close(self) -> None:
        """Close the file, and the stream under it."""
        super().close()
        self._stream.close()
