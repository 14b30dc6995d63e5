"""Loads a profile into one frozen `Settings` object; nothing else reads settings from the environment.

A profile is a YAML file. It may say `extends: miniature` (a shipped profile, or a path) and contain only what differs.
Mappings are merged key by key, except a source or model (a mapping with `path`, `hub` or `name`), which is replaced
as a whole; lists and single values are replaced:

    extends: miniature
    profile: mine
    sources:
      trajectories: {path: rows.jsonl}
    models:
      labeler: {name: ./my-model}

The environment (`CPMI_SCORING__ROW_TOKENS=4096`) overrides the profile. Relative paths resolve against the file they
are in. A source or model is a local path, a hub id, or `miniature:NAME`, a part of the embedded world.
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
from cpmi_dagster.benchmarks.settings import Benchmarks, resolve_judges
from cpmi_dagster.contracts.frozen import Frozen
from cpmi_dagster.errors import SettingsError, first_complaint
from cpmi_dagster.files.places import expanded, home_of
from cpmi_dagster.files.text import did_you_mean
from cpmi_dagster.files.yaml_files import read_yaml
from cpmi_dagster.generation.settings import Rollouts
from cpmi_dagster.miniature.names import MINIATURE
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.negatives.settings import Negatives
from cpmi_dagster.prm.settings import Recipe, Training
from cpmi_dagster.profiles.names import check_judge_names, check_recipes_differ
from cpmi_dagster.profiles.orchestration import Orchestration
from cpmi_dagster.profiles.sources import Sources
from cpmi_dagster.profiles.spelling import settings_beside
from cpmi_dagster.rewards.dataset import DATASET_REWARD
from cpmi_dagster.rewards.registry import REWARD_TYPES, demand_of, reward_type
from cpmi_dagster.rewards.reward_type import Demand
from cpmi_dagster.rewards.settings import Rewards, SoftLabels
from cpmi_dagster.scoring.settings import ProfileScoring
from cpmi_dagster.selection import Selection
from cpmi_dagster.trajectories.rows import shard_name

PROFILES = Path(__file__).parent
DEFAULT_PROFILE = "miniature"
LONGEST_NAME = 200


class Models(Frozen):
    """Models by role; one that nothing needs may be left out."""

    labeler: LanguageModel = Field(description="its log-probabilities are CPMI's; it also samples hard negatives")
    rollouts: LanguageModel | None = Field(
        default=None, description="completes the prefixes of MC and PAV; null is the labeler (section 5.3)"
    )
    policy: LanguageModel | None = Field(
        default=None, description="samples the candidates of best-of-N, and trajectories of questions alone"
    )
    prover: LanguageModel | None = Field(default=None, description="PAV's second model")
    backbone: LanguageModel = Field(description="what reward models are trained from")

    def role_of(self, role: str) -> str:
        """The role whose model is used: `labeler` for `rollouts` if no model is named for them."""
        return "labeler" if role == "rollouts" and self.rollouts is None else role

    def of(self, role: str) -> LanguageModel | None:
        """The model of a role."""
        return getattr(self, self.role_of(role))


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

    def check_parts(self) -> "Settings":
        """These settings; raises ValueError if a part does not fit another."""
        names, gpus = self.recipe_names, self.orchestration.gpus
        if len(set(names)) < len(names):
            raise ValueError(f"recipes: the name `{next(n for n in names if names.count(n) > 1)}` is used twice")
        for recipe in self.recipes:
            if recipe.reward_type not in (*self.rewards.types, *self.sources.step_labels):
                if recipe.reward_type in REWARD_TYPES:
                    raise ValueError(f"recipes: `{recipe.name}` needs `{recipe.reward_type}` among rewards.types")
                raise ValueError(
                    f"recipes: `{recipe.name}` needs `{recipe.reward_type}` among sources.step_labels, or one of the "
                    f"reward types {', '.join(self.rewards.types)}"
                )
            _check_training(recipe, self.training)
            if gpus > 1 and recipe.trained_with(self.training).accelerate:
                raise ValueError(
                    f"recipes: `{recipe.name}` trains on the GPUs that `training.accelerate` names, which "
                    f"`orchestration.gpus: {gpus}` gives to other processes; set it to 1"
                )
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
        check_recipes_differ(self.recipes)
        check_judge_names(self.benchmarks.judges, self.recipes)
        return self

    _check_parts = model_validator(mode="after")(check_parts)

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
    values, written_in = _read_profile(chosen), str(changed_in or chosen)
    if changes and changed_in:
        values = _merge(values, _resolve_paths(dict(changes), changed_in))
    check_name(chosen, values["profile"])
    values["home"] = home or os.environ.get("CPMI_HOME") or values.get("home") or f".cpmi/{values['profile']}"
    if "://" in str(values["home"]):
        # an address may hold a key, and is not shown
        raise SettingsError("the home is an address; give a folder, which machines may share")
    values["home"] = home_of(values["home"])
    try:
        settings = Settings(**values)
    except EnvironmentNotRead as error:
        field = next((name for name in Settings.model_fields if f'"{name}"' in str(error)), "")
        raise SettingsError(
            f"the environment variable CPMI_{field.upper()}, or one that begins with it, is not JSON; correct it, or "
            "write single settings, such as CPMI_SCORING__ROW_TOKENS=4096"
        ) from error
    except ValidationError as error:
        raise SettingsError(_explain(written_in, error)) from error
    # pydantic reads CPMI_PROFILE and CPMI_HOME as settings; the values resolved above win
    settings = settings.model_copy(update={"profile": values["profile"], "home": values["home"]})
    settings._given, path = chosen, _profile_path(chosen).absolute()
    settings._file = None if path.parent.samefile(PROFILES) else path
    return settings


def _check_training(recipe: Recipe, training: Training) -> None:
    try:
        recipe.trained_with(training)
    except ValidationError as error:
        place, reason, kind, _ = first_complaint(error)
        where = f"training.{place}" if place else "training"
        wrong = "it is not a setting" if kind == "extra_forbidden" else reason
        raise ValueError(f"recipes: `{recipe.name}` sets `{where}` wrong: {wrong}") from error


def _check_environment() -> None:
    """Refuse unknown `CPMI_` variables, which pydantic ignores."""
    variables = {f"CPMI_{name}".upper() for name in Settings.model_fields}
    for variable in os.environ:
        if variable.startswith("CPMI_") and variable.partition("__")[0] not in variables:
            raise SettingsError(f"the environment variable {variable} is not a setting; unset it or check its spelling")


def check_name(chosen: str, name: Any) -> None:
    """Check the name of a profile, which is also that of its folder below `.cpmi`.

    Raises:
        SettingsError: the name is no plain file name.
    """
    is_name = isinstance(name, str) and name.strip() and name.isprintable() and Path(name).name == name != ".."
    if not is_name or len(name) > LONGEST_NAME:
        raise SettingsError(
            f"profile `{chosen}`: `profile: {name!r}` is not a plain file name; write one such as `mine`"
        )


def _read_profile(profile: str, extending: tuple[Path, ...] = ()) -> dict[str, Any]:
    path = _profile_path(profile)
    if path in extending:
        chain = ", ".join(map(str, extending))
        raise SettingsError(f"profile {path} extends itself, through {chain}; remove one `extends`")
    values = read_yaml(path)
    if not isinstance(values, dict):
        wrong = "is empty" if values is None else "holds no settings"
        raise SettingsError(f"profile {path} {wrong}; write settings as `name: value`, or let `cpmi init` write them")
    parent = values.pop("extends", None)
    values = _resolve_paths({"profile": path.stem, **values}, path)
    if parent is None:
        return values
    relative = path.parent / str(parent)
    inherited = _read_profile(str(relative) if relative.is_file() else str(parent), (*extending, path))
    del inherited["profile"]
    return _merge(inherited, values)


def _profile_path(profile: str) -> Path:
    for path in (PROFILES / f"{profile}.yaml", Path(profile)):
        if path.is_file():
            return path
    shipped = sorted(path.stem for path in PROFILES.glob("*.yaml"))
    near = did_you_mean(profile, [*shipped, *map(str, Path(profile).parent.glob("*.yaml"))])
    raise SettingsError(
        f"there is no profile `{profile}`{near}; give one of {', '.join(shipped)}, or the path of a YAML file"
    )


def _merge(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`changes` over `base`: mappings merge key by key, except a source or model, which is replaced whole."""
    merged = dict(base)
    for key, value in changes.items():
        nested = isinstance(value, dict) and isinstance(base.get(key), dict) and not _is_whole(value)
        merged[key] = _merge(base[key], value) if nested else value
    return merged


def _is_whole(value: Mapping[str, Any]) -> bool:
    """Whether a mapping is a source or a model."""
    return bool({"path", "hub", "name"} & set(value)) or isinstance(value.get("sample"), dict)


def _resolve_paths(values: dict[str, Any], profile: Path) -> dict[str, Any]:
    """Resolve relative paths against the profile: sources, models, accelerate's configuration, answers, `home`."""
    folder = profile.parent
    kinds = {"sources": "path", "models": "name", "training": "accelerate", "rewards": "weights"}
    values = {
        key: _resolve_below(value, kinds[key], folder) if key in kinds else value for key, value in values.items()
    }
    recipes = values.get("recipes")
    for recipe in recipes if isinstance(recipes, list) else ():
        for key, field in (("backbone", "name"), ("training", "accelerate")):
            if isinstance(recipe, dict) and key in recipe:
                recipe[key] = _resolve_below(recipe[key], field, folder)
    answers = values.get("answers")
    if isinstance(answers, dict) and "equivalent" in answers:
        below = folder / expanded(str(answers.get("folder") or "."))
        values["answers"] = {**answers, "folder": str(below.absolute())}
    if isinstance(values.get("benchmarks"), dict):
        values["benchmarks"] = resolve_judges(values["benchmarks"], folder)
    if "home" not in values:
        return values
    home = values["home"]
    if not isinstance(home, str) or not home.strip():
        raise SettingsError(f"profile {profile}: `home: {home!r}` is not a folder; write its path, or leave it out")
    return values if "://" in home else {**values, "home": str(folder / expanded(home))}


def _resolve_below(values: Any, field: str, folder: Path) -> Any:
    if isinstance(values, list):
        return [_resolve_below(value, field, folder) for value in values]
    if not isinstance(values, dict):
        return values
    return {
        key: _resolve_path(value, folder) if key == field else _resolve_below(value, field, folder)
        for key, value in values.items()
    }


def _resolve_path(value: Any, folder: Path) -> Any:
    if not isinstance(value, str) or value.startswith(MINIATURE):
        return value
    candidate = folder / expanded(value)
    return str(candidate.absolute()) if value.startswith((".", "~")) or candidate.exists() else value


def _explain(profile: str, error: ValidationError) -> str:
    place, reason, kind, _ = first_complaint(error)
    if not place:
        return f"profile `{profile}`: {reason}"
    if kind == "missing":
        # a misspelt setting is also missing under its right name
        others = (".".join(map(str, each["loc"])) for each in error.errors() if each["type"] == "extra_forbidden")
        if misspelt := next((name for name in others if f"`{place}`" in settings_beside(Settings, name)), None):
            place, kind = misspelt, "extra_forbidden"
    if kind == "extra_forbidden":
        return f"{_place(profile, place)}: `{place}` is not a setting; {settings_beside(Settings, place)}"
    if kind == "missing":
        return f"profile `{profile}`: the setting `{place}` is missing; add it"
    return f"{_place(profile, place)}: `{place}` is wrong: {reason}"


def _place(profile: str, where: str) -> str:
    """The environment variable that gives a setting, else the profile."""
    variable = f"CPMI_{where.replace('.', '__')}__".upper()
    names = (name for name, value in os.environ.items() if value and variable.startswith(f"{name.upper()}__"))
    name = max(names, key=len, default=None)
    return f"environment variable {name}" if name else f"profile `{profile}`"
