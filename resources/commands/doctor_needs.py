"""What a profile needs of models and data: whether each is on this disk or can be fetched, and whether models fit.

model     labeler Qwen/Qwen3-8B-Base: 15.3 GiB of weights, in 79.1 GiB                  fine
source    openai/gsm8k: not in the cache, and the hub does not answer (ConnectError)    problem: give a local path
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from cpmi_dagster.errors import CpmiError, ModelError, first_line
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.models.gguf import hub_file
from cpmi_dagster.models.language_models import model_on_disk, model_place
from cpmi_dagster.models.model_files import DIGESTS, check_weights_index
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.planning.shapes import planned_model
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.profiles.sources import DataSource
from cpmi_dagster.resources.lake.queries import GIB
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.resources.sources.hub import HubLock
from cpmi_dagster.trajectories.own_labels import read_step_labels
from cpmi_dagster.trajectories.rows import Row
from cpmi_dagster.trajectories.step_truth import read_step_truth

State = Literal["fine", "warning", "problem"]
Reader = Callable[[Iterable[Row]], object]
TRAINING_BYTES = 16
"""Of a parameter in full training: weights, gradients and Adam's two moments in float32."""
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


class NeededModel(NamedTuple):
    """A model of a profile.

    Attributes:
        role: what it is for, in messages.
        setting: that names it.
        is_trained_whole: all of its weights are trained, so that training holds more than the weights.
    """

    role: str
    model: LanguageModel
    setting: str
    is_trained_whole: bool = False


def needed_models(settings: Settings) -> Iterator[NeededModel]:
    """The models that a profile names and uses, each backbone of its recipes once, and those of judges."""
    for role, model in settings.models:
        if model is not None and role != "backbone":
            yield NeededModel(role, model, f"models.{role}.name")
    backbones: dict[tuple[str, str | None], NeededModel] = {}
    for recipe in settings.recipes:
        model = recipe.backbone or settings.models.backbone
        setting = "its backbone.name" if recipe.backbone else "models.backbone.name"
        role = f"backbone of recipe {recipe.name}" if recipe.backbone else "backbone"
        needed = backbones.setdefault((model.name, model.revision), NeededModel(role, model, setting))
        training = recipe.trained_with(settings.training)
        if training.lora is None and training.backbone == "full":
            backbones[model.name, model.revision] = needed._replace(is_trained_whole=True)
    yield from backbones.values()
    for name, judge in settings.benchmarks.judges.items():
        # one trained here has the files that training noted, which loading checks
        if judge.weights and not (Path(judge.weights.name) / DIGESTS).is_file():
            yield NeededModel(f"judge {name}", judge.weights, f"benchmarks.judges.{name}.model")


def models(settings: Settings, memory: int) -> Iterator[Finding]:
    """What is found of each model.

    Args:
        memory: bytes that are free on the device.
    """
    for needed in needed_models(settings):
        is_remote = needed.model.engine == "endpoint"
        yield _endpoint(needed) if is_remote else _weights(settings, needed, memory)


def _endpoint(needed: NeededModel) -> Finding:
    role, model = needed.role, needed.model
    variable, what = model.api_key_variable, f"{role} {model.name} at {model.endpoint}"
    if variable and not environment_variable(variable):
        return Finding("model", what, "problem", f"put the endpoint's key into the environment variable {variable}")
    return Finding("model", what)


def _weights(settings: Settings, needed: NeededModel, memory: int) -> Finding:
    role, model, what = needed.role, needed.model, f"{needed.role} {needed.model.name}"
    try:
        place, revision = model_place(model.name), model.revision
        if hub_file(place):
            return _on_hub(what, place.partition(":")[0], "model", f"give a local file as {needed.setting}")
        if not Path(place).exists():
            revision = revision or HubLock(settings.home).revisions().get(f"model {model.name}")
            folder = _cached(place, "model", revision)
            if folder is None or _lacks_weights(folder):
                found = _on_hub(what, place, "model", f"name a local folder as {needed.setting}")
                return found if folder is None else _of_a_part(found, what)
        else:
            model_on_disk(model.name)
        otherwise = f"or name a local folder as {needed.setting}"
        shape = planned_model(role, model, revision, otherwise=otherwise).shape
    except CpmiError as error:
        return Finding("model", what, "problem", str(error))
    need, word = shape.weight_bytes, "weights"
    if needed.is_trained_whole:
        need, word = shape.held * TRAINING_BYTES, "training state"
    what += f": {need / GIB:.1f} GiB of {word}"
    if need > memory and not model.over_all_gpus:
        advice = f"take a smaller model, `device_map: auto`, or a machine with more than {memory / GIB:.1f} GiB"
        return Finding("model", what, "warning", advice)
    return Finding("model", f"{what}, in {memory / GIB:.1f} GiB")


def data_sets(settings: Settings) -> Iterator[Finding]:
    """What is found of each data set."""
    sources = settings.sources
    every = (*sources.trajectories, *sources.step_truth, *sources.references)
    named = [*every, *sources.benchmarks.values(), *sources.step_labels.values()]
    readers: dict[str, Reader] = {source.place: read_step_truth for source in sources.step_truth}
    for name, source in sources.step_labels.items():
        readers[source.place] = partial(read_step_labels, name, probabilities=source.probabilities)
    for source in {(source.place, source.revision): source for source in named}.values():
        yield _source(settings, source, readers.get(source.place))


def _source(settings: Settings, source: DataSource, read: Reader | None) -> Finding:
    """What is found of a data set; people write judgements by hand, so those on this disk are read."""
    if source.hub is None:
        try:
            reading = DataSources(settings)
            reading.files(source)
            if read:
                read(row for row, _ in reading.stream(source))
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
