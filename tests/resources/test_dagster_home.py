"""Dagster's own folder: its configuration, and runs whose process is gone."""

import os
import socket
import subprocess
import sys

import dagster as dg
import pytest
import yaml

from cpmi_dagster.settings import load_settings
from resources.dagster_home import PROCESS_TAG, has_died, open_instance, this_process, write_dagster_yaml


@pytest.fixture
def settings(tmp_path):
    return load_settings("miniature", tmp_path)


def process_that_ended() -> str:
    script = "from resources.dagster_home import this_process; print(this_process())"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def test_the_pool_has_as_many_slots_as_there_are_gpus(settings):
    orchestration = settings.orchestration.model_copy(update={"gpus": 3})
    folder = write_dagster_yaml(settings.model_copy(update={"orchestration": orchestration}))
    written = yaml.safe_load((folder / "dagster.yaml").read_text())
    assert written["concurrency"]["pools"]["default_limit"] == 3
    assert written["telemetry"] == {"enabled": False}


def test_a_process_is_known_by_host_pid_and_start():
    assert not has_died(this_process())
    assert has_died(process_that_ended())
    assert has_died(f"{socket.gethostname()} {os.getpid()} 1"), "a pid that is used again is another process"
    assert not has_died("elsewhere 1 1"), "nothing is known of other hosts"
    assert not has_died("")


def test_a_run_whose_process_is_gone_is_marked_failed(settings):
    job = dg.GraphDefinition("nothing").to_job()
    with open_instance(settings) as instance:
        tags = {PROCESS_TAG: process_that_ended()}
        dead = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags=tags)
        alive = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags={PROCESS_TAG: this_process()})
    with open_instance(settings) as instance:
        states = [instance.get_run_by_id(run.run_id).status for run in (dead, alive)]
    assert states == [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.STARTED]
