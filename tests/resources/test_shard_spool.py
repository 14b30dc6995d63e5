"""Rows are dealt to shards on disk, and nothing of it stays."""

import gc

import polars as pl
from filelock import FileLock

from resources.shard_spool import ShardSpool


def batch(*rows: tuple[int, str]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"row_number": pl.Int64, "shard": pl.String}, orient="row")


def test_a_shard_gets_its_rows_in_the_order_they_came(tmp_path):
    spool = ShardSpool(tmp_path)
    for rows in (batch((0, "000"), (1, "001"), (2, "000")), batch((3, "000"))):
        spool.append(rows)
    spool.close()
    assert spool.read("000")["row_number"].to_list() == [0, 2, 3]
    assert spool.read("001")["row_number"].to_list() == [1]
    assert spool.read("002").schema == {"row_number": pl.Int64}


def test_a_spool_is_gone_with_the_run_that_made_it(tmp_path):
    spool = ShardSpool(tmp_path)
    spool.append(batch((0, "000")))
    spool.close()
    assert list(tmp_path.iterdir())
    del spool
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_what_a_killed_run_left_is_removed_and_a_living_ones_is_not(tmp_path):
    (tmp_path / "killed").mkdir()
    (tmp_path / "alive").mkdir()
    with FileLock(tmp_path / "alive.lock"):
        spool = ShardSpool(tmp_path)
        assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"alive", spool.folder.name}
