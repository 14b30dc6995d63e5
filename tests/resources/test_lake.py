"""The lake: whole files or none, each with what made it, and every kind of damage is found and named."""

import shutil
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from cpmi_dagster.errors import LakeError, StorageError
from cpmi_dagster.files.whole_files import UNFINISHED
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.lake.lake import CALLS, Lake
from cpmi_dagster.resources.lake.parquet import Record, rows_hash, write_sealed

PLACES = ("all/all", "4/003")
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
    stored = pl.read_parquet(lake.path(KEY, "000"))
    assert stored.select("run_id", "model", "code_version").unique().rows() == [("r", "m@1", "1")]


DAMAGES = {
    "missing": lambda path: path.unlink(),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "no Parquet": lambda path: path.write_bytes(b"PAR1" * 100),
    "of another shard": lambda path: shutil.copy(path.with_name("001.parquet"), path),
    "of another version": lambda path: write_sealed(ROWS, path, {"cpmi": f'{{"table": "{KEY}", "parts": {{}}}}'}),
}


@pytest.mark.parametrize("profile", [None, "miniature"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_cannot_be_used_is_named_and_has_no_record(tmp_path, damage, profile):
    # the advice names the profile, also if that is the default one: without `-p`, that of the last run is taken
    lake, option = (Lake.of(load_settings(profile, tmp_path)), " -p miniature") if profile else (Lake(tmp_path), "")
    for shard in ("000", "001"):
        lake.write(ROWS, replace(RECORD, partition=shard))
    DAMAGES[damage](lake.path(KEY, "000"))
    assert lake.record(KEY, "000") is None
    assert (lake.is_whole(KEY, "000"), lake.is_whole(KEY, "001")) == (False, True)
    words = f"000.parquet is damaged .*; run `cpmi run{option}`, which makes it again"
    if damage == "missing":
        words = f"{KEY} 000 has not been made yet; materialize it, or run `cpmi run{option} --only {KEY}`"
    for use in (lake.read, lake.content):
        with pytest.raises(LakeError, match=words):
            use(KEY, "000")


def test_any_flipped_bit_is_found(lake, flip):
    lake.write(ROWS, RECORD)
    path = lake.path(KEY, "000")
    for place in range(0, path.stat().st_size, 3):
        flip(path, place)
        assert not lake.is_whole(KEY, "000")
        if place % 48 == 0:
            with pytest.raises(LakeError, match=r"000.parquet is damaged"):
                lake.read(KEY, "000", ["rank"])
        flip(path, place)
    assert lake.is_whole(KEY, "000") and lake.read(KEY, "000").equals(ROWS)


def test_a_file_is_whole_only_with_what_its_rows_point_at(lake):
    weights = lake.home / "weights"
    weights.touch()
    lake.write(ROWS, replace(RECORD, files=["weights"]))
    assert lake.is_whole(KEY, "000")
    for lose in (lambda: weights.write_text("other bytes"), weights.unlink):
        lose()
        assert not lake.is_whole(KEY, "000")


REWARD_COLUMNS = ["trajectory_id", "step_index", "reward_type", "reward"]
BROKEN = {
    "rule": (KEY, ROWS.with_columns(rank=pl.lit(0, pl.Int64))),
    "key": (KEY, ROWS.with_columns(rank=pl.lit(1, pl.Int64))),
    "column": (KEY, ROWS.drop("source")),
    "NaN": (REWARDS, pl.DataFrame([("t", 0, "mc", float("nan"))], REWARD_COLUMNS, orient="row")),
}


@pytest.mark.parametrize(("key", "rows"), BROKEN.values(), ids=BROKEN)
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
        assert lake.read(KEY, shard).equals(other.read(KEY, shard)) and lake.is_whole(KEY, shard)
        assert replace(lake.record(KEY, shard), written_at=done.written_at) == done


def test_equal_rows_made_again_keep_the_time_at_which_they_were_made_and_others_do_not(lake):
    first = lake.write(ROWS, RECORD)
    again = lake.write(ROWS, replace(RECORD, key="other"))
    assert (again.key, again.written_at) == ("other", first.written_at)
    assert lake.write(ROWS, replace(RECORD, model="other@1")).written_at > first.written_at
    assert lake.write(ROWS.head(1), RECORD).written_at > first.written_at


def test_a_stream_whose_end_is_refused_and_a_full_disk_leave_the_old_rows_and_nothing_else(lake, full_disk):
    def refuse() -> None:
        raise LakeError("the source changed")

    lake.write(ROWS, RECORD)
    with pytest.raises(LakeError, match="the source changed"):
        records = {"000": RECORD, "001": replace(RECORD, partition="001")}
        lake.write_stream(KEY, [in_shard(ROWS.head(1), "000")], records, refuse)
    with full_disk(200), pytest.raises(StorageError, match=r"000\.parquet cannot be written .*make room on its disk"):
        lake.write(ROWS.reverse(), RECORD)
    assert lake.read(KEY).equals(ROWS)
    assert [path.name for path in lake.path(KEY, "000").parent.iterdir()] == ["000.parquet"]


def test_unfinished_answers_that_recipes_share_are_removed_unless_another_recipe_is_being_made(lake):
    models = "models/process_reward_models"

    def killed() -> list[Path]:
        files = [
            lake.root / models / CALLS / "5f0c" / place / f".8d01.parquet.0a1b2c3d{UNFINISHED}" for place in PLACES
        ]
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        return files

    with lake.lock_partition(models, "mc", print):
        with lake.lock_partition(models, "cpmi", print):
            files = killed()
            lake.tidy(models, "mc")
            assert all(file.exists() for file in files), "the other may be writing them"
        lake.tidy(models, "mc")
        assert not any(file.exists() for file in files)
