"""Dagster's own folder: its configuration, and runs whose process is gone."""

import subprocess
import sys

import dagster as dg
import pytest
import yaml

from cpmi_dagster.errors import CpmiError, SettingsError
from cpmi_dagster.files import whole_files
from cpmi_dagster.files.process_identity import this_process
from cpmi_dagster.profiles.settings import load_settings
from resources import dagster_home
from resources.dagster_home import PROCESS_TAG, open_instance, wait_for_pool, write_dagster_yaml


@pytest.fixture
def settings(tmp_path):
    return load_settings("miniature", tmp_path)


def process_that_ended() -> str:
    script = "from cpmi_dagster.files.process_identity import this_process; print(this_process())"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def test_the_pool_has_as_many_slots_as_there_are_gpus(settings):
    orchestration = settings.orchestration.model_copy(update={"gpus": 3})
    folder = write_dagster_yaml(settings.model_copy(update={"orchestration": orchestration}))
    written = yaml.safe_load((folder / "dagster.yaml").read_text())
    assert written["concurrency"]["pools"]["default_limit"] == 3
    assert written["telemetry"] == {"enabled": False}


def test_a_home_that_is_a_file_is_named(tmp_path):
    (tmp_path / "home").touch()
    with pytest.raises(
        SettingsError, match=r"home cannot be written \(Not a directory\); make it a folder .* CPMI_HOME"
    ):
        open_instance(load_settings("miniature", tmp_path / "home"))


def test_a_home_that_takes_no_files_is_named(settings, monkeypatch):
    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(whole_files.tempfile, "TemporaryFile", refuse)
    with pytest.raises(SettingsError, match=r"cannot be written \(Permission denied\)"):
        open_instance(settings)


def test_a_run_whose_process_is_gone_is_marked_failed(settings):
    job = dg.GraphDefinition("nothing").to_job()
    with open_instance(settings) as instance:
        tags = {PROCESS_TAG: process_that_ended()}
        dead = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags=tags)
        alive = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags={PROCESS_TAG: this_process()})
    with open_instance(settings) as instance:
        states = [instance.get_run_by_id(run.run_id).status for run in (dead, alive)]
    assert states == [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.STARTED]


def claim(instance: dg.DagsterInstance, process: str) -> None:
    """Have a run of that process hold the pool's only slot."""
    job = dg.GraphDefinition("nothing").to_job()
    run = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags={PROCESS_TAG: process})
    instance.event_log_storage.initialize_concurrency_limit_to_default("gpu")
    instance.event_log_storage.claim_concurrency_slot("gpu", run.run_id, "step")


def test_a_slot_that_a_dead_run_holds_is_waited_for_no_longer_than_it_takes_to_see(settings, caplog):
    with open_instance(settings) as instance:
        claim(instance, process_that_ended())
        wait_for_pool(instance, "gpu")
        assert instance.event_log_storage.get_concurrency_info("gpu").active_slot_count == 0
    assert "another run on this home is at work" in caplog.text


def test_waiting_for_a_run_that_lives_can_be_interrupted(settings, monkeypatch):
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(dagster_home.time, "sleep", interrupt)
    with open_instance(settings) as instance:
        claim(instance, this_process())
        with pytest.raises(CpmiError, match="run again when it has ended"):
            wait_for_pool(instance, "gpu")
