"""The lake: whole files or none, each with what made it, and every kind of damage is found and named."""

import shutil
from dataclasses import replace

import polars as pl
import pytest

from cpmi_dagster.errors import LakeError, StorageError
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.records import Record, rows_hash
from cpmi_dagster.resources.lake.sealed_parquet import is_intact, write_sealed

KEY, REWARDS = "labels/hard_negatives", "labels/step_rewards"
ROWS = pl.DataFrame({"trajectory_id": ["t1", "t1"], "rank": [1, 2], "answer": ["3", "5"], "source": ["model", "+1"]})
RECORD = Record(
    KEY, "000", key="k", run_id="r", model="m@1", code_version="1", facts={"seed": 0}, notes=["short"], files=[]
)


def in_shard(rows: pl.DataFrame, shard: str) -> pl.DataFrame:
    return rows.with_columns(shard=pl.lit(shard))


@pytest.fixture
def lake(tmp_path) -> Lake:
    return Lake(tmp_path)


def test_rows_come_back_by_partition_and_column_with_the_record_of_what_made_them(lake):
    done = lake.write(ROWS, RECORD)
    lake.write(ROWS.with_columns(trajectory_id=pl.lit("t2")), replace(RECORD, partition="001"))
    assert lake.read(KEY, "000").equals(ROWS)
    assert lake.read(KEY, ["001"], ["trajectory_id"]).rows() == [("t2",), ("t2",)]
    assert (lake.read(KEY).height, lake.read(KEY, []).height, lake.partitions(KEY)) == (4, 0, ["000", "001"])
    assert lake.record(KEY, "000") == done
    assert (done.rows, done.content, done.facts) == (2, rows_hash(ROWS), {"seed": 0})
    assert lake.head(KEY, "000", 1).equals(ROWS.head(1))
    stored = pl.read_parquet(lake.path(KEY, "000"))
    assert stored.select("run_id", "model", "code_version").unique().rows() == [("r", "m@1", "1")]


def test_content_depends_on_rows_alone(lake):
    rows = ROWS.with_columns(answer=pl.Series(["a text of more than twelve bytes", "another one, as long as that"]))
    written = [lake.write(rows, replace(RECORD, key=key, run_id=key)).content for key in ("k", "l")]
    read = lake.read(KEY, "000")
    several = pl.concat([read.head(1), read.tail(1)], rechunk=False)
    assert {*written} == {rows_hash(rows)} == {rows_hash(several)} == {rows_hash(read.reverse().reverse())}
    assert rows_hash(rows.reverse()) != rows_hash(rows)


@pytest.mark.parametrize("damage", ["missing", "truncated", "no Parquet", "copied from 001", "of another version"])
def test_a_file_that_cannot_be_used_is_named_and_has_no_record(lake, damage):
    for shard in ("000", "001"):
        lake.write(ROWS, replace(RECORD, partition=shard))
    path, words = lake.path(KEY, "000"), "000.parquet is damaged .*; run `cpmi run`, which makes it again"
    if damage == "missing":
        path.unlink()
        words = f"{KEY} 000 has not been made yet; materialize it, or run `cpmi run --only {KEY}`"
    elif damage == "truncated":
        path.write_bytes(path.read_bytes()[:-20])
    elif damage == "no Parquet":
        path.write_bytes(b"PAR1" * 100)
    elif damage == "copied from 001":
        shutil.copy(lake.path(KEY, "001"), path)
    else:
        write_sealed(ROWS, path, {"cpmi": '{"table": "labels/hard_negatives", "parts": {}}'})
    assert lake.record(KEY, "000") is None
    assert not lake.is_whole(KEY, "000")
    for use in (lake.read, lake.content):
        with pytest.raises(LakeError, match=words):
            use(KEY, "000")
    assert lake.is_whole(KEY, "001")


def test_any_flipped_bit_is_found(lake, flip):
    lake.write(ROWS, RECORD)
    path = lake.path(KEY, "000")
    for place in range(path.stat().st_size):
        flip(path, place)
        assert not lake.is_whole(KEY, "000")
        if place % 16 == 0:
            with pytest.raises(LakeError, match=r"000.parquet is damaged"):
                lake.read(KEY, "000", ["rank"])
        flip(path, place)
    assert lake.is_whole(KEY, "000") and lake.read(KEY, "000").equals(ROWS)


@pytest.mark.parametrize("text", ["sha256:" + "0" * 64, "sha256:" + "5f0c" * 16, "cpmi.seal"])
def test_texts_that_look_like_a_seal_do_no_harm(tmp_path, text):
    rows, path = pl.DataFrame({text: [text]}), tmp_path / "rows.parquet"
    write_sealed(rows, path, {"cpmi": text})
    assert is_intact(path) and pl.read_parquet(path).equals(rows)
    rows.write_parquet(path)
    assert not is_intact(path)


def test_rows_of_other_columns_say_what_to_do(lake):
    lake.write(ROWS, RECORD)
    footer = pl.read_parquet_metadata(lake.path(KEY, "000"))["cpmi"]
    write_sealed(ROWS.drop("source"), lake.path(KEY, "000"), {"cpmi": footer})
    with pytest.raises(LakeError, match=r"was made with other columns .*source.*; run `cpmi run` again"):
        lake.read(KEY, "000")


@pytest.mark.parametrize("lost", ["gone", "other bytes"])
def test_a_file_is_whole_only_with_what_its_rows_point_at(lake, lost):
    weights = lake.home / "weights"
    weights.touch()
    lake.write(ROWS, replace(RECORD, files=["weights"]))
    assert lake.is_whole(KEY, "000")
    weights.write_text(lost) if lost == "other bytes" else weights.unlink()
    assert not lake.is_whole(KEY, "000")


BROKEN = [
    (KEY, ROWS.with_columns(rank=pl.lit(0, pl.Int64))),
    (KEY, ROWS.with_columns(rank=pl.lit(1, pl.Int64))),
    (KEY, ROWS.with_columns(answer=pl.lit(None, pl.String))),
    (KEY, ROWS.drop("source")),
    (REWARDS, pl.DataFrame({"trajectory_id": "t", "step_index": 0, "reward_type": "mc", "reward": float("nan")})),
]


@pytest.mark.parametrize(("key", "rows"), BROKEN, ids=["rule", "key", "null", "column", "not a number"])
def test_rows_that_break_the_contract_are_not_written(lake, key, rows):
    record = replace(RECORD, table=key)
    with pytest.raises(LakeError, match=f"{key}: the rows break the table's contract, nothing was written"):
        lake.write(rows, record)
    with pytest.raises(LakeError, match="nothing was written"):
        lake.write_stream(key, [in_shard(rows, "001")], {"001": replace(record, partition="001")}, lambda: None)
    assert not [path for path in lake.root.rglob("*") if path.is_file()]


def test_a_stream_of_batches_writes_what_whole_frames_would(lake, tmp_path):
    frames = {"000": ROWS, "001": ROWS.clear(), "002": ROWS.tail(1)}
    records = {shard: replace(RECORD, partition=shard) for shard in frames}
    both = pl.concat([in_shard(ROWS.tail(1), "002"), in_shard(ROWS.head(1), "000")])
    lake.write_stream(KEY, [both, in_shard(ROWS.tail(1), "000")], records, lambda: None)
    other = Lake(tmp_path / "other")
    for shard, record in records.items():
        done = other.write(frames[shard], record)
        assert lake.read(KEY, shard).equals(other.read(KEY, shard))
        assert replace(lake.record(KEY, shard), written_at=done.written_at) == done
        assert lake.is_whole(KEY, shard)


def test_a_stream_whose_end_is_refused_writes_no_file(lake):
    def refuse() -> None:
        raise LakeError("the source changed")

    lake.write(ROWS, RECORD)
    with pytest.raises(LakeError, match="the source changed"):
        records = {"000": RECORD, "001": replace(RECORD, partition="001")}
        lake.write_stream(KEY, [in_shard(ROWS.head(1), "000")], records, refuse)
    assert lake.read(KEY).equals(ROWS)
    assert [path.name for path in lake.path(KEY, "000").parent.iterdir()] == ["000.parquet"]


def test_a_full_disk_is_one_sentence_and_nothing_is_lost(lake, full_disk):
    lake.write(ROWS, RECORD)
    with full_disk(200), pytest.raises(StorageError, match=r"000\.parquet cannot be written .*make room on its disk"):
        lake.write(ROWS.reverse(), RECORD)
    assert lake.read(KEY, "000").equals(ROWS)
    assert [path.name for path in lake.path(KEY, "000").parent.iterdir()] == ["000.parquet"]


def test_what_killed_writers_left_of_a_partition_goes(lake):
    lake.write(ROWS, RECORD)
    left, other = (lake.path(KEY, "000").with_name(f".{name}.parquet.5f0c1f2a.cpmi-tmp") for name in ("000", "001"))
    left.touch()
    other.touch()
    lake.tidy(KEY, "000")
    assert (left.exists(), other.exists(), lake.partitions(KEY)) == (False, True, ["000"])
