"""Rows of one local file, read as a stream: JSON Lines, JSON or Parquet, plain or gzipped.

    rows.jsonl.gz, line 3: {"input": "Ann has …"}    ->  ({"input": "Ann has …"}, 0.62)     62 % of the file is read
    rows.jsonl.gz, line 4: {"input": "Ann            ->  (Unreadable("{\\"input\\": \\"Ann", "not JSON: …"), 0.63)

Lines are read here and not by `datasets`, whose JSON reader refuses a whole file for one broken line, or for one line
with other types than the first ones.
"""

import gzip
import io
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from cpmi_dagster.errors import SourceError, first_line
from cpmi_dagster.trajectories.rows import Row, Unreadable

SUFFIXES = (".jsonl", ".json", ".parquet", ".jsonl.gz", ".json.gz")
PARQUET_BATCH = 1_000
BYTE_ORDER_MARK = "\ufeff"
GZIP_MAGIC = b"\x1f\x8b"


def read_file(file: Path) -> Iterator[tuple[Row, float]]:
    """Rows of a file, each with the share of the file that has been read.

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


def _parquet_rows(file: Path) -> Iterator[tuple[Row, float]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as parquet:
            rows = (row for batch in parquet.iter_batches(PARQUET_BATCH) for row in batch.to_pylist())
            for number, row in enumerate(rows, start=1):
                yield row, number / parquet.metadata.num_rows
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{file} is no Parquet file, or is damaged ({first_line(error)})") from error


def _json_rows(file: Path) -> Iterator[tuple[Row, float]]:
    """A JSON array of objects; it is read whole."""
    with _open(file) as stream:
        try:
            rows = json.loads(stream.read().removeprefix(BYTE_ORDER_MARK))
        except (ValueError, RecursionError) as error:
            raise SourceError(f"{file} is not JSON: {error}") from error
    if not isinstance(rows, list):
        raise SourceError(f"{file} must hold a JSON array of objects; one object a line belongs in a .jsonl file")
    for number, row in enumerate(rows, start=1):
        yield _row(row, json.dumps(row), f"{file}, row {number}"), number / len(rows)


def _lines(file: Path) -> Iterator[tuple[Row, float]]:
    size = max(1, file.stat().st_size)
    with _open(file) as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                text = line.strip().removeprefix(BYTE_ORDER_MARK)
                yield _read_line(text, f"{file}, line {number}"), _position(stream) / size


def _read_line(line: str, place: str) -> Row:
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
