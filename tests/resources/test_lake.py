"""The lake: whole files or none, provenance in the file itself, chunks that survive a kill."""

import polars as pl
import pytest

from cpmi_dagster.errors import LakeError, StorageError
from cpmi_dagster.resources.lake.fingerprints import rows_hash
from cpmi_dagster.resources.lake.lake import FileRecord, Lake

KEY = "labels/hard_negatives"
ROWS = pl.DataFrame({"trajectory_id": ["t1", "t1"], "rank": [1, 2], "answer": ["3", "5"], "source": ["model", "+1"]})


def record(fingerprint: str = "f", partition: str | None = "000") -> FileRecord:
    return FileRecord(KEY, partition, fingerprint, run_id="r", model="m@1", code_version="1")


@pytest.fixture
def lake(tmp_path) -> Lake:
    return Lake(tmp_path)


def test_rows_come_back_as_they_were_written(lake):
    lake.write(ROWS, record())
    assert lake.read(KEY, "000").equals(ROWS)


def test_every_row_on_disk_carries_its_provenance(lake):
    lake.write(ROWS, record())
    stored = pl.read_parquet(lake.path(KEY, "000"))
    assert stored.select("run_id", "model", "code_version").unique().rows() == [("r", "m@1", "1")]


def test_a_file_that_points_at_a_deleted_file_cannot_be_kept(lake):
    weights = lake.home / "weights"
    weights.touch()
    lake.write(ROWS, FileRecord(KEY, "000", "a", "r", "m", "1", files=["weights"]))
    assert lake.usable_record(KEY, "000")
    weights.unlink()
    assert not lake.usable_record(KEY, "000")


def test_forgotten_tables_count_as_stale(tmp_path):
    Lake(tmp_path).write(ROWS, record("a"))
    assert not Lake(tmp_path, frozenset({KEY})).usable_record(KEY, "000")


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
        lake.write(scores, FileRecord("labels/step_rewards", "000", "f", "r", "", "1"))


def test_a_truncated_file_is_an_error_that_says_what_to_do(lake):
    lake.write(ROWS, record())
    path = lake.path(KEY, "000")
    path.write_bytes(path.read_bytes()[:200])
    for read in (lambda: lake.record(KEY, "000"), lambda: lake.read(KEY, "000")):
        with pytest.raises(LakeError, match=r"damaged .*; run `cpmi run`, which makes it again"):
            read()
    assert lake.intact_record(KEY, "000") is None


def test_a_missing_table_says_how_to_get_it(lake):
    with pytest.raises(LakeError, match="run `cpmi run --only labels/hard_negatives`"):
        lake.read(KEY, "000")


def test_content_does_not_depend_on_the_run_that_wrote_it(lake):
    written = [lake.write(ROWS, FileRecord(KEY, "000", "f", *facts)) for facts in (("r", "m", "1"), ("s", "n", "2"))]
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
    lake.write(ROWS, record())
    lake.path(KEY, "001").write_bytes(lake.path(KEY, "000").read_bytes())
    for read in (lake.record, lake.read, lake.check):
        with pytest.raises(LakeError, match=r"shard=001.parquet is damaged \(it contains labels/hard_negatives 000"):
            read(KEY, "001")


def test_rows_of_a_file_in_which_a_bit_flipped_are_not_read(lake, flip):
    lake.write(ROWS, record())
    for place in range(0, lake.path(KEY, "000").stat().st_size, 7):
        flip(lake.path(KEY, "000"), place)
        with pytest.raises(LakeError, match="damaged"):
            lake.read(KEY, "000", ["rank"])
        assert not lake.is_whole(KEY, "000")
        flip(lake.path(KEY, "000"), place)
    assert lake.is_whole(KEY, "000")
    assert not lake.is_whole(KEY, "001")


def test_a_damaged_file_is_put_aside_and_what_killed_writers_left_goes(lake, flip):
    for shard in ("000", "001"):
        lake.write(ROWS, record(partition=shard))
    flip(lake.path(KEY, "000"), 40)
    left = lake.path(KEY, "001").with_name(".shard=001.parquet.5f0c1f2a.cpmi-tmp")
    left.touch()
    said = []
    for shard in ("000", "001", "002"):
        lake.tidy(KEY, shard, said.append)
    assert lake.partitions(KEY) == ["001"]
    assert not left.exists()
    (sentence,) = said
    assert "shard=000.parquet is damaged" in sentence and ".damaged" in sentence
    assert len(list(lake.root.glob(".damaged/*.parquet"))) == 1


def test_a_file_that_cannot_be_read_is_not_put_aside(lake):
    path = lake.path(KEY, "000")
    path.mkdir(parents=True)
    with pytest.raises(LakeError, match=r"cannot be read .*permissions"):
        lake.tidy(KEY, "000")
    assert path.is_dir()


def test_a_lake_without_room_is_named_and_keeps_what_it_has(lake, full_disk):
    lake.write(ROWS, record())
    with full_disk(200), pytest.raises(StorageError, match=r"shard=000\.parquet cannot be written .*make room"):
        lake.write(ROWS.reverse(), record())
    assert lake.read(KEY, "000").equals(ROWS)
    assert [path.name for path in lake.path(KEY, "000").parent.iterdir()] == ["shard=000.parquet"]


def test_files_are_read_in_the_version_asked_for_or_not_at_all(lake):
    content = lake.write(ROWS, record()).content
    fixed = lake.at({(KEY, "000"): content})
    lake.write(ROWS, record("made again, with the same rows"))
    assert fixed.read(KEY, "000").equals(ROWS)
    lake.write(ROWS.head(1), record())
    with pytest.raises(LakeError, match="labels/hard_negatives 000 was rebuilt while this run was about to read it"):
        fixed.read(KEY, "000")


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
