"""Rows are assigned to shards on disk, read from the source once, and nothing of it stays."""

import polars as pl
import pytest
from filelock import FileLock

from resources.shard_spool import ShardSpool, remove_spools


def batch(*rows: tuple[int, str]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"row_number": pl.Int64, "shard": pl.String}, orient="row")


def test_a_shard_gets_its_rows_in_the_order_they_came(tmp_path):
    spool = ShardSpool(tmp_path / "a")
    spool.fill(lambda: [batch((0, "000"), (1, "001"), (2, "000")), batch((3, "000"))])
    assert spool.read("000")["row_number"].to_list() == [0, 2, 3]
    assert spool.read("001")["row_number"].to_list() == [1]
    assert spool.read("002").schema == {"row_number": pl.Int64}


def test_runs_of_other_shards_do_not_read_the_source_again(tmp_path):
    ShardSpool(tmp_path / "a").fill(lambda: [batch((0, "000"))])
    again = ShardSpool(tmp_path / "a")
    again.fill(lambda: pytest.fail("read twice"))
    assert again.read("000")["row_number"].to_list() == [0]


def test_a_source_that_was_not_read_to_its_end_is_read_again(tmp_path):
    def breaks():
        yield batch((0, "000"))
        raise OSError("killed")

    spool = ShardSpool(tmp_path / "a")
    with pytest.raises(OSError, match="killed"):
        spool.fill(breaks)
    spool.fill(lambda: [batch((7, "000"))])
    assert spool.read("000")["row_number"].to_list() == [7]


def test_the_spool_of_another_version_goes_and_one_that_is_being_filled_stays(tmp_path):
    for name in ("old", "busy"):
        (tmp_path / name).mkdir()
    with FileLock(tmp_path / "busy.lock"):
        ShardSpool(tmp_path / "new").fill(lambda: [batch((0, "000"))])
        remaining = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert remaining == {"busy", "new"}
    remove_spools(tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
