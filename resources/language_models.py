"""The language models a run uses, loaded once per process, and the engines that sample from them."""

from functools import cached_property
from pathlib import Path
from typing import Literal

from cpmi_dagster.language_models import LoadedModel, load_language_model, model_folder, model_identity
from cpmi_dagster.rollouts.engine import RolloutEngine
from cpmi_dagster.settings import LanguageModel, Settings
from resources.hub import HubLock

Role = Literal["labeler", "policy", "prover", "backbone"]


class LanguageModels:
    """Models by role; two roles that name the same model share it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loaded: dict[LanguageModel, LoadedModel] = {}
        self._identities: dict[LanguageModel, str] = {}

    @cached_property
    def _lock(self) -> HubLock:
        return HubLock(self._settings.home)

    def spec(self, role: Role) -> LanguageModel:
        """The profile's model of that role, its hub revision pinned."""
        model: LanguageModel = getattr(self._settings.models, role)
        if model.revision or Path(model_folder(model.name)).is_dir():
            return model
        return model.model_copy(update={"revision": self._lock.revision("model", model.name)})

    def identity(self, role: Role) -> str:
        """Name and revision or weights hash, without loading the model."""
        spec = self.spec(role)
        if spec not in self._identities:
            self._identities[spec] = model_identity(spec.name, spec.revision)
        return self._identities[spec]

    def load(self, role: Role) -> LoadedModel:
        """The model and its tokenizer, in memory."""
        spec = self.spec(role)
        if spec not in self._loaded:
            self._loaded[spec] = load_language_model(spec.name, spec.revision, spec.dtype, spec.device)
        return self._loaded[spec]

    def engine(self, role: Role, batch_sequences: int) -> RolloutEngine:
        """A generation engine on the model of that role."""
        from cpmi_dagster.rollouts.transformers_engine import TransformersEngine

        return TransformersEngine(self.load(role), batch_sequences)
