"""Rows of local files, read as a stream: JSON Lines, JSON or CSV, plain or gzipped; Parquet, Arrow, saved data sets.

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from cpmi_dagster.errors import RepeatedFieldError, SourceError, first_line
from cpmi_dagster.files.bounded_reading import BYTE_ORDER_MARK, LINE_CHARACTERS, bounded_lines, open_text
from cpmi_dagster.files.json_lines import DECODER
from cpmi_dagster.files.text import NOT_UTF8, did_you_mean, encodable
from cpmi_dagster.trajectories.rows import Row, Unreadable

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 1_000
SHOWN_CHARACTERS = 1_000
ARROW_MAGIC = b"ARROW1"
DELIMITERS = ",;\t"
SPLITS, SAVED = "dataset_dict.json", "state.json"
"""Files by which `datasets` marks a folder of splits, and of a data set."""
NEXT_SIGN = re.compile(r"[^ \t\n\r]|\Z")


class ReadRow(NamedTuple):
    """A row, the share of the source read so far, and the row's place: `line 3`, `b.jsonl, line 3`."""

    row: Row
    share: float
    place: str


def local_files(path: Path) -> list[Path]:
    """The file, or the data files of a folder or its `data` in name order.

    Of a data set that `datasets` saved, the files that it names; of a folder of splits, those of the only split.

    Raises:
        SourceError: there is no data file, or the folder has several splits.
    """
    try:
        if (path / SPLITS).is_file():
            splits = json.loads((path / SPLITS).read_bytes())["splits"]
            if len(splits) != 1:
                raise SourceError(f"{path} has the splits {', '.join(splits)}; give one, such as {path / splits[0]}")
            return local_files(path / splits[0])
        if (path / SAVED).is_file():
            return [path / part["filename"] for part in json.loads((path / SAVED).read_bytes())["_data_files"]]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise SourceError(f"{path} is not a data set that `datasets` saved, or is damaged; save it again") from error
    files = (
        _with_data([path]) if path.is_file() else _with_data(path.glob("[!.]*")) or _with_data(path.glob("data/[!.]*"))
    )
    if not files:
        if path.is_file():
            advice = "write it as one of these, as pandas does"
            raise SourceError(f"{path} ends in none of {', '.join(SUFFIXES)}; {advice}")
        near = ""
        with suppress(OSError):
            near = did_you_mean(path.name, (other.name for other in path.parent.iterdir()))
        raise SourceError(f"there is no data at {path}{near}; give a file or folder of {', '.join(SUFFIXES)}")
    return files


def _with_data(paths: Iterable[Path]) -> list[Path]:
    return sorted(path for path in paths if path.is_file() and path.name.lower().endswith(SUFFIXES))


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
    return READERS[Path(file.name.lower().removesuffix(".gz")).suffix](file)


def class_names(file: Path) -> dict[str, list[str]]:
    """The names of the classes in each column that holds their numbers, as `datasets` notes them in its files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if file.suffix.lower() == ".parquet":
            schema = pq.read_schema(file)
        elif file.suffix.lower() == ".arrow":
            with file.open("rb") as stream:
                first = next(_arrow_batches(stream), None)
                schema = pa.schema([]) if first is None else first.schema
        else:
            return {}
        noted = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = noted["info"]["features"]
        return {name: kind["names"] for name, kind in features.items() if kind.get("_type") == "ClassLabel"}
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # a damaged file is an error of its reading


def database_files(path: Path) -> list[Path]:
    """A DuckDB file, and its write-ahead log if there is one.

    Raises:
        SourceError: there is no such file.
    """
    if not path.is_file():
        raise SourceError(f"there is no DuckDB file at {path}; make it, or correct the path")
    return [file for file in (path, path.with_name(f"{path.name}.wal")) if file.is_file()]


def read_relation(file: Path, relation: str) -> Iterator[ReadRow]:
    """Rows of a table or view of a DuckDB file, in its order.

    Args:
        relation: its name, with a schema other than `main`.

    Raises:
        SourceError: another process writes to the file, it is no DuckDB file, or has no such relation.
    """
    import duckdb

    try:
        with duckdb.connect(str(file), read_only=True) as connection:
            table = connection.table(relation)
            total, number = len(table), 0
            for batch in table.to_arrow_reader(BATCH_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    yield ReadRow(row, number / total, f"row {number}")
    except duckdb.Error as error:
        raise SourceError(f"`{relation}` of {file} cannot be read ({first_line(error)})") from error


def _parquet_rows(file: Path) -> Iterator[ReadRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as parquet:
            for number, row in _batch_rows(parquet.iter_batches(BATCH_ROWS)):
                yield ReadRow(row, number / parquet.metadata.num_rows, f"row {number}")
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{file} is not a Parquet file, or is damaged ({first_line(error)})") from error


def _arrow_rows(file: Path) -> Iterator[ReadRow]:
    """Rows of Arrow's file format (polars, pandas) or stream format (`datasets`)."""
    import pyarrow as pa

    size = max(1, file.stat().st_size)
    try:
        with file.open("rb") as stream:
            for number, row in _batch_rows(_arrow_batches(stream)):
                yield ReadRow(row, stream.tell() / size, f"row {number}")
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{file} is not an Arrow file, or is damaged ({first_line(error)})") from error


def _arrow_batches(stream: BinaryIO) -> Iterator["pa.RecordBatch"]:
    import pyarrow as pa

    is_file = stream.read(len(ARROW_MAGIC)) == ARROW_MAGIC
    stream.seek(0)
    if is_file:
        reader = pa.ipc.open_file(stream)
        batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
    else:
        batches = iter(pa.ipc.open_stream(stream))
    for batch in batches:
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)


def _batch_rows(batches: Iterable["pa.RecordBatch"]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows with their numbers from 1."""
    return enumerate((row for batch in batches for row in batch.to_pylist()), start=1)


def _json_rows(file: Path) -> Iterator[ReadRow]:
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


def _lines(file: Path) -> Iterator[ReadRow]:
    size = max(1, file.stat().st_size)
    with open_text(file) as stream:
        for number, (line, is_whole) in enumerate(bounded_lines(stream), start=1):
            if line.strip():
                place = f"line {number}"
                row = _read_line(line, f"{file}, {place}") if is_whole else _cut_off(line, f"{file}, {place}")
                yield ReadRow(row, _position(stream) / size, place)


def _csv_rows(file: Path) -> Iterator[ReadRow]:
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
                names = _column_names(file, cells)
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


def _column_names(file: Path, cells: Sequence[str]) -> list[str]:
    names = [cell.strip() for cell in cells]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise SourceError(f"{file} has the column `{repeated[0]}` twice; rename one")
    return names


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


READERS: dict[str, Callable[[Path], Iterator[ReadRow]]] = {
    ".jsonl": _lines,
    ".json": _json_rows,
    ".csv": _csv_rows,
    ".parquet": _parquet_rows,
    ".arrow": _arrow_rows,
}
SUFFIXES = (*READERS, ".jsonl.gz", ".json.gz", ".csv.gz")
