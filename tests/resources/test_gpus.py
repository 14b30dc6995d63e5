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


def test_processes_share_the_gpus_evenly_and_one_that_is_killed_gives_its_own_back(two_gpus, tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline() == "cuda:0\n"
        others = [GpuDealer(4, tmp_path) for _ in range(3)]
        devices = [dealer.device() for dealer in others]
        process.kill()
    assert devices == ["cuda:1", "cuda:0", "cuda:1"]
    assert GpuDealer(4, tmp_path).device() == "cuda:0"
