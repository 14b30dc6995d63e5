"""Settings of process reward models: training and recipes.

training: {epochs: 2, lora: {rank: 16}, gradient_checkpointing: true}
recipes:
  - {name: cpmi_bce, reward_type: cpmi}
  - {name: cpmi_bce_seed1, reward_type: cpmi, seed: 1}                                   the same with other draws
  - {name: cpmi_linear, reward_type: cpmi, head: linear}                                 loads without this package
  - {name: cpmi_small, reward_type: cpmi, backbone: {name: Qwen/Qwen3-0.6B-Base}, training: {learning_rate: 5.0e-5}}
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from cpmi_dagster.contracts.frozen import Frozen
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files.yaml_files import read_yaml
from cpmi_dagster.models.settings import LanguageModel

Objective = Literal["bce", "mse", "pqm"]
Head = Literal["two_layer", "linear"]


class Lora(Frozen):
    """Low-rank adapters on the backbone, merged into its weights at the end; the head is trained in full."""

    rank: int = Field(default=16, ge=1, description="of the adapters")
    alpha: float = Field(default=32, gt=0, description="the adapters' output is scaled by alpha / rank")
    dropout: float = Field(default=0.05, ge=0, lt=1, description="of the adapters' input")
    target_modules: tuple[str, ...] | Literal["all-linear"] = Field(
        default="all-linear", description="names of the backbone's layers that get adapters, e.g. [q_proj, v_proj]"
    )


class Training(Frozen):
    """PRM training (section 5.3; released settings). Settings that change no weight are in no key."""

    learning_rate: float = Field(default=2e-5, gt=0, allow_inf_nan=False, description="of the backbone")
    head_learning_rate: float = Field(default=3e-4, gt=0, allow_inf_nan=False, description="of the head")
    epochs: float = Field(default=2, gt=0, allow_inf_nan=False, description="times that the data set is read")
    batch_size: int = Field(default=8, ge=1, description="trajectories a process reads at once")
    gradient_accumulation: int = Field(default=3, ge=1, description="batches of an update")
    warmup_ratio: float = Field(
        default=0.08, ge=0, lt=1, description="share of the updates in which the learning rate rises"
    )
    weight_decay: float = Field(default=0.01, ge=0, description="of all weights")
    max_tokens: int = Field(
        default=2400, ge=16, description="longest text in tokens; whole steps beyond it are dropped"
    )
    bf16: bool = Field(default=True, description="mixed precision, if the device supports it")
    lora: Lora | None = Field(default=None, description="train adapters, not all weights; null trains all")
    validation_share: float = Field(default=0.05, ge=0, lt=1, description="share of questions kept for validation")
    validations: int = Field(
        default=10, ge=1, description="validation losses during training, besides that at the start"
    )
    pqm_margin: float = Field(default=4.0, description="zeta of PQM")
    backbone: Literal["full", "frozen"] = Field(
        default="full",
        description="frozen: only the head learns, from hidden states that are read once for all recipes",
    )
    gradient_checkpointing: bool = Field(default=False, exclude=True, description="less memory, a third more time")
    checkpoints: int = Field(
        default=10, ge=0, exclude=True, description="saves to resume a killed training from; 0 = none"
    )
    accelerate: dict[str, Any] | None = Field(
        default=None, description="what `accelerate config` writes, or the path of its file: several GPUs, FSDP"
    )

    @field_validator("accelerate", mode="before")
    @classmethod
    def _read_configuration(cls, value: Any) -> Any:
        from accelerate.commands.config.config_args import ClusterConfig

        try:
            read = read_yaml(Path(value)) if isinstance(value, str | Path) else value
        except SettingsError as error:
            raise ValueError(f"the accelerate configuration {error}") from error
        if not isinstance(read, dict):
            return read
        if unknown := [key for key in read if key not in ClusterConfig.__dataclass_fields__]:
            raise ValueError(f"an accelerate configuration has no `{unknown[0]}`; see `accelerate config`")
        if str(read.get("num_machines", 1)) != "1":
            raise ValueError("`num_machines` must be 1; a recipe is trained on one machine")
        if int(read.get("num_processes", 1)) < 1:
            raise ValueError("`num_processes` must be at least 1")
        return read

    @model_validator(mode="after")
    def _fits_together(self) -> "Training":
        for name in ("lora", "accelerate"):
            if self.backbone == "frozen" and getattr(self, name):
                raise ValueError(
                    f"`{name}` trains a backbone, but `backbone: frozen` trains the head alone; leave it out, or set "
                    "`backbone: full`"
                )
        return self


class Recipe(Frozen):
    """One PRM to train: reward type x objective x backbone x head."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][\w.-]*$",
        max_length=200,
        description="of the reward model: partition key, row label and folder",
    )
    reward_type: str = Field(description="reward type whose soft labels the model is trained on")
    objective: Objective = Field(default="bce", description="loss of a step's label")
    backbone: LanguageModel | None = Field(default=None, description="models.backbone if null")
    head: Head = Field(
        default="two_layer",
        description="the paper's two layers, or one, which transformers and vLLM load by themselves once exported",
    )
    seed: int = Field(default=0, ge=0, lt=2**31, description="added to the profile's: repeats show what is noise")
    training: dict[str, Any] = Field(default={}, description="settings that differ from the profile's training")

    def trained_with(self, training: Training) -> Training:
        """The profile's training settings with the changes of this recipe.

        Raises:
            ValidationError: a key is not a setting, or its value is wrong.
            ValueError: the recipe needs other hidden states of a frozen backbone than the profile's other recipes.
        """
        changes = dict(self.training)
        if training.lora is not None and isinstance(changes.get("lora"), dict):
            changes["lora"] = {**dict(training.lora), **changes["lora"]}
        changed = Training.model_validate({**dict(training), **changes}) if changes else training
        if changed.backbone == "frozen" and (self.backbone or changed.max_tokens != training.max_tokens):
            raise ValueError(
                f"recipes: `{self.name}` has a backbone or `max_tokens` of its own, but `backbone: frozen` reads "
                "the same hidden states for all recipes; set `training: {backbone: full}` in this recipe"
            )
        return changed

    @property
    def is_plain(self) -> bool:
        """Whether it differs from the profile's other recipes by reward type and objective only."""
        return not self.seed and self.backbone is None and not self.training and self.head == "two_layer"
