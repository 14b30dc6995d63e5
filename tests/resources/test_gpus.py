"""One process a GPU: locks deal them, and a process that ends gives its GPU back."""

import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from cpmi_dagster.models.processors import THREADS, usable_cores
from cpmi_dagster.resources.dag import runner
from cpmi_dagster.resources.models import gpus
from cpmi_dagster.resources.models.gpus import VISIBLE, GpuDealer
from cpmi_dagster.resources.models.language_models import LanguageModels

HOLD = """
import sys, time
from pathlib import Path
from cpmi_dagster.resources.models import gpus
gpus.gpu_names = lambda: ["GPU-a", "GPU-b"]
dealer = gpus.GpuDealer(4, Path(sys.argv[1]))
print(dealer.device(), flush=True)
time.sleep(600)
"""


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(gpus, "gpu_names", lambda: ["GPU-a", "GPU-b"])


HOLD_PLACE = """
import sys, time
from pathlib import Path
from cpmi_dagster.resources.models.gpus import take_place
take_place(Path(sys.argv[1]), 1, print)
print("taken", flush=True)
time.sleep(600)
"""


def test_a_shell_and_a_run_of_dagster_do_not_use_models_of_a_home_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(gpus, "LOOK_EVERY_SECONDS", 0.05)
    said: list[str] = []
    with subprocess.Popen([sys.executable, "-c", HOLD_PLACE, str(tmp_path)], stdout=subprocess.PIPE) as other:
        assert other.stdout and other.stdout.readline() == b"taken\n"
        gpus.take_place(tmp_path, 2, said.append)
        gpus.leave_place(tmp_path)
        assert not said, "there were two places"

        def say(line: str) -> None:
            said.append(line)
            other.kill()  # the system frees its place

        gpus.take_place(tmp_path, 1, say)
    assert len(said) == 1 and "orchestration.gpus: 1" in said[0]
    gpus.leave_place(tmp_path)


def test_processes_share_the_gpus_evenly_and_one_that_is_killed_gives_its_own_back(two_gpus, tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline() == "cuda:0\n"
        others = [GpuDealer(4, tmp_path) for _ in range(3)]
        devices = [dealer.device() for dealer in others]
        process.kill()
    assert devices == ["cuda:1", "cuda:0", "cuda:1"]
    assert GpuDealer(4, tmp_path).device() == "cuda:0"


def test_a_child_of_many_sees_the_gpus_of_its_parent_and_its_share_of_the_cores(home, monkeypatch):
    started = []

    def start(command, env, **_):
        started.append((command[command.index("--shards") + 1], env.get(VISIBLE), env[THREADS]))
        return SimpleNamespace(wait=lambda timeout: 0, terminate=lambda: None, returncode=0)

    monkeypatch.setattr(runner.subprocess, "Popen", start)
    monkeypatch.delenv(THREADS, raising=False)
    many = home.settings.orchestration.model_copy(update={"gpus": 3})
    home = replace(home, settings=home.settings.model_copy(update={"orchestration": many}))
    for visible in ("4,5", None):
        monkeypatch.setenv(VISIBLE, visible) if visible else monkeypatch.delenv(VISIBLE, raising=False)
        runner.label_on_gpus(home, ["000", "001", "002"], ["labels/step_rewards"], lambda *_: set())
    threads = str(max(1, usable_cores() // 3))
    assert started == [(shard, visible, threads) for visible in ("4,5", None) for shard in ("000", "001", "002")]


@pytest.mark.parametrize(
    ("device", "visible", "is_said"), [("cpu", "0", True), ("auto", "7", True), ("auto", "", False)]
)
def test_a_labeler_on_the_cpu_beside_a_gpu_is_said_once(
    settings, tmp_path, monkeypatch, caplog, device, visible, is_said
):
    monkeypatch.setattr(gpus, "DRIVERS", (str(tmp_path),))
    monkeypatch.setattr(gpus, "gpu_names", lambda: ["GPU-a"] if device == "cpu" else [])
    monkeypatch.setenv(VISIBLE, visible)
    gpus.warn_of_idle_gpu.cache_clear()
    labeler = settings.models.labeler.model_copy(update={"device": device})
    models = settings.models.model_copy(update={"labeler": labeler})
    for _ in range(2):
        assert LanguageModels(settings.model_copy(update={"models": models})).device("labeler") == "cpu"
    assert caplog.text.count("IS ON THE CPU, THOUGH THIS MACHINE HAS A GPU") == int(is_said)


def test_a_model_on_cuda_gets_the_gpu_of_its_process(settings, two_gpus, tmp_path):
    models = LanguageModels(settings)
    models._dealer = GpuDealer(2, tmp_path)
    other = GpuDealer(2, tmp_path)
    assert other.device() == "cuda:0"
    labeler = settings.models.labeler
    assert {models.device_of(labeler.model_copy(update={"device": name})) for name in ("auto", "cuda")} == {"cuda:1"}
    other.leave()
    models.leave_place()
    assert models.device_of(labeler.model_copy(update={"device": "auto"})) == "cuda:0"
