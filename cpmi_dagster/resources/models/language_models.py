"""The language models of a run by role, loaded once per process, and the engines that sample from them.

models.identity("policy")   Qwen/Qwen3-4B-Base@49e3418fbbbc                                   sampled by transformers
                            Qwen/Qwen3-4B-Base@49e3418fbbbc@vllm                              sampled by vLLM
                            Qwen/Qwen3-4B-Base@127.0.0.1:8000/v1                              sampled by a server
models.identity("labeler")  Qwen/Qwen3-8B-Base@49e3418fbbbc@127.0.0.1:8000/v1                 scores here, samples there
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from cpmi_dagster.errors import MissingModelError, ModelError, SettingsError, SourceError
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.generation.engine import RolloutEngine
from cpmi_dagster.generation.solutions import chat_prompt
from cpmi_dagster.models.gguf import fetch_gguf
from cpmi_dagster.models.language_models import (
    IDENTITY_CHARACTERS,
    LoadedModel,
    load_language_model,
    load_tokenizer,
    model_folder,
    model_identity,
    model_place,
    reading_identity,
)
from cpmi_dagster.models.memory import is_out_of_memory
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.models.gpus import GpuDealer, leave_place, take_place, warn_of_idle_gpu
from cpmi_dagster.resources.sources.hub import HubLock

Role = Literal["labeler", "rollouts", "policy", "prover", "backbone"]
MODEL_LOCKS = Path("lake", ".locks")
Weights = tuple[str, str | None, str, str, str | None]


class LanguageModels:
    """The models by role; two roles of one model share it.

    Args:
        asks_hub: whether revisions that are not known yet are asked of the hub, and files fetched from it.
    """

    def __init__(self, settings: Settings, asks_hub: bool = True) -> None:
        self._settings, self._asks_hub = settings, asks_hub
        self._dealer = GpuDealer(settings.orchestration.gpus)
        self._loaded: dict[Weights, tuple[list[str], LoadedModel]] = {}
        self._engines: dict[tuple[str, ...], RolloutEngine] = {}

    @cached_property
    def _lock(self) -> HubLock:
        return HubLock(self._settings.home, self._asks_hub)

    def has(self, role: Role) -> bool:
        """Whether the profile names a model for a role."""
        return self._settings.models.of(role) is not None

    def spec(self, role: Role) -> LanguageModel:
        """The profile's model of a role, its hub revision pinned if its weights are loaded here."""
        model = self._settings.models.of(role)
        if model is None:
            raise SettingsError(f"the profile does not set models.{role}; name the model")
        return self.pinned(model) if _has_weights(self._settings.models.role_of(role), model) else model

    def pinned(self, model: LanguageModel) -> LanguageModel:
        """A model with the hub revision of the lock file; a GGUF file is fetched."""
        if self._asks_hub:
            fetch_gguf(model.name, model.sha256)
        if model.revision or Path(model_place(model.name)).exists():
            return model
        return model.model_copy(update={"revision": self._lock.revision("model", model.name)})

    def device(self, role: Role) -> str:
        """The device of a role's model: as the profile says, or the GPU of this process, or the CPU."""
        return self.device_of(self.spec(role))

    def device_of(self, model: LanguageModel) -> str:
        """The device of a model; see `device`."""
        device = self._dealer.device() if model.device in ("auto", "cuda") else model.device
        if device == "cpu" and model.device == "cuda":
            return model.device  # refused when the model is loaded
        if device == "cpu":
            warn_of_idle_gpu(model.name)
        return device

    def release(self) -> None:
        """Drop the models from memory; they are loaded again when needed."""
        from cpmi_dagster.models.memory import release_memory

        devices = {loaded.device for _, loaded in self._loaded.values()}
        self._loaded.clear()
        self._engines.clear()
        gc.collect()
        for device in devices:
            release_memory(device)

    def take_place(self, say: Callable[[str], object]) -> None:
        """Wait until no more than `orchestration.gpus` processes use models of this home, this one included."""
        take_place(self._settings.home / MODEL_LOCKS, self._settings.orchestration.gpus, say)

    def leave_place(self) -> None:
        """Release the models, and let other processes use theirs."""
        self.release()
        self._dealer.leave()
        leave_place(self._settings.home / MODEL_LOCKS)

    def visible_gpu(self) -> str | None:
        """The GPU of this process, as `CUDA_VISIBLE_DEVICES` names it; None for the first, or without a GPU."""
        number = int(self._dealer.device().partition(":")[2] or 0)
        visible = [name for name in environment_variable("CUDA_VISIBLE_DEVICES").split(",") if name]
        return None if number == 0 else visible[number] if visible else str(number)

    def identity(self, role: Role) -> str:
        """Name, revision or weights hash, and sampler of a role's model, which is not loaded; empty without one."""
        return _identity(self._settings.models.role_of(role), self.spec(role)) if self.has(role) else ""

    def facts(self, role: Role) -> list[str]:
        """The facts of a role's model: identity, precision, and the hash of a folder's config and tokenizer."""
        with _needed():
            return [self.identity(role), *_precision_and_reading(self.spec(role))]

    def facts_of(self, model: LanguageModel) -> list[str]:
        """The facts of a model that a recipe names."""
        spec = self.pinned(model)
        return [model_identity(spec.name, spec.revision), *_precision_and_reading(spec)]

    def load(self, role: Role) -> LoadedModel:
        """The model and its tokenizer, in memory."""
        with _needed():
            spec = self.spec(role)
            device = spec.device if spec.device_map else self.device_of(spec)
            weights, facts = (spec.name, spec.revision, spec.dtype, device, spec.device_map), self.facts_of(spec)
            if weights not in self._loaded or self._loaded[weights][0] != facts:
                self._loaded.pop(weights, None)  # its files have changed; both may not fit into memory
                self._loaded[weights] = facts, load_language_model(*weights)
            return self._loaded[weights][1]

    def chat(self, role: Role) -> Callable[[str], str]:
        """A function from a question to a prompt in the chat template of a role's tokenizer.

        Raises:
            ModelError: the tokenizer has no chat template.
        """
        with _needed():
            spec = self.pinned(self.spec(role))
            return chat_prompt(spec.name, load_tokenizer(model_folder(spec.name), spec.revision))

    def engine(self, role: Role, batch_sequences: int) -> RolloutEngine:
        """A generation engine on a role's model, by the library or server that its settings name.

        Raises:
            SettingsError: the key of an endpoint is missing.
            ModelError: the model cannot be loaded.
        """
        spec = self.spec(role)
        if spec.engine == "transformers":
            from cpmi_dagster.generation.transformers_engine import TransformersEngine

            return TransformersEngine(self.load(role), batch_sequences)
        facts = tuple(self.facts(role))
        if facts not in self._engines:
            make = _vllm_engine if spec.engine == "vllm" else _endpoint_engine
            self._engines[facts] = make(spec, batch_sequences, self.identity(role))
        return self._engines[facts]


@contextmanager
def _needed() -> Iterator[None]:
    """Turn an error of loading into `MissingModelError`, which ends the run."""
    try:
        yield
    except (ModelError, SourceError) as error:
        if error.__cause__ and is_out_of_memory(error.__cause__):
            raise  # memory may be free later
        raise MissingModelError(str(error)) from error


def _has_weights(role: str, spec: LanguageModel) -> bool:
    """Whether a role loads the model's weights here; a role that only samples may leave them to a server."""
    return spec.engine != "endpoint" or role in ("labeler", "backbone")


def _precision_and_reading(spec: LanguageModel) -> list[str]:
    """The precision, and the hash of config and tokenizer if the model is a folder."""
    return [spec.dtype, *filter(None, [reading_identity(spec.name)])]


def _identity(role: str, spec: LanguageModel) -> str:
    """The model, and its sampler if that is not `transformers` in this process."""
    model = spec.name if spec.revision is None else f"{spec.name}@{spec.revision[:IDENTITY_CHARACTERS]}"
    if _has_weights(role, spec):
        model = model_identity(spec.name, spec.revision)
    if role == "backbone" or spec.engine == "transformers":
        return model
    if spec.endpoint is None:
        return f"{model}@{spec.engine}"
    place = urlsplit(spec.endpoint)
    return f"{model}@{place.netloc}{place.path}{f'#{spec.served_name}' if spec.served_name else ''}"


def _vllm_engine(spec: LanguageModel, batch_sequences: int, identity: str) -> RolloutEngine:
    from cpmi_dagster.generation.vllm_engine import VllmEngine

    return VllmEngine(
        spec.name, spec.revision, spec.dtype, batch_sequences, identity, gpu_memory_share=spec.gpu_memory_share
    )


def _endpoint_engine(spec: LanguageModel, batch_sequences: int, identity: str) -> RolloutEngine:
    """The server makes its own batches; `requests_in_flight` bounds the requests to it."""
    from cpmi_dagster.generation.endpoint_engine import EndpointEngine

    return EndpointEngine(
        url=str(spec.endpoint),
        model=spec.served_name or spec.name,
        identity=identity,
        api_key=_api_key(spec),
        timeout_seconds=spec.timeout_seconds,
        requests_in_flight=spec.requests_in_flight,
        max_retries=spec.max_retries,
    )


def _api_key(spec: LanguageModel) -> str | None:
    """The endpoint's key from the environment, read when needed; no profile or hash includes it."""
    if spec.api_key_variable is None:
        return None
    key = environment_variable(spec.api_key_variable)
    if not key or not key.isascii() or not key.isprintable():
        raise SettingsError(
            f"model `{spec.name}` takes its endpoint's key from the environment variable {spec.api_key_variable}, "
            f"which {'is not printable ASCII' if key else 'is not set'}; set it, or remove `api_key_variable`"
        )
    return key
