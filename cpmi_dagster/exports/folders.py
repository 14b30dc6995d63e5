"""Folders and files that an export writes: which it may replace, and the data set's own.

    mine/README.md                               the card
    mine/data/train-00000-of-00001.parquet       the rows
    mine/.cpmi-export.json                       {"kind": "dataset", "files": {"README.md": "5f0c…", …}, …}

A folder is replaced where it holds nothing but what an earlier export has written, byte by byte, as the last file says.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from cpmi_dagster.errors import StorageError, UsageError
from cpmi_dagster.files.file_states import file_digest
from cpmi_dagster.files.whole_files import try_to_write

RECORD = ".cpmi-export.json"
DATA = "data/train-00000-of-00001.parquet"
CARD = "README.md"
ROWS_AT_ONCE = 4096


def check_replaceable(folder: Path) -> None:
    """Refuse to write where something of the user's would be lost, before any work.

    Raises:
        UsageError: it is a file, or a folder that holds more than an earlier export has written.
        StorageError: its parent takes no files.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--to {folder} is a file; give a folder, or a file that ends in .duckdb")
    if Path.cwd().is_relative_to(folder):
        raise UsageError(f"--to {folder} is the folder that this command runs in; give another, or run it elsewhere")
    try:
        written = dict(json.loads((folder / RECORD).read_text(encoding="utf-8"))["files"])
    except (OSError, ValueError, KeyError, TypeError):
        written = {}
    for name in sorted(set(_files(folder)) - {RECORD}):
        path = folder / name
        is_exported = name in written and path.is_file() and not path.is_symlink()
        if not is_exported or written[name] != file_digest(path):
            why = "has changed since it was exported" if is_exported else "no export has written"
            raise UsageError(
                f"--to {folder} contains `{name}`, which {why}; give a new or empty folder, or move what is there away"
            )
    try:
        try_to_write(folder.absolute().parent)
    except OSError as error:
        raise StorageError(f"{folder} cannot be written ({error.strerror or error}); give another place") from error


def write_record(folder: Path, kind: str, facts: Mapping[str, Any]) -> None:
    """Note what was exported, and which files it is, with the sha256 of each; called last."""
    record = {"kind": kind, **facts, "files": {name: file_digest(folder / name) for name in sorted(_files(folder))}}
    (folder / RECORD).write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_rows(rows: pl.DataFrame, folder: Path, advance: Callable[[int, int], None]) -> None:
    """The rows as the Parquet file of the split `train`, in types that every reader of Arrow has.

    Args:
        advance: called with the numbers of rows just written and of all.
    """
    path = folder / DATA
    path.parent.mkdir(parents=True, exist_ok=True)
    # Polars' own types for texts and lists would become features of their own in `datasets`
    schema = pa.schema([(name, _arrow_type(dtype)) for name, dtype in rows.schema.items()])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for part in rows.iter_slices(ROWS_AT_ONCE):
            writer.write_table(part.to_arrow().cast(schema))
            advance(part.height, rows.height)


def _arrow_type(dtype: pl.DataType) -> pa.DataType:
    if isinstance(dtype, pl.List):
        return pa.list_(_arrow_type(dtype.inner))  # pyright: ignore[reportArgumentType]
    return {pl.String: pa.string(), pl.Float64: pa.float64(), pl.Boolean: pa.bool_()}[type(dtype)]


def _files(folder: Path) -> list[str]:
    """All that is in a folder but folders; a link to one is no folder of its own."""
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return [path.relative_to(folder).as_posix() for path in found]
