"""Rows of a source that is read once, assigned to shards on disk: a corpus may be larger than memory.

<home>/lake/.work/spool/5f2c…/003.arrow      rows of shard 003, in the source's order
<home>/lake/.work/spool/5f2c…/empty.arrow    their columns
<home>/lake/.work/spool/5f2c…/filled.json    the shards that have rows; written when the source was read to its end

Every shard is made in a run of its own, possibly in another process: all of them read the same spool. It goes with the
last of them, or when another version of the source is read; a lock keeps it while somebody fills or reads it.
"""

import json
import shutil
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pyarrow as pa

from cpmi_dagster.files.locks import locked, locked_if_free
from cpmi_dagster.files.whole_files import write_whole

OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
EMPTY = "empty"
SPOOL = "spool"
"""The folder of spools among unfinished work."""


class ShardSpool:
    """The rows of one version of a source by shard, in a folder of its own among other spools."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, shard: str, batches: Callable[[], Iterable[pl.DataFrame]]) -> pl.DataFrame:
        """The rows of a shard, in the order they came; the source is read first, unless that was done.

        Args:
            batches: reads rows with a `shard` column; all batches have the same columns, and there is at least one.
        """
        with locked(_lock_of(self.folder)):
            if not self._filled.is_file():
                self._fill(batches())
            has_rows = shard in json.loads(self._filled.read_text(encoding="utf-8"))
            # not mapped into memory: the file may go as soon as the lock is released
            return pl.read_ipc_stream(self._path(shard if has_rows else EMPTY).read_bytes())

    @property
    def filled_at(self) -> str:
        """When the source was read, in UTC to the second."""
        return datetime.fromtimestamp(self._filled.stat().st_mtime, UTC).isoformat(timespec="seconds")

    def _fill(self, batches: Iterable[pl.DataFrame]) -> None:
        remove_spools(self.folder.parent, but=self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        writers: dict[str, pa.RecordBatchStreamWriter] = {}
        columns = pl.DataFrame()
        with ExitStack() as open_files:
            for rows in batches:
                columns = rows.drop("shard").clear()
                for (shard,), part in rows.partition_by("shard", as_dict=True, include_key=False).items():
                    table = part.to_arrow()
                    if shard not in writers:
                        writer = pa.ipc.new_stream(self._path(shard), table.schema, options=OPTIONS)
                        writers[shard] = open_files.enter_context(writer)
                    writers[shard].write_table(table)
        columns.write_ipc_stream(self._path(EMPTY))
        write_whole(self._filled, json.dumps(sorted(writers)))

    @property
    def _filled(self) -> Path:
        return self.folder / "filled.json"

    def _path(self, shard: str) -> Path:
        return self.folder / f"{shard}.arrow"


def remove_spools(spools: Path, but: Path | None = None) -> None:
    """Remove the spools that no process is filling or reading.

    Args:
        but: one that stays.
    """
    for folder in filter(Path.is_dir, spools.glob("*")):
        if folder == but:
            continue
        with locked_if_free(_lock_of(folder)) as is_free:
            if is_free:
                shutil.rmtree(folder, ignore_errors=True)
                _lock_of(folder).unlink(missing_ok=True)


def _lock_of(folder: Path) -> Path:
    return folder.with_suffix(".lock")
