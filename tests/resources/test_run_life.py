"""Whether a run lives is known by the lock that its process holds, however it was launched."""

import subprocess
import sys
import uuid

import dagster as dg
import pytest
from dagster._core.definitions.executor_definition import ExecutorDefinition
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.events import AssetMaterializationPlannedData
from dagster._core.execution.api import execute_run
from dagster._core.launcher import WorkerStatus

from cpmi_dagster.definitions import MAKERS
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag import run_life
from cpmi_dagster.resources.dag.dagster_home import dagster_folder, open_instance, view_instance
from cpmi_dagster.resources.dag.run_life import ALIVE, WatchedExecutor, WatchedRunLauncher, hold_run
from cpmi_dagster.resources.dag.status import home_status

STARTED, FAILURE = dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.FAILURE
CANCELED = dg.DagsterRunStatus.CANCELED
# takes the lock of a run and ends without giving it back, as after a kill
HOLD_AND_DIE = "import sys, os; from pathlib import Path; from cpmi_dagster.resources.dag.run_life import hold_run; "
HOLD_AND_DIE += "lock = hold_run(Path(sys.argv[1]), sys.argv[2]); os._exit(9)"


@pytest.fixture
def settings(tmp_path):
    return load_settings("miniature", tmp_path)


@dg.job
def nothing():
    """No step."""


def started(instance: dg.DagsterInstance, **options) -> str:
    """A run that Dagster has as at work."""
    run = instance.create_run_for_job(nothing, **options)
    instance.report_dagster_event(dg.DagsterEvent("PIPELINE_START", nothing.name), run.run_id)
    return run.run_id


def kill(settings, run_id: str) -> None:
    """The process of a run takes its lock and is gone."""
    subprocess.run([sys.executable, "-c", HOLD_AND_DIE, str(dagster_folder(settings)), run_id], check=False)


def test_orphaned_runs_end_as_failed_or_cancelled_and_one_that_lives_is_left_alone(settings):
    with open_instance(settings) as instance:
        runs = [started(instance) for _ in range(3)]
        instance.report_run_canceling(instance.get_run_by_id(runs[1]))
    for run in runs[:2]:
        kill(settings, run)
    lock = hold_run(dagster_folder(settings), runs[2])
    with open_instance(settings) as instance:
        assert [instance.get_run_by_id(run).status for run in runs] == [FAILURE, CANCELED, STARTED]
        assert [path.stem for path in (dagster_folder(settings) / ALIVE).iterdir()] == [runs[2]]
    lock.close()


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
        assert instance.get_run_by_id(run).status == dg.DagsterRunStatus.SUCCESS


def test_status_shows_an_orphaned_run_as_failed_and_changes_nothing(settings):
    key = dg.AssetKey(["labels", "step_rewards"])
    with open_instance(settings) as instance:
        run = started(instance, tags={"dagster/partition": "001"})
        planned = AssetMaterializationPlannedData(key, partition="001")
        event = dg.DagsterEvent("ASSET_MATERIALIZATION_PLANNED", nothing.name, event_specific_data=planned)
        instance.report_dagster_event(event, run)
    kill(settings, run)
    (rewards,) = [asset for asset in home_status(settings, MAKERS) if asset.key == "labels/step_rewards"]
    assert rewards.partitions["001"] == "failed"
    with view_instance(settings) as instance:
        assert instance.get_run_by_id(run).status == STARTED


def test_dagsters_run_monitoring_asks_the_lock(settings):
    with open_instance(settings) as instance:
        assert isinstance(instance.run_launcher, WatchedRunLauncher)
        assert instance.run_launcher.supports_check_run_worker_health
        orphan, alive = started(instance), started(instance)
        kill(settings, orphan)
        lock = hold_run(dagster_folder(settings), alive)
        states = [instance.run_launcher.check_run_worker_health(instance.get_run_by_id(run)) for run in (orphan, alive)]
        assert [state.status for state in states] == [WorkerStatus.FAILED, WorkerStatus.RUNNING]
        lock.close()


def test_the_executor_of_every_launched_run_holds_its_lock(settings):
    folder, seen = dagster_folder(settings), []

    @dg.op
    def look(context: dg.OpExecutionContext) -> None:
        seen.append(run_life.life_of(folder / ALIVE / f"{context.run_id}.lock"))

    @dg.job(executor_def=ExecutorDefinition.hardcoded_executor(WatchedExecutor(folder)))
    def looks() -> None:
        look()

    with open_instance(settings) as instance:
        # as the process of a launched run does
        assert execute_run(InMemoryJob(looks), instance.create_run_for_job(looks), instance).success
    assert seen == ["held"]


def test_the_lock_of_an_unknown_run_stays_as_long_as_a_process_holds_it(settings):
    lock = hold_run(dagster_folder(settings), str(uuid.uuid4()))
    with open_instance(settings):
        assert lock.path.exists()
    kill(settings, lock.path.stem)
    with open_instance(settings):
        assert not lock.path.exists()
