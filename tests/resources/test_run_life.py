"""Whether a run lives is known by the lock that its process holds, however it was launched."""

import subprocess
import sys

import dagster as dg

from cpmi_dagster.files.locks import hold, life_of
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag import instance as dagster_instance
from cpmi_dagster.resources.dag.instance import ALIVE, at_work, dagster_folder, hold_run

STARTED, FAILURE = dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.FAILURE
CANCELED, SUCCESS = dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.SUCCESS
# takes the locks of runs and ends without giving them back, as after a kill
HOLD_AND_DIE = """
import os, sys
from pathlib import Path
from cpmi_dagster.files.locks import hold
locks = [hold(Path(sys.argv[1], f"{run_id}.lock")) for run_id in sys.argv[2:]]
os._exit(9)
"""


@dg.job
def nothing():
    """No step."""


def started(instance: dg.DagsterInstance, **options) -> str:
    """A run that Dagster has as at work."""
    run = instance.create_run_for_job(nothing, **options)
    instance.report_dagster_event(dg.DagsterEvent("PIPELINE_START", nothing.name), run.run_id)
    return run.run_id


def kill(settings: Settings, *runs: str) -> None:
    """The process of some runs takes their locks and is gone."""
    command = [sys.executable, "-c", HOLD_AND_DIE, str(dagster_folder(settings) / ALIVE), *runs]
    assert subprocess.run(command, check=False).returncode == 9


def test_orphaned_runs_end_as_failed_or_cancelled_and_one_that_lives_is_left_alone(settings, monkeypatch):
    folder = dagster_folder(settings)
    with dg.DagsterInstance.ephemeral() as instance:
        *killed, living, _new = runs = [started(instance) for _ in range(4)]
        instance.report_run_canceling(instance.get_run_by_id(killed[1]))
        kill(settings, *killed)
        hold_run(settings, living)

        def statuses() -> list[dg.DagsterRunStatus]:
            dagster_instance.end_orphaned_runs(instance, settings)
            return [instance.get_run_by_id(run).status for run in runs]

        assert statuses() == [FAILURE, CANCELED, STARTED, STARTED]
        assert [path.stem for path in (folder / ALIVE).iterdir()] == [living]
        assert "another run of this home is at work (launched by Dagster, on nothing since" in at_work(
            instance, settings
        )
        # a run that has no lock yet is given a moment
        monkeypatch.setattr(dagster_instance, "SECONDS_TO_TAKE_LOCK", -1.0)
        assert statuses() == [FAILURE, CANCELED, STARTED, FAILURE]


def test_a_resumed_run_that_took_its_lock_again_is_alive_whoever_ends_the_first_process(settings, monkeypatch):
    folder = dagster_folder(settings)
    with dg.DagsterInstance.ephemeral() as instance:
        run = started(instance)
        lock = folder / ALIVE / f"{run}.lock"
        first, resumed = hold(lock), hold(lock)
        first.close()
        assert life_of(lock) == "held"
        resumed.close()
        assert life_of(lock) == "absent"
        # a launcher that checks its runs itself resumes one whose process died, while another process tidies up
        kill(settings, run)
        monkeypatch.setattr(type(instance.run_launcher), "supports_check_run_worker_health", True)
        get_run_records, again = instance.get_run_records, []

        def resume(*arguments):
            again.append(hold(lock))
            return get_run_records(*arguments)

        monkeypatch.setattr(instance, "get_run_records", resume)
        dagster_instance.end_orphaned_runs(instance, settings)
        assert life_of(lock) == "held" and not instance.get_run_by_id(run).is_finished
        instance.report_run_failed(instance.get_run_by_id(run))
        kill(settings, run)
        monkeypatch.undo()
        dagster_instance.end_orphaned_runs(instance, settings)
        assert life_of(lock) == "absent"
