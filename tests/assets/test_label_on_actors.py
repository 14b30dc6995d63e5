"""Shards labelled on actors are the shards that one process makes, and nothing of it outlives the run."""

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
import yaml
from small_run import run_all

from assets.label_on_actors import with_actors
from assets.runs import INTERRUPTED, Outcome
from cpmi_dagster.profiles.actors import RayActors
from cpmi_dagster.profiles.settings import Settings
from resources.dagster_home import open_instance
from resources.lake import Lake

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="the extra `ray` is not installed")
pytestmark = pytest.mark.slow
MADE_IN_CHUNKS = (
    "labels/hard_negatives", "labels/answer_logprobs", "labels/control_logprobs", "labels/prover_logprobs",
    "labels/policy_rollouts", "labels/prover_rollouts",
)  # fmt: skip


def with_gpus(settings: Settings, gpus: int) -> Settings:
    return settings.model_copy(update={"orchestration": settings.orchestration.model_copy(update={"gpus": gpus})})


def test_several_gpus_of_this_machine_are_as_many_actors(finished):
    assert with_actors(with_gpus(finished, 3)).orchestration.ray == RayActors(address="local", actors=3)
    assert with_actors(finished) is finished


@needs_ray
def test_two_actors_label_what_one_process_does(own_copy, finished):
    lake, as_before = Lake(own_copy.home), Lake(finished.home)
    for key in MADE_IN_CHUNKS:
        for shard in own_copy.shard_keys:
            lake.path(key, shard).unlink(missing_ok=True)
    assert run_all(with_gpus(own_copy, 2), only=MADE_IN_CHUNKS) == Outcome()
    for key in MADE_IN_CHUNKS:
        assert lake.read(key, own_copy.shard_keys).equals(as_before.read(key, finished.shard_keys)), key
    runs = {lake.record("labels/answer_logprobs", shard).run_id for shard in own_copy.shard_keys}
    assert len(runs) == len(own_copy.shard_keys)
    with open_instance(own_copy) as instance:
        assert all(instance.get_run_by_id(run).is_success for run in runs)
    assert not list(lake.root.glob(".work/**/chunk-*"))


def start(home: Path, profile: Path) -> subprocess.Popen[str]:
    """`cpmi run` of the labels, in a process of its own that has begun to make chunks."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "CPMI_HOME": str(home)}
    command = [sys.executable, "-m", "cpmi_dagster", "run", "-p", str(profile), "--only", "labels", "--quiet"]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 180
    while not any((home / "lake" / ".work").glob("labels/*/*/chunk-*.json")):
        assert process.poll() is None and time.monotonic() < deadline, process.stderr
        time.sleep(0.2)
    return process


@pytest.fixture
def slow_labels(own_copy, small_profile, tmp_path) -> tuple[Path, Path]:
    """A home without labels, and a profile that makes them in many chunks on two actors."""
    for file in (own_copy.home / "lake" / "labels").rglob("*.parquet"):
        file.unlink()
    profile = tmp_path / "two.yaml"
    rollouts = {"chunk_trajectories": 1, "policy_count": 8}
    values = {"extends": small_profile, "profile": "two", "rollouts": rollouts, "orchestration": {"gpus": 2}}
    profile.write_text(yaml.safe_dump(values), encoding="utf-8")
    return own_copy.home, profile


def wait_until_gone(processes: list[psutil.Process]) -> list[psutil.Process]:
    _, alive = psutil.wait_procs(processes, timeout=60)
    return [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


@needs_ray
def test_a_killed_run_leaves_no_actor_behind(slow_labels):
    process = start(*slow_labels)
    started = psutil.Process(process.pid).children(recursive=True)
    assert any("ChunkActor" in " ".join(child.cmdline()) for child in started if child.is_running())
    process.kill()
    process.wait()
    assert wait_until_gone(started) == []


@needs_ray
def test_a_run_that_is_ended_says_so_and_leaves_no_actor_behind(slow_labels):
    process = start(*slow_labels)
    started = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert INTERRUPTED in errors and "Traceback" not in errors
    assert wait_until_gone(started) == []
