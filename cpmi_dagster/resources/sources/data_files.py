"""Rows of local files, read as a stream: text files (see `text_files`), Parquet, Arrow, saved data sets, DuckDB.

rows.parquet, row 3     ->  ({"input": "Ann …"}, 0.62, "row 3")     62 % of the file is read
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from cpmi_dagster.errors import SourceError, first_line
from cpmi_dagster.files.text import did_you_mean
from cpmi_dagster.resources.sources.text_files import ReadRow, check_columns, read_csv, read_json, read_lines

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 1_000
ARROW_MAGIC = b"ARROW1"
SPLITS, SAVED = "dataset_dict.json", "state.json"
"""Files by which `datasets` marks a folder of splits, and of a data set."""


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
            for number, row in _batch_rows(file, parquet.iter_batches(BATCH_ROWS)):
                yield ReadRow(row, number / parquet.metadata.num_rows, f"row {number}")
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{file} is not a Parquet file, or is damaged ({first_line(error)})") from error


def _arrow_rows(file: Path) -> Iterator[ReadRow]:
    """Rows of Arrow's file format (polars, pandas) or stream format (`datasets`)."""
    import pyarrow as pa

    size = max(1, file.stat().st_size)
    try:
        with file.open("rb") as stream:
            for number, row in _batch_rows(file, _arrow_batches(stream)):
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


def _batch_rows(file: Path, batches: Iterable["pa.RecordBatch"]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows with their numbers from 1; a row could hold but one of two columns of a name."""

    def rows() -> Iterator[dict[str, Any]]:
        for batch in batches:
            check_columns(file, batch.schema.names)
            yield from batch.to_pylist()

    return enumerate(rows(), start=1)


READERS: dict[str, Callable[[Path], Iterator[ReadRow]]] = {
    ".jsonl": read_lines,
    ".json": read_json,
    ".csv": read_csv,
    ".parquet": _parquet_rows,
    ".arrow": _arrow_rows,
}
SUFFIXES = (*READERS, ".jsonl.gz", ".json.gz", ".csv.gz")
