"""`cpmi doctor`: what this machine has, and whether a profile can run on it; nothing is downloaded or loaded.

machine   Python 3.12.3, 16 cores, 128 GiB of memory                                    fine
machine   GPU 0: NVIDIA H100, 79.1 of 79.6 GiB free                                     fine
home      .cpmi/paper can be written, 412 GiB free                                      fine
model     labeler Qwen/Qwen3-8B-Base: 15.3 GiB of weights, fit into 79.1 GiB            fine
source    openai/gsm8k: not in the cache, and the hub does not answer (ConnectError)    problem: give a local path
"""

import os
import platform
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import psutil

from cpmi_dagster.installed import DISTRIBUTION
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.commands.doctor_needs import Finding, data_sets, models, needed_models
from cpmi_dagster.resources.lake.queries import GIB

LITTLE_ROOM = 5 * GIB
"""Free space at a home below which there is a warning: labels of 80,000 trajectories take about 4 GiB."""
PACKAGES = (DISTRIBUTION, "torch", "transformers", "dagster", "duckdb", "polars")


def examine(settings: Settings) -> Iterator[Finding]:
    """What this machine has and what a profile needs, one finding after another."""
    yield from _machine()
    yield from _home(settings)
    yield from _extras(settings)
    yield from models(settings, _free_memory())
    yield from data_sets(settings)


def _machine() -> Iterator[Finding]:
    memory = psutil.virtual_memory()
    yield Finding(
        "machine",
        f"Python {platform.python_version()} on {platform.system()}, {os.cpu_count()} cores, "
        f"{memory.available / GIB:.1f} of {memory.total / GIB:.1f} GiB of memory free",
    )
    yield Finding("machine", ", ".join(f"{name} {version(name)}" for name in PACKAGES))
    gpus = list(_gpus())
    for index, (name, free, total) in enumerate(gpus):
        yield Finding("machine", f"GPU {index}: {name}, {free / GIB:.1f} of {total / GIB:.1f} GiB free")
    if not gpus:
        yield Finding("machine", "no GPU that torch can use")


def _gpus() -> Iterator[tuple[str, int, int]]:
    """Name, free and total bytes of each GPU."""
    import torch

    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        yield (torch.cuda.get_device_name(index), *torch.cuda.mem_get_info(index))


def _free_memory() -> int:
    """Bytes, of the GPU that has most or else of the machine."""
    return max((free for _, free, _ in _gpus()), default=psutil.virtual_memory().available)


def _home(settings: Settings) -> Iterator[Finding]:
    place = _existing(settings.home)
    if not place.is_dir() or not os.access(place, os.W_OK):
        yield Finding("home", f"{settings.home} cannot be written", "problem", "set CPMI_HOME to a folder of yours")
        return
    free = shutil.disk_usage(place).free
    what = f"{settings.home} can be written, {free / GIB:,.0f} GiB free in {place}"
    if free < LITTLE_ROOM:
        yield Finding("home", what, "warning", "make room, or set CPMI_HOME to a folder on another disk")
    else:
        yield Finding("home", what)


def _existing(folder: Path) -> Path:
    """The folder, or the nearest above it that exists."""
    return next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())


def _extras(settings: Settings) -> Iterator[Finding]:
    """The extras that the profile needs."""
    asked = [each.model for each in needed_models(settings)]
    trained = [recipe.trained_with(settings.training) for recipe in settings.recipes]
    needed = {
        ("vllm", "vllm"): any(model.engine == "vllm" for model in asked),
        ("lora", "peft"): any(training.lora for training in trained),
        ("evidence", "gguf"): any(model.name.endswith(".gguf") for model in asked),
    }
    for (extra, package), is_needed in needed.items():
        if is_needed and find_spec(package) is None:
            advice = f"pip install 'cpmi-dagster[{extra}]'"
            yield Finding("extra", f"the profile needs `[{extra}]`, and {package} is not installed", "problem", advice)
        elif is_needed:
            yield Finding("extra", f"`[{extra}]` is installed ({_version(package)})")


def _version(package: str) -> str:
    name = package.replace("_", "-")
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return name
