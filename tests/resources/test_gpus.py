"""One process a GPU: locks deal them, and a process that ends gives its GPU back."""

import subprocess
import sys

import pytest

from cpmi_dagster.resources.workers import gpus
from cpmi_dagster.resources.workers.gpus import GpuDealer

HOLD = """
import sys, time
from pathlib import Path
from cpmi_dagster.resources.workers import gpus
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
from cpmi_dagster.resources.workers.gpus import take_place
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
