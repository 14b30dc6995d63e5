"""The settings of a profile, as one frozen `Settings` object; nothing else reads settings from the environment.

load_settings("mine.yaml").scoring.templates      4

The environment (`CPMI_SCORING__ROW_TOKENS=4096`) overrides the profile (see `profile_files`).
"""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, PrivateAttr, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings import SettingsError as EnvironmentNotRead

from cpmi_dagster.answers.comparison import Answers
from cpmi_dagster.benchmarks.registry import QUESTION_SETS
from cpmi_dagster.benchmarks.settings import Benchmarks
from cpmi_dagster.contracts.frozen import Frozen
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files.places import home_folder
from cpmi_dagster.generation.settings import Rollouts
from cpmi_dagster.models.settings import Models
from cpmi_dagster.negatives.settings import Negatives
from cpmi_dagster.prm.settings import Recipe, Training
from cpmi_dagster.profiles.complaints import explain
from cpmi_dagster.profiles.profile_files import PROFILES, check_name, merge, profile_path, read_profile, resolve_paths
from cpmi_dagster.profiles.recipes import check_judge_names, check_recipes
from cpmi_dagster.profiles.sources import Sources
from cpmi_dagster.rewards.dataset import DATASET_REWARD
from cpmi_dagster.rewards.registry import demand_of, reward_type
from cpmi_dagster.rewards.reward_type import Demand
from cpmi_dagster.rewards.settings import Rewards, SoftLabels
from cpmi_dagster.scoring.settings import ProfileScoring
from cpmi_dagster.selection import Selection
from cpmi_dagster.trajectories.rows import shard_name

DEFAULT_PROFILE = "miniature"


class Orchestration(Frozen):
    """Settings of Dagster."""

    gpus: int = Field(default=1, ge=1, description="GPUs: as many runs label at once, each on its own")
    shards_per_tick: int = Field(default=4, ge=1, description="most shards one schedule tick requests")
    schedule: str = Field(default="*/10 * * * *", description="cron of the missing-or-failed-shards schedule")
    retries: int = Field(default=3, ge=0, description="retries of a step that lacked memory or a server's answer")
    retry_seconds: float = Field(default=30, ge=0, description="before the first of them; doubled each time")
    webhook_variable: str | None = Field(
        default=None, description="environment variable with the URL that failed runs are posted to"
    )
    fresh_within_days: float | None = Field(
        default=None, gt=0, description="age beyond which Dagster shows the data set as overdue; null is never"
    )


class Settings(BaseSettings):
    """Everything a run depends on. Load it with `load_settings`."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix="CPMI_", env_nested_delimiter="__", env_ignore_empty=True
    )

    profile: str = Field(description="name of the results' folder below `.cpmi`; by default the file's name")
    home: Path = Field(description="folder of the results; by default CPMI_HOME, else .cpmi/PROFILE")
    seed: int = Field(default=0, ge=0, lt=2**31, description="seed of all random numbers")
    shards: int = Field(
        default=80, ge=1, lt=100, description="parts that are labelled one by one, about 1250 trajectories in each"
    )
    sources: Sources
    models: Models
    answers: Answers = Answers()
    selection: Selection = Selection()
    negatives: Negatives = Negatives()
    scoring: ProfileScoring = ProfileScoring()
    rollouts: Rollouts = Rollouts()
    rewards: Rewards
    soft_labels: SoftLabels = SoftLabels()
    training: Training = Training()
    recipes: tuple[Recipe, ...]
    benchmarks: Benchmarks = Benchmarks()
    orchestration: Orchestration = Orchestration()
    _given: str = PrivateAttr(default=DEFAULT_PROFILE)
    _file: Path | None = PrivateAttr(default=None)
    _is_pilot: bool = PrivateAttr(default=False)
    _first_shards: int | None = PrivateAttr(default=None)

    @classmethod
    def settings_customise_sources(cls, *_: Any, **sources: Any) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment overrides the profile, which arrives as keyword arguments."""
        return sources["env_settings"], sources["init_settings"]

    @model_validator(mode="after")
    def _check_parts(self) -> "Settings":
        gpus, labels = self.orchestration.gpus, self.sources.step_labels
        check_recipes(self.recipes, self.training, self.rewards.types, labels, gpus)
        check_judge_names(self.benchmarks.judges, self.recipes)
        for role, model in self.models:
            if model is not None and gpus > 1 and model.over_all_gpus:
                raise ValueError(
                    f"models.{role}: `{model.over_all_gpus}` takes GPUs that `orchestration.gpus: {gpus}` gives to "
                    "other processes; set it to 1, or sample at an `endpoint`"
                )
        for name in self.benchmarks.best_of_n:
            if name not in self.sources.benchmarks:
                raise ValueError(f"benchmarks.best_of_n: `{name}` is not among sources.benchmarks")
            if name not in QUESTION_SETS:
                choices = ", ".join(QUESTION_SETS)
                raise ValueError(f"benchmarks.best_of_n: `{name}` is not a question set; choose from {choices}")
        self._check_needs()
        return self

    def _check_needs(self) -> None:
        """Check that the profile names the models and data that its reward types and benchmarks need."""
        if self.models.prover is None:
            needy = [name for name in self.rewards.types if reward_type(name).demand.prover_steps != 0]
            if needy:
                raise ValueError(
                    f"models.prover is missing, and the reward type `{needy[0]}` needs it; name the model, or remove "
                    f"{', '.join(f'`{name}`' for name in needy)} from rewards.types"
                )
        for name in self.rewards.types:
            demand = reward_type(name).demand
            if (demand.negatives or 0) > self.negatives.count:
                raise ValueError(
                    f"rewards.types: `{name}` needs {demand.negatives} hard negatives, and "
                    f"negatives.count is {self.negatives.count}; raise it, or remove the type"
                )
            if "truth" in demand.inputs and not self.sources.step_truth:
                raise ValueError(f"rewards.types: `{name}` needs sources.step_truth; name it, or remove the type")
        if self.sources.sample and self.models.policy is None:
            raise ValueError(
                "models.policy is missing, and sources.trajectories samples solutions from it; name the model"
            )
        if self.benchmarks.best_of_n and self.models.policy is None:
            raise ValueError(
                "models.policy is missing, and benchmarks.best_of_n samples candidates from it; name the model, or set "
                "benchmarks.best_of_n to []"
            )

    def limited(self, trajectories: int | None) -> "Settings":
        """The settings of a pilot with at most this many trajectories; unchanged if None."""
        if trajectories is None:
            return self
        fewest = min(trajectories, self.selection.trajectories or trajectories)
        selection = self.selection.model_copy(update={"trajectories": fewest})
        pilot = self.model_copy(update={"selection": selection, "sources": self.sources.for_pilot(fewest)})
        pilot._is_pilot = True
        return pilot

    def within(self, shards: int) -> "Settings":
        """The settings of a pilot with only the first shards, whose layout does not change."""
        pilot = self.model_copy()
        pilot._first_shards = shards
        return pilot

    @property
    def is_pilot(self) -> bool:
        """Whether these are the settings of a pilot."""
        return self._is_pilot

    def rollouts_of(self, shard: str) -> int | None:
        """The share of `rollouts.sample` of a shard, in trajectories; None is all of them."""
        if self.rollouts.sample is None:
            return None
        share, more = divmod(self.rollouts.sample, self.shards)
        return share + (int(shard) < more)

    @property
    def demand(self) -> Demand:
        """What the reward types need; nothing else is computed."""
        rewards = self.rewards
        return demand_of(rewards.types, rewards.default_conditioning, self.negatives.count, self.scoring.conditionings)

    @property
    def given(self) -> str:
        """The name or path by which the profile was selected."""
        return self._given

    @property
    def profile_option(self) -> str:
        """The option that selects this profile, ` -p mine.yaml`; without it, a command takes the folder's last one."""
        return f" -p {shlex.quote(self._given)}"

    @property
    def file(self) -> Path | None:
        """The file of the profile; None for a shipped one."""
        return self._file

    @property
    def shard_keys(self) -> list[str]:
        """Partition keys `000`, `001`, ..."""
        return [shard_name(shard) for shard in range(self._first_shards or self.shards)]

    @property
    def every_shard(self) -> list[str]:
        """The partition keys of the whole run, also in a pilot."""
        return [shard_name(shard) for shard in range(self.shards)]

    @property
    def recipe_names(self) -> list[str]:
        """Partition keys of the reward models."""
        return [recipe.name for recipe in self.recipes]

    @property
    def has_own_trajectories(self) -> bool:
        """Whether the profile is a user's file that reads no embedded trajectories."""
        return self._file is not None and not any(each.is_embedded for each in self.sources.trajectories)

    @property
    def trained_labels(self) -> list[str]:
        """Reward types of the recipes; without recipes, the first reward type."""
        trained = list(dict.fromkeys(recipe.reward_type for recipe in self.recipes))
        return trained or [next(iter(self.rewards.types), DATASET_REWARD)]

    def recipe(self, name: str) -> Recipe:
        """The recipe with a name.

        Raises:
            SettingsError: the profile has no such recipe.
        """
        for recipe in self.recipes:
            if recipe.name == name:
                return recipe
        raise SettingsError(
            f"recipe `{name}` is not in profile `{self.profile}`; it has {', '.join(self.recipe_names)}"
        )


def load_settings(
    profile: str | Path | None = None,
    home: Path | str | None = None,
    changes: Mapping[str, Any] | None = None,
    changed_in: Path | None = None,
) -> Settings:
    """Load a profile by name or file; by default `CPMI_PROFILE`, else the miniature.

    Args:
        profile: name of a shipped profile, or a YAML file.
        home: folder of the results; by default `CPMI_HOME`, else `.cpmi/<profile>`.
        changes: settings that override the profile's, as in a profile that extends it.
        changed_in: the file of the changes; relative paths resolve against it, and messages name it.

    Raises:
        SettingsError: the profile does not exist, is not YAML, or has an unknown or wrong key.
    """
    _check_environment()
    chosen = str(profile or os.environ.get("CPMI_PROFILE") or DEFAULT_PROFILE)
    values, written_in = read_profile(chosen), str(changed_in or chosen)
    if changes and changed_in:
        values = merge(values, resolve_paths(dict(changes), changed_in))
    check_name(chosen, values["profile"])
    values["home"] = home or os.environ.get("CPMI_HOME") or values.get("home") or f".cpmi/{values['profile']}"
    if "://" in str(values["home"]):
        # an address may hold a key, and is not shown
        raise SettingsError("the home is an address; give a folder, which machines may share")
    values["home"] = home_folder(values["home"])
    try:
        settings = Settings(**values)
    except EnvironmentNotRead as error:
        field = next((name for name in Settings.model_fields if f'"{name}"' in str(error)), "")
        raise SettingsError(
            f"the environment variable CPMI_{field.upper()}, or one that begins with it, is not JSON; correct it, or "
            "write single settings, such as CPMI_SCORING__ROW_TOKENS=4096"
        ) from error
    except ValidationError as error:
        raise SettingsError(explain(Settings, written_in, error)) from error
    # pydantic reads CPMI_PROFILE and CPMI_HOME as settings; the values resolved above win
    settings = settings.model_copy(update={"profile": values["profile"], "home": values["home"]})
    settings._given, path = chosen, profile_path(chosen).absolute()
    settings._file = None if path.parent.samefile(PROFILES) else path
    return settings


def _check_environment() -> None:
    """Refuse unknown `CPMI_` variables, which pydantic ignores."""
    variables = {f"CPMI_{name}".upper() for name in Settings.model_fields}
    for variable in os.environ:
        if variable.startswith("CPMI_") and variable.partition("__")[0] not in variables:
            raise SettingsError(f"the environment variable {variable} is not a setting; unset it or check its spelling")
