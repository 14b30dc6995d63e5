"""Rows of local files, read as a stream: JSON Lines, JSON or Parquet, plain or gzipped.

    rows.jsonl.gz, line 3: {"input": "Ann …"}    ->  ({"input": "Ann …"}, 0.62, "line 3")     62 % of the file is read
    rows.jsonl.gz, line 4: {"input": "Ann        ->  (Unreadable("{\\"input\\": \\"Ann", "not JSON: …"), 0.63, "line 4")

Lines are read here and not by `datasets`, whose JSON reader refuses a whole file for one broken line, or for one line
with other types than the first ones.
"""

import gzip
import io
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from cpmi_dagster.errors import SourceError, first_line
from cpmi_dagster.files.text import NOT_UTF8
from cpmi_dagster.trajectories.rows import Row, Unreadable

SUFFIXES = (".jsonl", ".json", ".parquet", ".jsonl.gz", ".json.gz")
PARQUET_BATCH = 1_000
BYTE_ORDER_MARK = "\ufeff"
GZIP_MAGIC = b"\x1f\x8b"


class ReadRow(NamedTuple):
    """A row, the share of its source that has been read, and its place in the source: `line 3`, `b.jsonl, line 3`."""

    row: Row
    share: float
    place: str


def local_files(path: Path) -> list[Path]:
    """The file, or the data files of the folder in name order.

    Raises:
        SourceError: there is none.
    """
    candidates = [path] if path.is_file() else sorted(path.glob("*"))
    files = [file for file in candidates if file.is_file() and file.name.lower().endswith(SUFFIXES)]
    if not files:
        raise SourceError(f"there is no data at {path}; give a file or folder of {', '.join(SUFFIXES)}")
    return files


def read_files(files: Sequence[Path]) -> Iterator[ReadRow]:
    """Rows of several files, one after the other.

    Raises:
        SourceError: a file is truncated, or is not what its name says.
    """
    sizes = [file.stat().st_size for file in files]
    for number, (file, size) in enumerate(zip(files, sizes, strict=True)):
        name = f"{file.name}, " if len(files) > 1 else ""
        for row, share, place in read_file(file):
            yield ReadRow(row, (sum(sizes[:number]) + share * size) / max(1, sum(sizes)), name + place)


def read_file(file: Path) -> Iterator[ReadRow]:
    """Rows of a file.

    Raises:
        SourceError: the file is truncated, or is not what its name says.
    """
    try:
        if file.suffix.lower() == ".parquet":
            yield from _parquet_rows(file)
        else:
            yield from _lines(file) if ".jsonl" in file.name.lower() else _json_rows(file)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SourceError(f"{file} is damaged ({error}); fetch it again") from error


def _parquet_rows(file: Path) -> Iterator[ReadRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as parquet:
            rows = (row for batch in parquet.iter_batches(PARQUET_BATCH) for row in batch.to_pylist())
            for number, row in enumerate(rows, start=1):
                yield ReadRow(row, number / parquet.metadata.num_rows, f"row {number}")
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{file} is no Parquet file, or is damaged ({first_line(error)})") from error


def _json_rows(file: Path) -> Iterator[ReadRow]:
    """A JSON array of objects; it is read whole."""
    with _open(file) as stream:
        try:
            rows = json.loads(stream.read().removeprefix(BYTE_ORDER_MARK))
        except (ValueError, RecursionError) as error:
            raise SourceError(f"{file} is not JSON: {error}") from error
    if not isinstance(rows, list):
        raise SourceError(f"{file} must hold a JSON array of objects; one object a line belongs in a .jsonl file")
    for number, row in enumerate(rows, start=1):
        place = f"row {number}"
        yield ReadRow(_row(row, json.dumps(row), f"{file}, {place}"), number / len(rows), place)


def _lines(file: Path) -> Iterator[ReadRow]:
    size = max(1, file.stat().st_size)
    with _open(file) as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                text, place = line.strip().removeprefix(BYTE_ORDER_MARK), f"line {number}"
                yield ReadRow(_read_line(text, f"{file}, {place}"), _position(stream) / size, place)


def _read_line(line: str, place: str) -> Row:
    if NOT_UTF8.search(line):
        return Unreadable(line, "not UTF-8; save the file as UTF-8", place)
    try:
        return _row(json.loads(line), line, place)
    except json.JSONDecodeError as error:
        return Unreadable(line, f"not JSON ({error.msg}, column {error.colno})", place)
    except RecursionError:
        return Unreadable(line, "JSON that is nested too deeply", place)
    except ValueError:
        return Unreadable(line, "JSON with a number of too many digits", place)


def _row(row: Any, text: str, place: str) -> Row:
    return row if isinstance(row, dict) else Unreadable(text, "not a JSON object", place)


def _open(file: Path) -> io.TextIOWrapper:
    """Text whose lines end at line feeds only; bytes that are not UTF-8 come as lone surrogates."""
    with file.open("rb") as stream:
        opened = gzip.open if stream.read(len(GZIP_MAGIC)) == GZIP_MAGIC else open
    return cast("io.TextIOWrapper", opened(file, "rt", encoding="utf-8", errors="surrogateescape", newline="\n"))


def _position(stream: io.TextIOWrapper) -> int:
    """How far the file on disk has been read, compressed bytes for a gzipped one."""
    return os.lseek(stream.buffer.fileno(), 0, os.SEEK_CUR)
