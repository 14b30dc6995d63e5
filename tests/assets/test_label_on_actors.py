"""Shards labelled on actors are the shards that one process makes, and nothing of it outlives the run."""

import os
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
import yaml
from small_run import SMALL, run_all, write_profile
from waiting import wait_until

from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.dag.dagster_home import open_instance
from cpmi_dagster.resources.dag.runs import Outcome
from cpmi_dagster.resources.dag.step_errors import INTERRUPTED
from cpmi_dagster.resources.lake.lake import Lake

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="the extra `ray` is not installed"),
]
SECONDS = 900
MADE_IN_CHUNKS = (
    "labels/hard_negatives", "labels/answer_logprobs", "labels/control_logprobs", "labels/prover_logprobs",
    "labels/policy_rollouts", "labels/prover_rollouts", "labels/question_negatives",
)  # fmt: skip
FEW = {
    **SMALL,
    "profile": "few",
    "selection": {"trajectories": 8},
    "shards": 2,
    "rewards": {"types": ["cpmi", "mc", "pav", "cpmi_prover", "other_gold", "cpmi_question_negatives"]},
    "recipes": [{"name": "mc_bce", "reward_type": "mc"}],
}


@pytest.fixture(scope="module")
def profile(tmp_path_factory) -> str:
    return write_profile(tmp_path_factory.mktemp("profile") / "few.yaml", FEW)


@pytest.fixture(scope="module")
def selected(profile, tmp_path_factory) -> Path:
    """A home whose trajectories are selected and not labelled."""
    home = tmp_path_factory.mktemp("selected") / "home"
    assert not run_all(load_settings(profile, home), only=("sources", "alignment", "selection")).failures
    return home


def copy_of(selected: Path, place: Path, profile: str, gpus: int = 1) -> Settings:
    settings = load_settings(profile, Path(shutil.copytree(selected, place)))
    return settings.model_copy(update={"orchestration": settings.orchestration.model_copy(update={"gpus": gpus})})


def test_two_actors_label_what_one_process_does(selected, profile, tmp_path):
    alone, two = (copy_of(selected, tmp_path / str(gpus), profile, gpus) for gpus in (1, 2))
    assert run_all(alone, only=("labels",)) == run_all(two, only=("labels",)) == Outcome()
    lakes = [Lake.of(settings) for settings in (alone, two)]
    for key in (*MADE_IN_CHUNKS, "labels/step_rewards"):
        frames = [lake.read(key, alone.shard_keys) for lake in lakes]
        assert frames[0].equals(frames[1]) and frames[0].height, key
        records = [[lake.record(key, shard) for shard in alone.shard_keys] for lake in lakes]
        facts = [[(record.content, record.fingerprint, record.notes) for record in own] for own in records]
        assert facts[0] == facts[1], key
    runs = {lakes[1].record("labels/answer_logprobs", shard).run_id for shard in two.shard_keys}
    with open_instance(two) as instance:
        assert [instance.get_run_by_id(run).is_success for run in runs] == [True]
    assert not list(lakes[1].root.glob(".work/**/chunk-*"))


def start(selected: Path, profile: str, folder: Path) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """`cpmi run` of the labels in a process that has begun to make chunks, and what it has started."""
    home = Path(shutil.copytree(selected, folder / "home"))
    many = {"rollouts": {"chunk_trajectories": 1, "policy_count": 64, "sampling": {"max_new_tokens": 192}}}
    own = folder / "many.yaml"
    own.write_text(yaml.safe_dump({"extends": profile, **many, "orchestration": {"gpus": 2}}), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "CPMI_HOME": str(home)}
    command = [sys.executable, "-m", "cpmi_dagster", "run", "-p", str(own), "--only", "labels", "--quiet"]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)

    def is_at_work() -> bool:
        assert process.poll() is None, f"it ended before its first chunk: {process.communicate()[1]}"
        return any((home / "lake" / ".work").glob("labels/*/*/chunk-*.json"))

    wait_until(is_at_work, SECONDS, "it does not come to its first chunk")
    started = psutil.Process(process.pid).children(recursive=True)
    assert any("ChunkActor" in " ".join(child.cmdline()) for child in started if child.is_running())
    return process, started


def alive_after_a_while(processes: list[psutil.Process]) -> list[psutil.Process]:
    _, alive = psutil.wait_procs(processes, timeout=SECONDS)
    return [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


def test_a_killed_run_leaves_no_actor_behind(selected, profile, tmp_path):
    process, started = start(selected, profile, tmp_path)
    process.kill()
    process.wait()
    assert alive_after_a_while(started) == []


def test_a_run_that_is_ended_says_so_and_leaves_no_actor_behind(selected, profile, tmp_path):
    process, started = start(selected, profile, tmp_path)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert INTERRUPTED in errors and "Traceback" not in errors
    assert alive_after_a_while(started) == []
