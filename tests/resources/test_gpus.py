"""One process a GPU: locks deal them, and a process that ends gives its GPU back."""

import time
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from cpmi_dagster.resources.workers import gpus
from cpmi_dagster.resources.workers.gpus import GpuDealer


@pytest.fixture
def dealer(monkeypatch, tmp_path):
    """`dealer(processes)`: what a further process has, on a machine with two GPUs."""
    monkeypatch.setattr(gpus, "gpu_names", lambda: ["GPU-a", "GPU-b"])
    return lambda processes: GpuDealer(processes, tmp_path)


@pytest.mark.parametrize(
    ("processes", "devices"),
    [
        (2, ["cuda:0", "cuda:1"]),
        (4, ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]),
        (2, ["cuda:0", "cuda:1", "cuda:0"]),  # one too many
    ],
)
def test_processes_get_different_gpus_and_share_them_evenly(dealer, processes, devices):
    dealers = [dealer(processes) for _ in devices]
    for _ in range(2):
        assert [own.device() for own in dealers] == devices


def _hold(folder: Path, holding: "Event") -> None:
    gpus.gpu_names = lambda: ["GPU-a", "GPU-b"]
    dealer = GpuDealer(2, folder)
    assert dealer.device() == "cuda:0"
    holding.set()
    time.sleep(600)


def test_a_gpu_is_free_again_when_its_process_is_killed(dealer, tmp_path):
    spawn = get_context("spawn")
    holding = spawn.Event()
    process = spawn.Process(target=_hold, args=(tmp_path, holding))
    process.start()
    assert holding.wait(timeout=600)
    assert dealer(2).device() == "cuda:1"
    process.kill()
    process.join()
    assert dealer(2).device() == "cuda:0"


def test_without_a_gpu_models_run_on_the_cpu(monkeypatch, tmp_path):
    monkeypatch.setattr(gpus, "gpu_names", list)
    assert GpuDealer(8, tmp_path / "locks").device() == "cpu"
    assert not (tmp_path / "locks").exists()
