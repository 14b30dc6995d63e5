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
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import psutil

from cpmi_dagster.errors import CpmiError, ModelError, first_line
from cpmi_dagster.models.language_models import model_place
from cpmi_dagster.models.safe_loading import check_weights_index
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.planning.shapes import planned_model
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.profiles.sources import DataSource
from cpmi_dagster.resources.data_sources import DataSources
from cpmi_dagster.resources.home_files import open_home
from cpmi_dagster.resources.hub import HubLock

State = Literal["fine", "warning", "problem"]
GIB = 2**30
LITTLE_ROOM = 5 * GIB
"""Free space at a home below which there is a warning: labels of 80,000 trajectories take about 4 GiB."""
TRAINING_BYTES = 16
"""Of a parameter in full training: weights, gradients and Adam's two moments in float32."""
PACKAGES = ("cpmi-dagster", "torch", "transformers", "dagster", "duckdb", "polars")
HUB_SECONDS = 5.0
REST = "the rest is downloaded at its first use"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        topic: machine, home, model, source or extra.
        what: what was found.
        advice: what to do about it; empty where it is fine.
    """

    topic: str
    what: str
    state: State = "fine"
    advice: str = ""


def examine(settings: Settings) -> Iterator[Finding]:
    """What this machine has and what a profile needs, one finding after another."""
    yield from _machine()
    yield from _home(settings)
    yield from _extras(settings)
    yield from _models(settings)
    yield from _sources(settings)


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


def _home(settings: Settings) -> Iterator[Finding]:
    home = open_home(settings.home)
    try:
        home.check()
    except CpmiError as error:
        yield Finding("home", str(settings.home), "problem", str(error))
        return
    place = _existing(settings.folder)
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
    asked = [model for _, model in settings.models if model is not None]
    trained = [recipe.trained_with(settings.training) for recipe in settings.recipes]
    needed = {
        ("ray", "ray"): settings.orchestration.ray is not None or settings.orchestration.gpus > 1,
        ("store", "obstore"): not isinstance(settings.home, Path),
        ("vllm", "vllm"): any(model.engine == "vllm" for model in asked),
        ("postgres", "dagster_postgres"): settings.orchestration.postgres is not None,
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


def _models(settings: Settings) -> Iterator[Finding]:
    memory = max((free for _, free, _ in _gpus()), default=psutil.virtual_memory().available)
    for role, model in settings.models:
        if model is None or (role == "backbone" and not settings.recipes):
            continue
        yield _endpoint(role, model) if model.engine == "endpoint" else _weights(settings, role, model, memory)


def _endpoint(role: str, model: LanguageModel) -> Finding:
    variable, what = model.api_key_variable, f"{role} {model.name} at {model.endpoint}"
    if variable and not os.environ.get(variable):
        return Finding("model", what, "problem", f"put the endpoint's key into the environment variable {variable}")
    return Finding("model", what)


def _weights(settings: Settings, role: str, model: LanguageModel, memory: int) -> Finding:
    what = f"{role} {model.name}"
    try:
        place, revision = model_place(model.name), model.revision
        if not Path(place).exists():
            revision = revision or HubLock(settings.home).revisions().get(f"model {model.name}")
            folder = _cached(place, "model", revision)
            if folder is None or _lacks_weights(folder):
                found = _on_hub(what, place, "model", f"name a local folder as models.{role}.name")
                return found if folder is None else _of_a_part(found, what)
        shape = planned_model(role, model, revision).shape
    except CpmiError as error:
        return Finding("model", what, "problem", str(error))
    need, word = shape.weight_bytes, "weights"
    if role == "backbone" and any(recipe.trained_with(settings.training).lora is None for recipe in settings.recipes):
        need, word = shape.held * TRAINING_BYTES, "training state"
    what += f": {need / GIB:.1f} GiB of {word}"
    if need > memory and not model.over_all_gpus:
        advice = f"take a smaller model, `device_map: auto`, or a machine with more than {memory / GIB:.1f} GiB"
        return Finding("model", what, "warning", advice)
    return Finding("model", f"{what}, in {memory / GIB:.1f} GiB")


def _sources(settings: Settings) -> Iterator[Finding]:
    sources = settings.sources
    every = (*sources.math_shepherd, *sources.step_truth, *sources.references)
    named = [*every, *sources.benchmarks.values(), *sources.step_labels.values()]
    for source in {(source.place, source.revision): source for source in named}.values():
        yield _source(settings, source)


def _source(settings: Settings, source: DataSource) -> Finding:
    if source.hub is None:
        try:
            DataSources(settings).files(source)
        except (CpmiError, OSError) as error:
            return Finding("source", source.place, "problem", first_line(error))
        return Finding("source", source.place)
    revision = source.revision or HubLock(settings.home).revisions().get(f"dataset {source.hub}")
    folder = _cached(source.place, "dataset", revision)
    if folder is not None and not _is_unfinished(folder):
        return Finding("source", f"{source.place}: in the hub's cache")
    found = _on_hub(source.place, source.place, "dataset", "give a local `path` in its place")
    return found if folder is None else _of_a_part(found, source.place)


def _cached(name: str, kind: Literal["model", "dataset"], revision: str | None) -> Path | None:
    """The folder in the hub's cache, which may hold a part only; None where there is none."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, repo_type=kind, revision=revision, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError, HfHubHTTPError, OSError):
        return None


def _of_a_part(on_hub: Finding, what: str) -> Finding:
    """A finding on what is in the hub's cache in part; what the hub says decides whether the rest can be had."""
    if on_hub.state == "problem":
        return replace(on_hub, what=f"{on_hub.what}; a part of it is in the hub's cache")
    return Finding(on_hub.topic, f"{what}: a part of it is in the hub's cache", "warning", REST)


def _lacks_weights(folder: Path) -> bool:
    """Whether a model's folder is without weights, or without some of the files that its index names."""
    found = {file.name for file in folder.glob("model*.safetensors")}
    try:
        return not found or not check_weights_index(folder) <= found
    except ModelError:
        return True


def _is_unfinished(folder: Path) -> bool:
    """Whether a download into the repository of a snapshot was interrupted."""
    return any(folder.parents[1].glob("blobs/*.incomplete"))


def _on_hub(what: str, name: str, kind: Literal["model", "dataset"], otherwise: str) -> Finding:
    """What the hub says of something that is not on this disk."""
    from httpx2 import HTTPError
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError

    try:
        asked = HfApi().model_info if kind == "model" else HfApi().dataset_info
        info = asked(name, files_metadata=True, timeout=HUB_SECONDS)
    except (HTTPError, HFValidationError, OSError) as error:
        problem = f"{what}: not on this disk, and cannot be fetched from the hub ({type(error).__name__})"
        return Finding(kind if kind == "model" else "source", problem, "problem", otherwise)
    size = sum(file.size or 0 for file in info.siblings or ())
    return Finding(kind if kind == "model" else "source", f"{what}: on the hub, {size / GIB:.1f} GiB to download")
