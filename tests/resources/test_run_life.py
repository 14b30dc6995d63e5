"""Whether a run lives is known by the lock that its process holds, however it was launched."""

import subprocess
import sys
import uuid

import dagster as dg
import pytest
from dagster._core.events import AssetMaterializationPlannedData

from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.dag import run_life
from cpmi_dagster.resources.dag.dagster_home import dagster_folder, open_instance, view_instance
from cpmi_dagster.resources.dag.run_life import ALIVE, hold_run
from cpmi_dagster.resources.dag.status import home_status

STARTED, FAILURE = dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.FAILURE
CANCELED, SUCCESS = dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.SUCCESS
# takes the lock of a run and ends without giving it back, as after a kill
HOLD_AND_DIE = """
import os, sys
from pathlib import Path
from cpmi_dagster.resources.dag.run_life import hold_run
hold_run(Path(sys.argv[1]), sys.argv[2])
os._exit(9)
"""


@pytest.fixture
def settings(tmp_path) -> Settings:
    return load_settings("miniature", tmp_path)


@dg.job
def nothing():
    """No step."""


def started(instance: dg.DagsterInstance, **options) -> str:
    """A run that Dagster has as at work."""
    run = instance.create_run_for_job(nothing, **options)
    instance.report_dagster_event(dg.DagsterEvent("PIPELINE_START", nothing.name), run.run_id)
    return run.run_id


def kill(settings: Settings, run_id: str) -> None:
    """The process of a run takes its lock and is gone."""
    subprocess.run([sys.executable, "-c", HOLD_AND_DIE, str(dagster_folder(settings)), run_id], check=False)


def locks(settings: Settings) -> list[str]:
    return [path.stem for path in (dagster_folder(settings) / ALIVE).iterdir()]


def test_orphaned_runs_end_as_failed_or_cancelled_and_one_that_lives_is_left_alone(settings):
    with open_instance(settings) as instance:
        runs = [started(instance) for _ in range(3)]
        instance.report_run_canceling(instance.get_run_by_id(runs[1]))
    for run in runs[:2]:
        kill(settings, run)
    hold_run(dagster_folder(settings), runs[2])
    with open_instance(settings) as instance:
        assert [instance.get_run_by_id(run).status for run in runs] == [FAILURE, CANCELED, STARTED]
    assert locks(settings) == [runs[2]]


def test_a_run_that_has_no_lock_yet_is_given_a_moment(settings, monkeypatch):
    with open_instance(settings) as instance:
        run = started(instance)
    with open_instance(settings) as instance:
        assert instance.get_run_by_id(run).status == STARTED
    monkeypatch.setattr(run_life, "SECONDS_TO_TAKE_LOCK", -1.0)
    with open_instance(settings) as instance:
        assert instance.get_run_by_id(run).status == FAILURE


def test_a_run_that_ends_while_it_is_checked_keeps_its_end(settings, monkeypatch):
    with open_instance(settings) as instance:
        run = started(instance)

        def ends(*_: object) -> bool:
            instance.report_dagster_event(dg.DagsterEvent("PIPELINE_SUCCESS", "nothing"), run)
            return True

        monkeypatch.setattr(run_life, "is_orphaned", ends)
        run_life.end_orphaned_runs(instance, dagster_folder(settings))
        assert instance.get_run_by_id(run).status == SUCCESS


def test_status_shows_an_orphaned_run_as_failed_and_changes_nothing(settings):
    key = dg.AssetKey(["labels", "step_rewards"])
    with open_instance(settings) as instance:
        run = started(instance, tags={"dagster/partition": "001"})
        planned = AssetMaterializationPlannedData(key, partition="001")
        event = dg.DagsterEvent("ASSET_MATERIALIZATION_PLANNED", nothing.name, event_specific_data=planned)
        instance.report_dagster_event(event, run)
    kill(settings, run)
    [rewards] = [asset for asset in home_status(settings, {}) if asset.key == "labels/step_rewards"]
    assert rewards.partitions["001"] == "failed"
    with view_instance(settings) as instance:
        assert instance.get_run_by_id(run).status == STARTED


def test_the_lock_of_an_unknown_run_stays_as_long_as_a_process_holds_it(settings):
    held, killed, last = (str(uuid.uuid4()) for _ in range(3))
    hold_run(dagster_folder(settings), held)
    kill(settings, killed)
    assert {*locks(settings)} == {held, killed}
    with open_instance(settings):
        assert locks(settings) == [held]
    # a process is in one run at a time
    hold_run(dagster_folder(settings), last)
    assert locks(settings) == [last]
