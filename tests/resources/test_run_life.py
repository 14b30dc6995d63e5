"""Whether a run lives is known by the lock that its process holds, however it was launched."""

import subprocess
import sys
import uuid

import dagster as dg
import pytest
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run
from dagster._core.launcher import WorkerStatus

from cpmi_dagster.definitions import MAKERS
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources import run_life
from cpmi_dagster.resources.dagster_home import dagster_folder, open_instance, view_instance
from cpmi_dagster.resources.pools import wait_for_pool
from cpmi_dagster.resources.run_launcher import WatchedRunLauncher
from cpmi_dagster.resources.run_life import ALIVE, hold_run, watched_executor
from cpmi_dagster.resources.status import home_status

STARTED, FAILURE = dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.FAILURE
# takes the lock of a run and ends without giving it back, as after a kill
HOLD_AND_DIE = "import sys, os; from pathlib import Path; from cpmi_dagster.resources.run_life import hold_run; "
HOLD_AND_DIE += "lock = hold_run(Path(sys.argv[1]), sys.argv[2]); os._exit(9)"


@pytest.fixture
def settings(tmp_path):
    return load_settings("miniature", tmp_path)


def started(instance: dg.DagsterInstance, status: dg.DagsterRunStatus = STARTED, **options) -> str:
    """A run that Dagster has as at work."""
    job = dg.GraphDefinition("nothing").to_job()
    run = instance.create_run_for_job(job, **options)
    instance.report_dagster_event(_start(job.name), run.run_id)
    if status == dg.DagsterRunStatus.CANCELING:
        instance.report_run_canceling(run)
    return run.run_id


def _start(job: str) -> dg.DagsterEvent:
    return dg.DagsterEvent(event_type_value="PIPELINE_START", job_name=job)


def kill(settings, run_id: str) -> None:
    """The process of a run takes its lock and is gone."""
    subprocess.run([sys.executable, "-c", HOLD_AND_DIE, str(dagster_folder(settings)), run_id], check=False)


def test_a_run_whose_process_is_gone_is_marked_failed_and_one_that_lives_is_not(settings):
    with open_instance(settings) as instance:
        dead, alive = started(instance), started(instance)
    kill(settings, dead)
    lock = hold_run(dagster_folder(settings), alive)
    with open_instance(settings) as instance:
        assert [instance.get_run_by_id(run).status for run in (dead, alive)] == [FAILURE, STARTED]
    lock.close()


def test_a_cancelled_run_whose_process_is_gone_ends_as_cancelled(settings):
    with open_instance(settings) as instance:
        run = started(instance, dg.DagsterRunStatus.CANCELING)
    kill(settings, run)
    with open_instance(settings) as instance:
        assert instance.get_run_by_id(run).status == dg.DagsterRunStatus.CANCELED


def test_a_run_that_has_no_lock_yet_is_given_a_moment(settings, monkeypatch):
    with open_instance(settings) as instance:
        run = started(instance)
    with open_instance(settings) as instance:
        assert instance.get_run_by_id(run).status == STARTED
    monkeypatch.setattr(run_life, "SECONDS_TO_TAKE_LOCK", -1.0)
    with open_instance(settings) as instance:
        assert instance.get_run_by_id(run).status == FAILURE


def test_a_run_that_ends_while_it_is_looked_at_keeps_its_end(settings, monkeypatch):
    with open_instance(settings) as instance:
        run = started(instance)

        def ends(*_: object) -> bool:
            instance.report_dagster_event(dg.DagsterEvent("PIPELINE_SUCCESS", "nothing"), run)
            return True

        monkeypatch.setattr(run_life, "has_died", ends)
        run_life.end_dead_runs(instance, dagster_folder(settings))
        assert instance.get_run_by_id(run).status == dg.DagsterRunStatus.SUCCESS


def test_status_shows_a_dead_run_as_failed_and_changes_nothing(settings):
    key = dg.AssetKey(["sources", "reference_problems"])
    with open_instance(settings) as instance:
        run = started(instance, tags={"dagster/partition": "001"})
    kill(settings, run)
    home_status(settings, MAKERS)
    with view_instance(settings) as instance:
        assert instance.get_run_by_id(run).status == STARTED
        assert not instance.get_latest_materialization_event(key)


def test_dagsters_run_monitoring_asks_the_lock(settings):
    with open_instance(settings) as instance:
        assert isinstance(instance.run_launcher, WatchedRunLauncher)
        assert instance.run_launcher.supports_check_run_worker_health
        dead, alive = started(instance), started(instance)
        kill(settings, dead)
        lock = hold_run(dagster_folder(settings), alive)
        states = [instance.run_launcher.check_run_worker_health(instance.get_run_by_id(run)) for run in (dead, alive)]
        assert [state.status for state in states] == [WorkerStatus.FAILED, WorkerStatus.RUNNING]
        lock.close()


def test_the_executor_of_every_launched_run_holds_its_lock(settings):
    folder, seen = dagster_folder(settings), []

    @dg.op
    def look(context: dg.OpExecutionContext) -> None:
        seen.append(run_life.life_of(folder / ALIVE / f"{context.run_id}.lock"))

    @dg.job(executor_def=watched_executor(dagster_folder(settings)))
    def looks() -> None:
        look()

    with open_instance(settings) as instance:
        run = instance.create_run_for_job(looks)
        # as the process of a launched run does
        assert execute_run(InMemoryJob(looks), run, instance).success
    assert seen == ["held"]


def claim(instance: dg.DagsterInstance, run_id: str) -> None:
    """Have a run hold the pool's only slot."""
    instance.event_log_storage.initialize_concurrency_limit_to_default("gpu")
    instance.event_log_storage.claim_concurrency_slot("gpu", run_id, "step")


@pytest.mark.parametrize("has_ended", [False, True])
def test_a_slot_that_a_dead_run_holds_is_waited_for_no_longer_than_it_takes_to_see(settings, caplog, has_ended):
    with open_instance(settings) as instance:
        run = started(instance)
        claim(instance, run)
        kill(settings, run)
        if has_ended:
            instance.report_run_failed(instance.get_run_by_id(run))
        wait_for_pool(instance, "gpu", dagster_folder(settings))
        assert instance.event_log_storage.get_concurrency_info("gpu").active_slot_count == 0
    assert "another run on this home is at work" in caplog.text


def test_the_locks_of_ended_runs_are_removed(settings):
    with open_instance(settings) as instance:
        run = started(instance)
        kill(settings, run)
    with open_instance(settings):
        pass
    with open_instance(settings):
        assert not list((dagster_folder(settings) / ALIVE).iterdir())


def test_the_lock_of_an_unknown_run_stays_as_long_as_a_process_holds_it(settings):
    lock = hold_run(dagster_folder(settings), str(uuid.uuid4()))
    with open_instance(settings):
        assert lock.path.exists()
    lock.close()
    with open_instance(settings):
        assert not lock.path.exists()
