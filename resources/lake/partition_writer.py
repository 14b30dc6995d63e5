"""Writes a partition of the lake batch by batch; its record is complete at the end."""

import json
from collections.abc import Callable
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.resources.lake.records import FOOTER, Record, with_provenance
from cpmi_dagster.resources.lake.sealed_parquet import SEAL, seal

GROUP_ROWS = 1_000
"""Rows per row group, whose metadata stay in memory until the file is closed."""


class PartitionWriter:
    """Writes a sealed file.

    Args:
        path: of the file.
        record: of the file, without what follows from its rows.
    """

    def __init__(self, path: Path, record: Record) -> None:
        self._record, self._path, self._rows, self._digest = record, path, 0, sha256()
        self._waiting: list[pl.DataFrame] = []
        empty = with_provenance(TABLES[record.table].schema.create_empty(), record).to_arrow()
        self._writer = pq.ParquetWriter(path, empty.schema, compression="zstd", write_statistics=False)

    def add(self, frame: pl.DataFrame) -> None:
        """Add rows that `check_rows` has passed."""
        self._rows += frame.height
        self._waiting.append(frame)
        if sum(each.height for each in self._waiting) >= GROUP_ROWS:
            self._write()

    def _write(self) -> None:
        frame = pl.concat(self._waiting)
        self._waiting = []
        self._digest.update(frame.write_ndjson().encode())
        self._writer.write_table(with_provenance(frame, self._record).to_arrow())

    def close(self, complete: Callable[[Record, int, str], Record]) -> None:
        """Finish the file; `complete` adds the number of rows and their hash to the record."""
        if self._waiting:
            self._write()
        record = complete(self._record, self._rows, self._digest.hexdigest())
        self._writer.add_key_value_metadata({FOOTER: json.dumps(asdict(record)), **SEAL})
        self._writer.close()
        seal(self._path)
