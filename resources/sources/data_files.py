"""Rows of local files, read as a stream: JSON Lines, JSON or Parquet, plain or gzipped.

    rows.jsonl.gz, line 3: {"input": "Ann …"}    ->  ({"input": "Ann …"}, 0.62, "line 3")     62 % of the file is read
    rows.jsonl.gz, line 4: {"input": "Ann        ->  (Unreadable("{\\"input\\": \\"Ann", "not JSON: …"), 0.63, "line 4")

Lines are read here and not by `datasets`, whose JSON reader refuses a whole file for one broken line, or for one line
with other types than the first ones.
"""

import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cpmi_dagster.errors import RepeatedField, SourceError, first_line
from cpmi_dagster.files.bounded_reading import (
    BYTE_ORDER_MARK,
    DEFAULT_LIMITS,
    ReadingLimits,
    bounded_lines,
    open_text,
    too_expanded,
)
from cpmi_dagster.files.json_lines import DECODER
from cpmi_dagster.files.text import NOT_UTF8, encodable
from cpmi_dagster.trajectories.rows import Row, Unreadable

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".jsonl", ".json", ".parquet", ".jsonl.gz", ".json.gz")
# few, since a batch is in memory before its size is known
PARQUET_BATCH = 16
SHOWN_CHARACTERS = 1_000
NEXT_SIGN = re.compile(r"[^ \t\n\r]|\Z")


class ReadRow(NamedTuple):
    """A row, the share of its source that has been read, and its place in the source: `line 3`, `b.jsonl, line 3`."""

    row: Row
    share: float
    place: str


def local_files(path: Path) -> list[Path]:
    """The file, or the data files of the folder in name order, else those of its `data`, where the hub has them.

    Raises:
        SourceError: there is none.
    """
    files = (
        _with_data([path]) if path.is_file() else _with_data(path.glob("[!.]*")) or _with_data(path.glob("data/[!.]*"))
    )
    if not files:
        found = f"{path} ends in none of" if path.is_file() else f"there is no data at {path}; give a file or folder of"
        raise SourceError(f"{found} {', '.join(SUFFIXES)}{'; rename it' if path.is_file() else ''}")
    return files


def _with_data(paths: Iterable[Path]) -> list[Path]:
    return sorted(path for path in paths if path.is_file() and path.name.lower().endswith(SUFFIXES))


def read_files(files: Sequence[Path], limits: ReadingLimits = DEFAULT_LIMITS) -> Iterator[ReadRow]:
    """Rows of several files, one after the other.

    Raises:
        SourceError: a file is truncated, is not what its name says, or holds more than the limits allow.
    """
    sizes = [file.stat().st_size for file in files]
    for number, (file, size) in enumerate(zip(files, sizes, strict=True)):
        name = f"{file.name}, " if len(files) > 1 else ""
        for row, share, place in read_file(file, limits):
            yield ReadRow(row, (sum(sizes[:number]) + share * size) / max(1, sum(sizes)), name + place)


def read_file(file: Path, limits: ReadingLimits = DEFAULT_LIMITS) -> Iterator[ReadRow]:
    """Rows of a file.

    Raises:
        SourceError: the file is truncated, is not what its name says, or holds more than the limits allow.
    """
    if file.suffix.lower() == ".parquet":
        yield from _parquet_rows(file, limits)
    elif ".jsonl" in file.name.lower():
        yield from _lines(file, limits)
    else:
        yield from _json_rows(file, limits)


def database_files(path: Path) -> list[Path]:
    """A DuckDB file, with the log of what was written last where there is one.

    Raises:
        SourceError: there is no such file.
    """
    if not path.is_file():
        raise SourceError(f"there is no DuckDB file at {path}; make it, or correct the path")
    return [file for file in (path, path.with_name(f"{path.name}.wal")) if file.is_file()]


def read_relation(file: Path, relation: str, limits: ReadingLimits = DEFAULT_LIMITS) -> Iterator[ReadRow]:
    """Rows of a table or view of a DuckDB file, in its order.

    Args:
        relation: its name, with that of its schema where it is not `main`.

    Raises:
        SourceError: another process writes to the file, it is no DuckDB file, has no such relation, or has a row that
            holds more than the limits allow.
    """
    import duckdb

    try:
        with duckdb.connect(str(file), read_only=True) as connection:
            found = connection.table(relation)
            total, number = len(found), 0
            for batch in found.to_arrow_reader(PARQUET_BATCH):
                _check_rows(file, batch, number, limits)
                for row in batch.to_pylist():
                    number += 1
                    yield ReadRow(row, number / total, f"row {number}")
    except duckdb.Error as error:
        raise SourceError(f"`{relation}` of {file} cannot be read ({first_line(error)})") from error


def _parquet_rows(file: Path, limits: ReadingLimits) -> Iterator[ReadRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as parquet:
            _check_groups(file, parquet.metadata, limits)
            number, held = 0, 0
            for batch in parquet.iter_batches(PARQUET_BATCH):
                held += batch.nbytes
                if held > limits.most_held(file):
                    raise too_expanded(file, limits)
                _check_rows(file, batch, number, limits)
                for row in batch.to_pylist():
                    number += 1
                    yield ReadRow(row, number / parquet.metadata.num_rows, f"row {number}")
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{file} is not a Parquet file, or is damaged ({first_line(error)})") from error


def _check_groups(file: Path, metadata: Any, limits: ReadingLimits) -> None:
    """Refuse a group of rows that would hold too much, in bytes or in items of lists, before any of it is read."""
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        values = max((group.column(number).num_values for number in range(group.num_columns)), default=0)
        # nulls take no bytes in the file; one for each row is read batch by batch
        if max(group.total_byte_size, values - group.num_rows) > limits.most_held(file):
            raise too_expanded(file, limits)


def _check_rows(file: Path, batch: "pa.RecordBatch", first: int, limits: ReadingLimits) -> None:
    """Refuse a row that is too large; it is looked for only where the batch is."""
    if batch.nbytes <= limits.line_characters:
        return
    for number in range(batch.num_rows):
        if batch.slice(number, 1).nbytes > limits.line_characters:
            raise SourceError(
                f"{file}, row {first + number + 1} has more than {limits.line_characters:,} bytes; remove it, or "
                "raise `sources.limits.line_characters` in the profile"
            )


def _json_rows(file: Path, limits: ReadingLimits) -> Iterator[ReadRow]:
    """A JSON array of objects; its text is read whole, and its rows are made one after the other."""
    with open_text(file, limits) as stream:
        text = stream.read(limits.json_characters + 1)
    if len(text) > limits.json_characters:
        raise SourceError(
            f"{file} is larger than {limits.json_characters:,} characters and would be read whole; write one object "
            "per line, in a .jsonl file, or raise `sources.limits.json_characters` in the profile"
        )
    text = text.removeprefix(BYTE_ORDER_MARK).strip()
    if not text.startswith("["):
        raise SourceError(
            f"{file} must contain a JSON array of objects; a file with one object per line must be named .jsonl"
        )
    try:
        for number, (item, share) in enumerate(_items(text), start=1):
            place = f"row {number}"
            yield ReadRow(_read_line(item, f"{file}, {place}"), share, place)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{file} is not JSON: {error}") from error


def _items(text: str) -> Iterator[tuple[str, float]]:
    """The values of a JSON array as texts, with the share of it that has been read."""

    def next_sign(position: int) -> int:
        return next(NEXT_SIGN.finditer(text, position)).start()

    decoder, start, last = json.JSONDecoder(), next_sign(1), len(text) - 1
    is_over = start == last and text[start] == "]"
    while not is_over:
        _, end = decoder.raw_decode(text, start)
        after = next_sign(end)
        is_over = after == last and text[after] == "]"
        if not is_over and not text.startswith(",", after):
            raise json.JSONDecodeError("Expecting ',' delimiter", text, after)
        yield text[start:end], (after + 1) / len(text)
        start = next_sign(after + 1)


def _lines(file: Path, limits: ReadingLimits) -> Iterator[ReadRow]:
    size = max(1, file.stat().st_size)
    with open_text(file, limits) as stream:
        for number, (line, is_whole) in enumerate(bounded_lines(stream, limits), start=1):
            if line.strip():
                place = f"line {number}"
                row = _read_line(line, f"{file}, {place}") if is_whole else _cut_off(line, f"{file}, {place}", limits)
                yield ReadRow(row, _position(stream) / size, place)


def _cut_off(line: str, place: str, limits: ReadingLimits) -> Row:
    reason = f"longer than {limits.line_characters:,} characters"
    return Unreadable(encodable(line[:SHOWN_CHARACTERS]), reason, place)


def _read_line(line: str, place: str) -> Row:
    line = line.strip()
    if NOT_UTF8.search(line):
        return Unreadable(line, "not UTF-8; save the file as UTF-8", place)
    try:
        return _row(DECODER.decode(line), line, place)
    except RepeatedField as error:
        return Unreadable(line, str(error), place)
    except json.JSONDecodeError as error:
        return Unreadable(line, f"not JSON ({error.msg}, column {error.colno})", place)
    except RecursionError:
        return Unreadable(line, "JSON that is nested too deeply", place)
    except ValueError:
        return Unreadable(line, "JSON with a number of too many digits", place)


def _row(row: Any, text: str, place: str) -> Row:
    if isinstance(row, dict):
        return row
    advice = "; a file that is one JSON list is named .json" if isinstance(row, list) else ""
    return Unreadable(text, f"not a JSON object{advice}", place)


def _position(stream: io.TextIOWrapper) -> int:
    """How far the file on disk has been read, compressed bytes for a gzipped one."""
    return os.lseek(stream.buffer.fileno(), 0, os.SEEK_CUR)
