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
)

from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import StorageError
from cpmi_dagster.resources.dag.stage import Stage, stage
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.dag.staleness import Staleness
from cpmi_dagster.resources.lake.home_files import LateWrite
from cpmi_dagster.resources.lake.lake import FileRecord, Lake
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
    run.lake.chunks(SCORES, "000", "f" * 16).save("0", {SCORES: rewards("a")}, {})
    run.lake.path(SCORES, "000").with_name(".shard=000.parquet.5f0c1f2a.cpmi-tmp").touch()
    declared.bring_up_to_date(run, "000")
    left = {path.name for path in run.lake.root.rglob("*") if path.is_file() and path.suffix != ".lock"}
    assert left == {"shard=000.parquet", *(path.name for path in run.lake.root.rglob("*empty.parquet"))}


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

    original = Lake.write
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(Lake, "write", write_and_die)
        two_tables.bring_up_to_date(run, "000")
    assert not run.lake.exists(LOGPROBS)
    two_tables.bring_up_to_date(run, "000")
    assert run.lake.is_whole(LOGPROBS, "000") and run.lake.is_whole(REJECTED, "000")


@pytest.mark.parametrize("lost", [LOGPROBS, REJECTED])
def test_one_table_of_two_that_was_deleted_comes_back(run_of, two_tables, lost):
    run = run_of(two_tables)
    two_tables.bring_up_to_date(run, "000")
    run.lake.path(lost, "000").unlink()
    two_tables.bring_up_to_date(run, "000")
    assert run.lake.is_whole(lost, "000")
    assert two_tables.bring_up_to_date(run, "000")[lost]["skipped"]


def test_a_damaged_file_is_made_again_by_its_own_stage(run_of):
    calls: list[str] = []
    declared = counting_stage(calls)
    run = run_of(declared)
    select(run, {"t1": "000"})
    declared.bring_up_to_date(run, "000")
    path = run.lake.path(NEGATIVES, "000")
    path.write_bytes(path.read_bytes()[:100])
    declared.bring_up_to_date(run, "000")
    assert calls == ["000", "000"]
    assert run.lake.read(NEGATIVES, "000").height == 1


def test_a_damaged_file_counts_as_stale(run_of):
    declared = counting_stage([])
    run = run_of(declared)
    select(run, {"t1": "000"})
    declared.bring_up_to_date(run, "000")
    path = run.lake.path(NEGATIVES, "000")
    path.write_bytes(path.read_bytes()[:100])
    assert Staleness(run, {NEGATIVES: declared}).partitions(NEGATIVES) == {"000": f"{NEGATIVES} 000 is damaged"}


def test_a_file_in_which_a_bit_flipped_is_made_again_by_its_own_stage(run_of, flip):
    calls: list[str] = []
    declared = counting_stage(calls)
    run = run_of(declared)
    select(run, {"t1": "000"})
    declared.bring_up_to_date(run, "000")
    flip(run.lake.path(NEGATIVES, "000"), 30)
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
    shutil.copy(run.lake.path(NEGATIVES, "000"), run.lake.path(NEGATIVES, "001"))
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


def test_a_run_that_is_late_waits_for_the_other_to_write_the_last_of_its_tables(run_of, monkeypatch):
    @stage(LOGPROBS, also=[REJECTED], inputs=[])
    def score(run: StageRun, shard: str) -> StageOutput:
        """Scores nothing."""
        return StageOutput({key: TABLES[key].schema.create_empty() for key in (LOGPROBS, REJECTED)})

    run, write, first = run_of(score), Lake.write, []

    def late(lake: Lake, frame: pl.DataFrame, record: FileRecord) -> None:
        first.append(write(lake, frame, record))  # by the other run, which has the second table still to write
        raise LateWrite("another run was first")

    def sleep(seconds: float) -> None:
        if seconds == 1:
            write(run.lake, TABLES[LOGPROBS].schema.create_empty(), replace(first[0], table=LOGPROBS))

    monkeypatch.setattr(Lake, "write", late)
    monkeypatch.setattr("cpmi_dagster.resources.dag.stage.time.sleep", sleep)
    shown = score.bring_up_to_date(run, "000")
    assert [record.table for record in first] == [REJECTED]
    assert shown[LOGPROBS]["skipped"]
