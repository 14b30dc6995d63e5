"""`cpmi doctor`: what this machine has, and what a profile lacks; nothing is downloaded, no weights are loaded.

fine     cpmi-dagster 0.1.0, torch 2.13.0, … on Python 3.11.9
fine     GPU 0: NVIDIA H100, 79.1 GiB free
fine     home .cpmi/paper: 412 GiB free
fine     labeler Qwen/Qwen3-8B-Base: 16,381 MB of weights
problem  source openai/gsm8k: not on this disk, and the hub does not give it (ConnectError); name a local folder or file

`cpmi status --verify` compares every file of a home with the hash from when it was written.
"""

import os
import platform
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple

from cpmi_dagster.contracts.keys import MODELS
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import CpmiError, SettingsError, SourceError, StorageError, first_line
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.files.whole_files import try_to_write
from cpmi_dagster.installed import DISTRIBUTION
from cpmi_dagster.models.gguf import hub_file
from cpmi_dagster.models.language_models import load_tokenizer, model_folder, model_on_disk
from cpmi_dagster.models.model_files import check_trained, weights_files
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.models.tokens import check_boundaries, piece_ids
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.profiles.sources import DataSource
from cpmi_dagster.resources.lake.lake import ALL, CALLS, EARLIER, Lake
from cpmi_dagster.resources.lake.parquet import is_intact
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.resources.sources.hub import HubLock

GIB = 1 << 30
HUB_SECONDS = 5.0
DOWNLOADED = "on the hub, downloaded at its first use"
PACKAGES = (DISTRIBUTION, "torch", "transformers", "dagster", "duckdb", "polars")
PIECES = ("How many?\n", "3 * 4 = 12\n", "The answer is: 12")
"""Question, step and answer, which a labeler's tokenizer must read in pieces as it reads them joined."""


class Finding(NamedTuple):
    """A finding; a problem keeps the profile from running."""

    state: Literal["fine", "problem"]
    what: str


def examine(settings: Settings) -> Iterator[Finding]:
    """The findings on this machine, and on the home, models and sources of a profile."""
    import torch

    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    yield Finding("fine", f"{versions} on Python {platform.python_version()}")
    for gpu in range(torch.cuda.device_count()):
        free = torch.cuda.mem_get_info(gpu)[0] / GIB
        yield Finding("fine", f"GPU {gpu}: {torch.cuda.get_device_name(gpu)}, {free:.1f} GiB free")
    if not torch.cuda.device_count():
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GIB
        yield Finding("fine", f"no GPU; {os.cpu_count()} cores, {memory:.0f} GiB of memory")
    yield _finding(f"home {settings.home}", _home, settings.home.absolute())
    revisions = HubLock(settings.home).revisions() if settings.home.is_dir() else {}
    models = [(role, model) for role, model in settings.models if model is not None and role != "backbone"]
    models += [(f"backbone of {each.name}", each.backbone or settings.models.backbone) for each in settings.recipes]
    models += [(f"judge {name}", each.weights) for name, each in settings.benchmarks.judges.items() if each.weights]
    for role, model in {(model.name, model.engine): (role, model) for role, model in reversed(models)}.values():
        yield _finding(f"{role} {model.name}", _model, role, model, revisions.get(f"model {model.name}"))
    named = settings.sources
    data = [*named.trajectories, *named.step_truth, *named.references, *named.benchmarks.values()]
    for source in {each.place: each for each in (*data, *named.step_labels.values())}.values():
        yield _finding(f"source {source.place}", _source, settings, source, revisions.get(f"dataset {source.hub}"))


def _finding(what: str, look: Callable[..., str], *arguments: Any) -> Finding:
    """The finding of a function, or the problem that it raises."""
    try:
        return Finding("fine", f"{what}: {look(*arguments)}")
    except (CpmiError, OSError) as error:
        return Finding("problem", f"{what}: {first_line(error)}")


def _home(home: Path) -> str:
    place = next(folder for folder in (home, *home.parents) if folder.exists())
    try:
        try_to_write(place)
    except OSError as error:
        raise StorageError("cannot be written; set CPMI_HOME to a folder of yours") from error
    return f"{shutil.disk_usage(place).free / GIB:,.0f} GiB free"


def _model(role: str, model: LanguageModel, revision: str | None) -> str:
    """The size of a model's weights; also checks the labeler's tokenizer on `PIECES`."""
    if model.engine == "endpoint":
        if model.api_key_variable and not environment_variable(model.api_key_variable):
            raise SettingsError(f"put the endpoint's key into the environment variable {model.api_key_variable}")
        return f"at {model.endpoint}"
    place = model_on_disk(model.name)
    if place is None:
        repository = (hub_file(model.name) or [model.name])[0]
        place = _in_cache(repository, "model", model.revision or revision)
    if place is None:
        return DOWNLOADED
    note = ""
    if role == "labeler":
        tokenizer = load_tokenizer(model_folder(model.name) if place.is_file() else str(place))
        ids = piece_ids(tokenizer, PIECES)
        if not check_boundaries(tokenizer, PIECES, [ids[piece] for piece in PIECES]):
            note = "; it reads question, steps and answer as other tokens than their joined text"
    files = [place] if place.is_file() else weights_files(place)
    return f"{sum(file.stat().st_size for file in files) / 1e6:,.0f} MB of weights{note}"


def _source(settings: Settings, source: DataSource, revision: str | None) -> str:
    if source.hub is None:
        DataSources(settings).files(source)
        return "on this disk"
    return "in the hub's cache" if _in_cache(source.hub, "dataset", source.revision or revision) else DOWNLOADED


def _in_cache(name: str, kind: Literal["model", "dataset"], revision: str | None) -> Path | None:
    """The folder in the hub's cache; None if it is incomplete, and the hub has it."""
    from httpx2 import HTTPError
    from huggingface_hub import HfApi, snapshot_download

    with suppress(CpmiError, OSError, ValueError):
        folder = Path(snapshot_download(name, repo_type=kind, revision=revision, local_files_only=True))
        if kind == "dataset" or weights_files(folder):
            return folder
    try:
        HfApi().repo_info(name, repo_type=kind, timeout=HUB_SECONDS)
    except (HTTPError, OSError, ValueError) as error:
        raise SourceError(
            f"not on this disk, and the hub does not give it ({type(error).__name__}); name a local folder or file"
        ) from error
    return None


def verify_home(settings: Settings, advance: Callable[[int, int], None]) -> tuple[int, list[str]]:
    """The number of Parquet files in a home's lake, and a sentence for each damaged or stray file or model.

    Args:
        advance: called with the numbers of files just read and in all.
    """
    lake, damage = Lake.of(settings), list[str]()
    files = sorted(path for path in lake.root.rglob("[!.]*.parquet") if not path.is_relative_to(lake.work_folder("")))
    for path in files:
        if sentence := _damage(lake, path, settings.profile_option):
            damage.append(sentence)
        advance(1, len(files))
    for recipe in filter(lambda name: lake.record(MODELS, name), lake.partitions(MODELS)):
        for folder, fingerprint in lake.read(MODELS, recipe).select("path", "weights_fingerprint").iter_rows():
            try:
                check_trained(lake.home / folder, fingerprint)
            except CpmiError as error:
                damage.append(f"{error}; `cpmi run{settings.profile_option} --only {MODELS} --force` trains it again")
    return len(files), damage


def _damage(lake: Lake, path: Path, option: str) -> str | None:
    """What is wrong with a file of the lake, and what to do."""
    inside = path.relative_to(lake.root)
    if CALLS in inside.parts:
        return None if is_intact(path) else f"{path} is damaged; its questions are asked again"
    if EARLIER in inside.parts:
        return None if is_intact(path) else f"{path} is damaged, and holds previous rows; remove it"
    key, partition = inside.parent.as_posix(), None if path.stem == ALL else path.stem
    if key in TABLES and lake.record(key, partition) and is_intact(path):
        return None
    shown = lake.partitions(key) if key in TABLES and partition else [None]
    if key in TABLES and partition in shown:
        return f"{path} is damaged; run `cpmi run{option}`, which makes it again"
    return f"{path} is damaged or a copy, and no table shows it; remove it"
