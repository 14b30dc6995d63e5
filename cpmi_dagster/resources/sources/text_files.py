"""Rows of JSON Lines, JSON and CSV, plain or gzipped, read as a stream; a broken line is a row of its own.

    rows.jsonl.gz, line 3: {"input": "Ann …"}    ->  ({"input": "Ann …"}, 0.62, "line 3")     62 % of the file is read
    rows.jsonl.gz, line 4: {"input": "Ann        ->  (Unreadable("{\\"input\\": \\"Ann", "not JSON: …"), 0.63, "line 4")

`datasets` is not used: its JSON reader refuses a whole file for one line that is broken or has other types, and its CSV
reader turns texts into numbers and the answer `NA` into null.
"""

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from cpmi_dagster.errors import RepeatedFieldError, SourceError
from cpmi_dagster.files.bounded_reading import BYTE_ORDER_MARK, LINE_CHARACTERS, bounded_lines, open_text
from cpmi_dagster.files.json_lines import DECODER
from cpmi_dagster.files.text import NOT_UTF8, encodable
from cpmi_dagster.trajectories.rows import Row, Unreadable

SHOWN_CHARACTERS = 1_000
DELIMITERS = ",;\t"
NEXT_SIGN = re.compile(r"[^ \t\n\r]|\Z")


class ReadRow(NamedTuple):
    """A row, the share of the source read so far, and the row's place: `line 3`, `b.jsonl, line 3`."""

    row: Row
    share: float
    place: str


def read_json(file: Path) -> Iterator[ReadRow]:
    """Rows of a JSON array of objects, whose text is read whole."""
    with open_text(file) as stream:
        text = stream.read()
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
    """The values of a JSON array as texts, with the share read so far."""

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


def read_lines(file: Path) -> Iterator[ReadRow]:
    size = max(1, file.stat().st_size)
    with open_text(file) as stream:
        for number, (line, is_whole) in enumerate(bounded_lines(stream), start=1):
            if line.strip():
                place = f"line {number}"
                row = _read_line(line, f"{file}, {place}") if is_whole else _cut_off(line, f"{file}, {place}")
                yield ReadRow(row, _position(stream) / size, place)


def read_csv(file: Path) -> Iterator[ReadRow]:
    """Rows of CSV as texts, empty cells as null; the first line names the columns."""
    size = max(1, file.stat().st_size)
    with open_text(file) as stream:
        cut: list[int] = []
        lines = _noting_cuts(bounded_lines(stream), cut)
        first = next(lines, "")
        delimiter = max(DELIMITERS, key=first.count)
        reader = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
        csv.field_size_limit(LINE_CHARACTERS)
        names: list[str] = []
        is_over = False
        while not is_over:
            begins = reader.line_num + 1
            place = f"line {begins}"
            try:
                cells = next(reader, None)
            except csv.Error as error:
                yield ReadRow(Unreadable("", f"not CSV ({error})", f"{file}, {place}"), _position(stream) / size, place)
                continue
            is_over = cells is None
            if cells and not names:
                names = [cell.strip() for cell in cells]
                check_columns(file, names)
            elif cells:
                is_whole = not cut or cut[-1] < begins
                read = f"{file}, {place}"
                row = _csv_row(names, cells, read) if is_whole else _cut_off(", ".join(cells), read)
                yield ReadRow(row, _position(stream) / size, place)


def _noting_cuts(lines: Iterable[tuple[str, bool]], cut: list[int]) -> Iterator[str]:
    """The lines; the numbers of those too long to read whole are added to `cut`."""
    for number, (line, is_whole) in enumerate(lines, start=1):
        if not is_whole:
            cut.append(number)
        yield line


def check_columns(file: Path, names: Sequence[str]) -> None:
    """Refuse a table that has a column twice, by a `SourceError`."""
    if len({*names}) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise SourceError(f"{file} has the column `{repeated}` twice; rename or remove one")


def _csv_row(names: Sequence[str], cells: Sequence[str], place: str) -> Row:
    text = ", ".join(cells)[:SHOWN_CHARACTERS]
    if len(cells) != len(names):
        return Unreadable(encodable(text), f"{len(cells)} cells under {len(names)} columns", place)
    if any(NOT_UTF8.search(cell) for cell in cells):
        return Unreadable(text, "not UTF-8; save the file as UTF-8", place)
    return {name: cell or None for name, cell in zip(names, cells, strict=True)}


def _cut_off(line: str, place: str) -> Row:
    reason = f"longer than {LINE_CHARACTERS:,} characters"
    return Unreadable(encodable(line[:SHOWN_CHARACTERS]), reason, place)


def _read_line(line: str, place: str) -> Row:
    line = line.strip()
    if NOT_UTF8.search(line):
        return Unreadable(line, "not UTF-8; save the file as UTF-8", place)
    try:
        return _row(DECODER.decode(line), line, place)
    except RepeatedFieldError as error:
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
    """The number of bytes read from the file on disk, compressed ones of a gzipped file."""
    return os.lseek(stream.buffer.fileno(), 0, os.SEEK_CUR)
