"""The lake: whole files or none, provenance in the file itself, chunks that survive a kill."""

import polars as pl
import pytest

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.errors import LakeError, StorageError
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.records import FileRecord, rows_hash

KEY = "labels/hard_negatives"
ROWS = pl.DataFrame({"trajectory_id": ["t1", "t1"], "rank": [1, 2], "answer": ["3", "5"], "source": ["model", "+1"]})


def record(made_by: str = "k", partition: str | None = "000") -> FileRecord:
    return FileRecord(KEY, partition, run_id="r", model="m@1", code_version="1", parts={"all": made_by})


@pytest.fixture
def lake(tmp_path) -> Lake:
    return Lake(tmp_path, "miniature")


def test_rows_come_back_as_they_were_written(lake):
    lake.write(ROWS, record())
    assert lake.read(KEY, "000").equals(ROWS)


def test_every_row_on_disk_carries_its_provenance(lake):
    lake.write(ROWS, record())
    stored = pl.read_parquet(lake.paths(KEY, "000")[0])
    assert stored.select("run_id", "model", "code_version").unique().rows() == [("r", "m@1", "1")]


KEYS = {"all": "k"}


@pytest.mark.parametrize("lost", ["gone", "other bytes"])
def test_a_file_is_not_found_where_what_it_points_at_is_gone_or_was_written_over(lake, lost):
    weights = lake.home / "weights"
    weights.touch()
    lake.write(ROWS, FileRecord(KEY, "000", "r", "m", "1", KEYS, files=["weights"]))
    assert lake.found(KEY, "000", KEYS, check=True)
    weights.write_text(lost) if lost == "other bytes" else weights.unlink()
    assert not lake.found(KEY, "000", KEYS, check=True)


def test_tables_that_are_made_again_are_not_found(lake):
    lake.write(ROWS, record())
    assert not Lake(lake.home, lake.profile, frozenset([KEY])).found(KEY, "000", KEYS, check=True)


def test_parts_are_found_in_the_files_that_have_them_and_read_from_no_others(lake):
    by_rank = {"1": "a", "2": "b"}
    lake.put(ROWS.head(1), FileRecord(KEY, "000", "r", "m", "1", {"1": "a"}))
    both = lake.put(ROWS, FileRecord(KEY, "000", "r", "m", "1", by_rank))
    assert lake.found(KEY, "000", by_rank, check=True) == {both.file_name: ["1", "2"]}
    second = {both.file_name: ["2"]}
    lake.count({(KEY, "000"): second})
    assert lake.read(KEY, "000").equals(ROWS.tail(1))
    assert lake.read_whole(KEY, "000").equals(ROWS)
    assert lake.record(KEY, "000").contents == {"2": rows_hash(ROWS.tail(1))}


def test_parts_of_several_files_are_one_table(lake):
    one, other = (
        lake.put(rows, FileRecord(KEY, "000", "r", "m", "1", {rank: rank}, cost=Cost(1.0, 2, 3).to_dict()))
        for rank, rows in (("2", ROWS.tail(1)), ("1", ROWS.head(1)))
    )
    lake.count({(KEY, "000"): {one.file_name: ["2"], other.file_name: ["1"]}})
    assert lake.read(KEY, "000").equals(ROWS)
    found = lake.record(KEY, "000")
    assert (found.rows, found.cost) == (2, Cost(2.0, 4, 6).to_dict())
    at_once = lake.put(ROWS, FileRecord(KEY, "000", "r", "m", "1", {"1": "1", "2": "2"}))
    assert found.content == at_once.content


def test_profiles_of_a_home_read_what_they_named(tmp_path):
    one, other = Lake(tmp_path, "one"), Lake(tmp_path, "other")
    one.write(ROWS, record("a"))
    other.write(ROWS.head(1), record("b"))
    assert (one.read(KEY, "000").height, other.read(KEY, "000").height) == (2, 1)


def test_a_home_of_an_earlier_form_is_refused(tmp_path):
    (tmp_path / "lake" / "selection").mkdir(parents=True)
    (tmp_path / "lake" / "selection" / "selected_trajectories.parquet").touch()
    with pytest.raises(LakeError, match="earlier version"):
        Lake(tmp_path, "miniature").exists(KEY)


def test_a_damaged_list_is_named(lake):
    lake.write(ROWS, record())
    (lake.root / ".current" / "miniature.json").write_text("[[")
    with pytest.raises(LakeError, match=r"miniature\.json"):
        lake.read(KEY, "000")


@pytest.mark.parametrize(
    "broken",
    [
        ROWS.with_columns(rank=pl.lit(0, pl.Int64)),
        ROWS.with_columns(rank=pl.lit(1, pl.Int64)),
        ROWS.with_columns(answer=pl.lit(None, pl.String)),
        ROWS.drop("source"),
    ],
    ids=["rule", "key", "null", "column"],
)
def test_rows_that_break_the_contract_are_not_written(lake, broken):
    with pytest.raises(LakeError, match="nothing was written"):
        lake.write(broken, record())
    assert not lake.exists(KEY)


def test_nan_never_reaches_a_table(lake):
    scores = pl.DataFrame({"trajectory_id": ["t"], "step_index": [0], "reward_type": ["mc"], "reward": [float("nan")]})
    with pytest.raises(LakeError, match="reward"):
        lake.write(scores, FileRecord("labels/step_rewards", "000", "r", "", "1"))


def test_a_truncated_file_is_an_error_that_says_what_to_do(lake):
    lake.write(ROWS, record())
    path = lake.paths(KEY, "000")[0]
    path.write_bytes(path.read_bytes()[:200])
    for read in (lambda: lake.record(KEY, "000"), lambda: lake.read(KEY, "000")):
        with pytest.raises(LakeError, match=r"damaged .*; run `cpmi run`, which makes it again"):
            read()
    assert lake.intact_record(KEY, "000") is None


def test_a_missing_table_says_how_to_get_it(lake):
    with pytest.raises(LakeError, match="run `cpmi run --only labels/hard_negatives`"):
        lake.read(KEY, "000")


def test_content_does_not_depend_on_the_run_that_wrote_it(lake):
    written = [lake.write(ROWS, FileRecord(KEY, "000", *facts)) for facts in (("r", "m", "1"), ("s", "n", "2"))]
    assert {each.content for each in written} == {rows_hash(ROWS)}
    assert rows_hash(ROWS.reverse()) != rows_hash(ROWS)


def test_content_does_not_depend_on_the_memory_that_rows_lie_in(lake):
    rows = ROWS.with_columns(answer=pl.Series(["a text of more than twelve bytes", "another one, as long as that"]))
    lake.write(rows, record())
    read = lake.read(KEY, "000")
    several = pl.concat([read.head(1), read.tail(1)], rechunk=False)
    assert rows_hash(read) == rows_hash(several) == rows_hash(read.reverse().reverse()) == rows_hash(rows)


def test_chunks_come_back_until_their_file_is_finished(lake):
    store = lake.chunks(KEY, "000", "fingerprint")
    store.save("0", {KEY: ROWS}, {"cost": 1})
    frames, facts = lake.chunks(KEY, "000", "fingerprint").load("0") or ({}, {})
    assert frames[KEY].equals(ROWS)
    assert facts == {"cost": 1}
    assert store.load("1") is None
    store.clear()
    assert store.load("0") is None


def test_chunks_of_other_inputs_are_not_used(lake):
    lake.chunks(KEY, "000", "old" * 8).save("0", {KEY: ROWS}, {})
    assert lake.chunks(KEY, "000", "new" * 8).load("0") is None


def test_a_chunk_without_its_closing_file_does_not_exist(lake):
    store = lake.chunks(KEY, "000", "fingerprint")
    store.save("0", {KEY: ROWS}, {})
    (store.folder / "chunk-0.json").unlink()
    assert store.load("0") is None


def test_reading_no_partitions_gives_no_rows(lake):
    lake.write(ROWS, record())
    assert lake.read(KEY, []).is_empty()
    assert lake.read(KEY).height == 2


def test_a_shard_that_was_copied_over_another_is_not_that_shard(lake):
    for shard in ("000", "001"):
        lake.write(ROWS, record(partition=shard))
    lake.paths(KEY, "001")[0].write_bytes(lake.paths(KEY, "000")[0].read_bytes())
    for read in (lake.record, lake.read, lake.check):
        with pytest.raises(LakeError, match=r"001/k.parquet is damaged \(it contains labels/hard_negatives 000"):
            read(KEY, "001")
    assert not lake.found(KEY, "001", KEYS, check=True)


def test_rows_of_a_file_in_which_a_bit_flipped_are_not_read(lake, flip):
    lake.write(ROWS, record())
    for place in range(0, lake.paths(KEY, "000")[0].stat().st_size, 7):
        flip(lake.paths(KEY, "000")[0], place)
        with pytest.raises(LakeError, match="damaged"):
            lake.read(KEY, "000", ["rank"])
        assert not lake.is_whole(KEY, "000")
        flip(lake.paths(KEY, "000")[0], place)
    assert lake.is_whole(KEY, "000")
    assert not lake.is_whole(KEY, "001")


def test_a_damaged_file_is_not_found_and_what_killed_writers_left_goes(lake, flip, caplog):
    lake.write(ROWS, record())
    path = lake.paths(KEY, "000")[0]
    flip(path, 40)
    left = path.with_name(".k.parquet.5f0c1f2a.cpmi-tmp")
    left.touch()
    lake.tables.tidy(KEY, "000")
    assert not left.exists()
    assert not lake.found(KEY, "000", KEYS, check=True)
    assert "k.parquet is damaged" in caplog.text
    lake.write(ROWS, record())
    assert lake.read(KEY, "000").equals(ROWS)


def test_a_lake_without_room_is_named_and_keeps_what_it_has(lake, full_disk):
    lake.write(ROWS, record())
    with full_disk(200), pytest.raises(StorageError, match=r"l\.parquet cannot be written .*make room"):
        lake.write(ROWS.reverse(), record("l"))
    assert lake.read(KEY, "000").equals(ROWS)
    assert [path.name for path in lake.paths(KEY, "000")[0].parent.iterdir()] == ["k.parquet"]


def test_a_run_reads_what_was_there_when_it_began(lake):
    lake.write(ROWS, record())
    fixed = lake.fixed()
    lake.write(ROWS.head(1), record("l"))
    assert fixed.read(KEY, "000").equals(ROWS)
    assert lake.read(KEY, "000").equals(ROWS.head(1))


@pytest.mark.parametrize("part", ["parquet", "json"])
def test_a_damaged_chunk_counts_as_not_made(lake, flip, part, caplog):
    store = lake.chunks(KEY, "000", "fingerprint")
    store.save("0", {KEY: ROWS}, {"cost": 1})
    (path,) = store.folder.glob(f"*.{part}")
    for place in range(path.stat().st_size):
        flip(path, place)
        assert store.load("0") is None
        flip(path, place)
    assert "cannot be used and is made again" in caplog.text
    assert store.load("0") is not None


def test_the_rows_of_one_chunk_are_not_taken_for_those_of_another(lake):
    store = lake.chunks(KEY, "000", "fingerprint")
    for name, rows in (("0", ROWS), ("1", ROWS.reverse())):
        store.save(name, {KEY: rows}, {})
    one, other = sorted(store.folder.glob("*.parquet"))
    other.write_bytes(one.read_bytes())
    assert store.load("0") and store.load("1") is None


def test_a_chunk_whose_rows_are_lost_counts_as_not_made(lake):
    store = lake.chunks(KEY, "000", "fingerprint")
    store.save("0", {KEY: ROWS}, {})
    next(store.folder.glob("*.parquet")).unlink()
    assert store.load("0") is None
