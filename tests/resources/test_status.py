"""What `cpmi status` counts: the files on disk in whatever state, and the time left as far as it is known."""

from dataclasses import asdict
from io import StringIO
from pathlib import Path

import dagster as dg
import polars as pl
import pytest
from rich.console import Console

from cpmi_dagster.cli.status_view import show_interrupted, show_status, time_left
from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.keys import SELECTED, TRAJECTORIES, TRUTH
from cpmi_dagster.definitions import STAGE_BY_TABLE, build_definitions, home_of
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag import status
from cpmi_dagster.resources.dag.instance import FAILURE_REASON, PARTITION_TAG, STOPPED, open_instance
from cpmi_dagster.resources.dag.jobs import LABEL
from cpmi_dagster.resources.dag.status import (
    AssetStatus,
    Stale,
    describe_labels,
    describe_pilot,
    home_status,
    what_is_stale,
)
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.parquet import Record
from cpmi_dagster.resources.sources import hub

NEGATIVES = "labels/hard_negatives"
ROWS = pl.DataFrame({"trajectory_id": ["t1"], "rank": [1], "answer": ["3"], "source": ["model"]})


def test_rows_and_costs_are_those_of_the_files_whatever_became_of_later_runs(tmp_path, monkeypatch):
    settings = load_settings("miniature", tmp_path)
    states = {"000": "failed", "001": "running", "002": "missing"}
    for shard in ("000", "001"):
        record = Record(NEGATIVES, shard, "key", "run", "model", "1", cost=asdict(Cost(wall_seconds=2)))
        Lake.of(settings).write(ROWS, record)
    monkeypatch.setattr(status, "partition_states", lambda *_: dict(states))
    asset = next(each for each in home_status(settings, {}) if each.key == NEGATIVES)
    assert (asset.files, asset.rows, asset.cost.wall_seconds, asset.seconds_left) == (2, 2, 4, 6)


def test_a_run_that_was_stopped_is_interrupted_in_one_line_and_one_with_an_error_has_failed(tmp_path, monkeypatch):
    settings = load_settings("miniature", tmp_path)
    job, signal = build_definitions(home_of(settings)).get_repository_def().get_job(LABEL), {FAILURE_REASON: STOPPED}
    with open_instance(settings) as instance:
        for shard, tags in (("000", {}), ("000", signal), ("001", signal), ("001", {})):
            run = instance.create_run_for_job(job, tags={PARTITION_TAG: shard, **tags})
            instance.report_run_failed(run)
        killed = instance.create_run_for_job(job, tags={PARTITION_TAG: "002"})
        instance.report_dagster_event(dg.DagsterEvent("PIPELINE_START", job.name), killed.run_id)
        monkeypatch.setattr(status, "is_orphaned", lambda _, record: record.dagster_run.run_id == killed.run_id)
        assets = home_status(settings, STAGE_BY_TABLE)
    labels = [asset.partitions for asset in assets if asset.key.startswith("labels/")]
    states = {"000": "interrupted", "001": "failed", "002": "interrupted", "003": "missing"}
    assert labels.count(states) == 8, labels
    console = Console(file=StringIO(), width=200)
    show_interrupted(console, assets, settings)
    said = "Interrupted  labels 000 002: the process was stopped; `cpmi run -p miniature` continues\n"
    assert console.file.getvalue() == said
    show_interrupted(console, assets, settings, 8)
    assert "`cpmi run -p miniature --limit 8` continues, without --limit labels all" in console.file.getvalue()


def test_after_a_pilot_the_marks_of_what_the_whole_run_replaces_say_so_and_how_long_it_takes(tmp_path):
    settings = load_settings("miniature", tmp_path)
    assets = [AssetStatus("labels/a", {"000": "stale"}, 1, 5, Cost(wall_seconds=40))]
    stale = Stale(["labels"], "2026-01-31 00:00", "a reason")
    left = "so far; about 160 s for the other 32, at the rate of the pilot's 8."
    for why, mark, time in (
        (stale._replace(pilot=8, labelled=8, others=32), "○ of the pilot", left),
        (stale, "○ stale", "so far; nothing is known yet of the time left"),
    ):
        console = Console(file=StringIO(), width=200)
        show_status(console, assets, settings, why, False)
        assert mark in console.file.getvalue() and time in console.file.getvalue()


def test_judged_rows_that_are_no_trajectories_are_none_of_those_that_a_pilot_leaves(tmp_path, monkeypatch):
    names = pl.DataFrame({"trajectory_id": ["t1", "t2"], "row_number": [1, 2]})
    tables = {TRAJECTORIES: names, SELECTED: names.head(1), TRUTH: pl.DataFrame({"row_number": [1, 2, 3]})}
    monkeypatch.setattr(Lake, "read", lambda _, key, columns: tables[key].select(columns))
    monkeypatch.setattr(Lake, "has_table", lambda *_: True)
    settings = load_settings("miniature", tmp_path).limited(20)
    assert describe_pilot(settings).endswith("trajectories at most are labelled, and 1 other is judged")


def test_time_left_is_said_of_measured_tables_alone_with_the_number_of_others():
    done = AssetStatus("labels/a", {"000": "done"}, 1, 5, Cost(wall_seconds=9))
    half = AssetStatus("labels/b", {"000": "done", "001": "running"}, 1, 5, Cost(wall_seconds=300))
    # of stale rows, nobody knows how much is kept
    quick = AssetStatus("labels/c", {"all": "stale"}, 1, 5, Cost(wall_seconds=800))
    missing = AssetStatus("models/d", {"x": "missing"}, 0, 0, Cost())
    assert time_left([done]) == "nothing is left to do"
    assert time_left([half, done]) == "about 300 s left for 1 of 1 unfinished tables"
    known = "about 300 s left for 1 of 3 unfinished tables; nothing is known of the other 2"
    assert time_left([done, half, quick, missing]) == known
    assert time_left([done, missing]) == "nothing is known yet of the time left; 1 of 2 tables are unfinished"


@pytest.mark.parametrize("has_run", [False, True])
def test_status_writes_nothing_and_asks_the_hub_nothing(tmp_path, monkeypatch, has_run):
    settings = load_settings("miniature", tmp_path / "home")
    monkeypatch.setattr(hub, "_resolve", lambda *_: pytest.fail("the hub was asked"))
    Lake.of(settings).write(ROWS, Record(NEGATIVES, "000", "key", "run", "model", "1"))
    if has_run:
        open_instance(settings).dispose()
    # the profile has been changed since
    labeler = settings.models.labeler.model_copy(update={"name": "Qwen/Qwen3-8B-Base", "revision": None})
    models, gpus = (
        settings.models.model_copy(update={"labeler": labeler}),
        settings.orchestration.model_copy(update={"gpus": 7}),
    )
    settings = settings.model_copy(update={"models": models, "orchestration": gpus})

    def files() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in settings.home.rglob("*") if path.is_file()}

    before = files()
    assert next(each for each in home_status(settings, STAGE_BY_TABLE) if each.key == NEGATIVES).files == 1
    assert what_is_stale(settings, STAGE_BY_TABLE) and describe_labels(settings) == "none yet"
    assert files() == before
