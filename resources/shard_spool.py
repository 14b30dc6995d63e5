"""Rows of a source that is read once, assigned to shards on disk: a corpus may be larger than memory.

<home>/lake/.work/spool/5f2c…/003.arrow      rows of shard 003, in the source's order; gone when the run ends
"""

import shutil
import uuid
import weakref
from pathlib import Path

import polars as pl
import pyarrow as pa
from filelock import FileLock, Timeout

OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class ShardSpool:
    """Takes batches of rows with a `shard` column, gives back the rows of a shard."""

    def __init__(self, folder: Path) -> None:
        """Begin an empty spool in a folder of spools, of which those of killed runs are removed."""
        remove_abandoned(folder)
        self.folder = folder / uuid.uuid4().hex
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(_lock_of(self.folder))
        lock.acquire()
        self.folder.mkdir()
        self._writers: dict[str, pa.RecordBatchStreamWriter] = {}
        self._empty = pl.DataFrame()
        weakref.finalize(self, _remove, self.folder, lock)

    def append(self, rows: pl.DataFrame) -> None:
        """Write a batch of rows to their `shard`; all batches have the same columns."""
        for (shard,), part in rows.partition_by("shard", as_dict=True, include_key=False).items():
            table = part.to_arrow()
            if shard not in self._writers:
                self._writers[shard] = pa.ipc.new_stream(self._path(shard), table.schema, options=OPTIONS)
            self._writers[shard].write_table(table)
        self._empty = rows.drop("shard").clear()

    def close(self) -> None:
        """No more rows come."""
        for writer in self._writers.values():
            writer.close()

    def read(self, shard: str) -> pl.DataFrame:
        """The rows of a shard, in the order they came; a shard without rows has the columns of the first batch."""
        path = self._path(shard)
        return pl.read_ipc_stream(path) if path.is_file() else self._empty

    def _path(self, shard: str) -> Path:
        return self.folder / f"{shard}.arrow"


def _lock_of(folder: Path) -> Path:
    return folder.with_suffix(".lock")


def _remove(folder: Path, lock: FileLock) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    lock.release()
    _lock_of(folder).unlink(missing_ok=True)


def remove_abandoned(spools: Path) -> None:
    """Remove the spools of processes that have ended: their lock is free."""
    for folder in filter(Path.is_dir, spools.glob("*")):
        lock = FileLock(_lock_of(folder))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            continue
        _remove(folder, lock)
