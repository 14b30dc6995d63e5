"""A stage goes on after a kill, a full disk or damage, and what comes out is the same."""

import shutil
from dataclasses import replace

import polars as pl
import pytest
from stage_examples import (
    LOGPROBS,
    NEGATIVES,
    REJECTED,
    SCORES,
    Killed,
    chunked_stage,
    counting_stage,
    rewards,
    select,
    states_of,
)

from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import StorageError
from cpmi_dagster.resources.dag.stage import Stage, stage
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.records import FileRecord, hash_of
from cpmi_dagster.resources.workers.chunks import StageOutput


def test_a_killed_run_continues_without_recomputing_and_ends_the_same(run_of):
    calls: list[list[str]] = []
    dying, living = chunked_stage(calls, die_at="e"), chunked_stage(calls, die_at=None)
    run = run_of(living)
    with pytest.raises(Killed):
        dying.bring_up_to_date(run, "000")
    assert not run.lake.exists(SCORES)
    living.bring_up_to_date(run, "000")
    living.bring_up_to_date(run, "001")
    assert calls == [["a", "b"], ["c", "d"], ["e"], ["a", "b"], ["c", "d"], ["e"]]
    assert run.lake.read(SCORES, "000").equals(run.lake.read(SCORES, "001"))
    resumed, whole = run.lake.record(SCORES, "000"), run.lake.record(SCORES, "001")
    assert resumed and whole
    assert (resumed.content, resumed.cost, resumed.notes) == (whole.content, whole.cost, whole.notes)
    assert resumed.cost["forward_tokens"] == 30


def test_finished_shards_leave_no_chunks_behind(run_of):
    declared = chunked_stage([], None)
    run = run_of(declared)
    declared.bring_up_to_date(run, "000")
    assert not list(run.lake.root.glob(".work/**/*.parquet"))


def test_what_killed_runs_left_of_a_finished_partition_goes(run_of):
    declared = chunked_stage([], None)
    run = run_of(declared)
    declared.bring_up_to_date(run, "000")
    (record,) = run.lake.records(SCORES, "000")
    own, another = (run.lake.chunks(SCORES, "000", name) for name in (hash_of(record.parts), "f" * 16))
    for chunks in (own, another):
        chunks.save("0", {SCORES: rewards("a")}, {})
    (path,) = run.lake.paths(SCORES, "000")
    path.with_name(".f.parquet.5f0c1f2a.cpmi-tmp").touch()
    declared.bring_up_to_date(run, "000")
    left = {each.name for each in run.lake.root.rglob("*") if each.is_file() and each.suffix != ".lock"}
    listed = {"miniature.json", "miniature.profile"}
    assert left == {path.name, *listed, "chunk-0.json", f"chunk-0.{SCORES.replace('/', '.')}.parquet"}
    assert own.load("0") is None
    assert another.load("0"), "another profile, or other settings, may go on from these"


def test_what_was_made_last_by_force_is_read_by_the_next_run(run_of):
    declared = chunked_stage([], None)
    run, names = run_of(declared), []
    forced = Lake(run.lake.home, run.lake.profile, frozenset([SCORES]))
    for lake in (run.lake, *[forced] * 5, run.lake):
        declared.bring_up_to_date(replace(run, lake=lake), "000")
        names.append([*run.lake.entry(SCORES, "000")])
    assert len(set(map(str, names))) == 6
    assert names[-1] == names[-2]


@pytest.fixture
def two_tables() -> Stage:
    @stage(LOGPROBS, also=[REJECTED])
    def logprobs(run: StageRun, shard: str) -> StageOutput:
        """Makes two empty tables."""
        return StageOutput({key: TABLES[key].schema.create_empty() for key in run.tables})

    return logprobs


def test_a_kill_between_the_tables_of_a_stage_leaves_the_first_for_the_end(run_of, two_tables, monkeypatch):
    run, written = run_of(two_tables), []

    def write_and_die(lake: Lake, frame: pl.DataFrame, record: FileRecord) -> FileRecord:
        written.append(record.table)
        if len(written) == 2:
            raise Killed
        return original(lake, frame, record)

    original = Lake.put
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(Lake, "put", write_and_die)
        two_tables.bring_up_to_date(run, "000")
    assert not run.lake.exists(LOGPROBS)
    two_tables.bring_up_to_date(run, "000")
    assert run.lake.is_whole(LOGPROBS, "000") and run.lake.is_whole(REJECTED, "000")


@pytest.mark.parametrize("lost", [LOGPROBS, REJECTED])
def test_one_table_of_two_that_was_deleted_comes_back(run_of, two_tables, lost):
    run = run_of(two_tables)
    two_tables.bring_up_to_date(run, "000")
    run.lake.paths(lost, "000")[0].unlink()
    two_tables.bring_up_to_date(run, "000")
    assert run.lake.is_whole(lost, "000")
    assert two_tables.bring_up_to_date(run, "000")[lost]["skipped"]


def test_a_damaged_file_is_made_again_by_its_own_stage(run_of):
    calls: list[str] = []
    declared = counting_stage(calls)
    run = run_of(declared)
    select(run, {"t1": "000"})
    declared.bring_up_to_date(run, "000")
    path = run.lake.paths(NEGATIVES, "000")[0]
    path.write_bytes(path.read_bytes()[:100])
    declared.bring_up_to_date(run, "000")
    assert calls == ["000", "000"]
    assert run.lake.read(NEGATIVES, "000").height == 1


def test_a_damaged_file_counts_as_stale(run_of):
    declared = counting_stage([])
    run = run_of(declared)
    select(run, {"t1": "000"})
    declared.bring_up_to_date(run, "000")
    path = run.lake.paths(NEGATIVES, "000")[0]
    path.write_bytes(path.read_bytes()[:100])
    assert states_of(run, declared).stale(NEGATIVES) == {"000": f"{NEGATIVES} 000 is damaged"}


def test_a_file_in_which_a_bit_flipped_is_made_again_by_its_own_stage(run_of, flip):
    calls: list[str] = []
    declared = counting_stage(calls)
    run = run_of(declared)
    select(run, {"t1": "000"})
    declared.bring_up_to_date(run, "000")
    flip(run.lake.paths(NEGATIVES, "000")[0], 30)
    declared.bring_up_to_date(run, "000")
    assert calls == ["000", "000"]
    assert run.lake.is_whole(NEGATIVES, "000")


def test_a_shard_that_was_copied_over_another_is_made_again(run_of):
    calls: list[str] = []
    declared = counting_stage(calls)
    run = run_of(declared)
    select(run, {"t1": "000"})
    for shard in ("000", "001"):
        declared.bring_up_to_date(run, shard)
    shutil.copy(run.lake.paths(NEGATIVES, "000")[0], run.lake.paths(NEGATIVES, "001")[0])
    declared.bring_up_to_date(run, "001")
    assert calls == ["000", "001", "001"]


def test_a_full_disk_is_one_sentence_and_the_next_run_goes_on(run_of, full_disk):
    calls: list[list[str]] = []
    declared = chunked_stage(calls, None)
    run = run_of(declared)
    with full_disk(300), pytest.raises(StorageError, match=r"cannot be written .*make room on its disk and run again"):
        declared.bring_up_to_date(run, "000")
    declared.bring_up_to_date(run, "000")
    assert calls == [["a", "b"], ["a", "b"], ["c", "d"], ["e"]]
    assert run.lake.read(SCORES, "000").height == 5
