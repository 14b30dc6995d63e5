"""Rows are assigned to shards on disk, read from the source once, and nothing of it stays."""

import polars as pl
import pytest
from filelock import FileLock

from cpmi_dagster.resources.sources.shard_spool import ShardSpool, remove_spools


def batch(*rows: tuple[int, str]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"row_number": pl.Int64, "shard": pl.String}, orient="row")


def test_a_shard_gets_its_rows_in_the_order_they_came_and_the_source_is_read_once(tmp_path):
    reads = []

    def batches():
        reads.append(1)
        return [batch((0, "000"), (1, "001"), (2, "000")), batch((3, "000"))]

    # as the runs of four shards, each with a spool of its own
    found = [ShardSpool(tmp_path / "a").read(shard, batches) for shard in ("000", "001", "002", "000")]
    assert [rows["row_number"].to_list() for rows in found] == [[0, 2, 3], [1], [], [0, 2, 3]]
    assert found[2].schema == {"row_number": pl.Int64}
    assert len(reads) == 1


def test_a_source_that_was_not_read_to_its_end_is_read_again(tmp_path):
    def breaks():
        yield batch((0, "000"))
        raise OSError("killed")

    spool = ShardSpool(tmp_path / "a")
    with pytest.raises(OSError, match="killed"):
        spool.read("000", breaks)
    assert spool.read("000", lambda: [batch((7, "000"))])["row_number"].to_list() == [7]


def test_a_shard_whose_file_is_lost_is_an_error_and_not_an_empty_shard(tmp_path):
    spool = ShardSpool(tmp_path / "a")
    spool.read("000", lambda: [batch((0, "000"))])
    (spool.folder / "000.arrow").unlink()
    with pytest.raises(FileNotFoundError):
        spool.read("000", lambda: [])


def test_the_spool_of_another_version_goes_and_one_that_is_in_use_stays(tmp_path):
    for name in ("old", "busy"):
        (tmp_path / name).mkdir()
    with FileLock(tmp_path / "busy.lock"):
        ShardSpool(tmp_path / "new").read("000", lambda: [batch((0, "000"))])
        remaining = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert remaining == {"busy", "new"}
    remove_spools(tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
