"""Reads the YAML of a profile, with the profile that it extends.

A profile may say `extends: miniature` (a shipped profile, or a path) and contain only what differs. Mappings are merged
key by key, except a source or model (a mapping with `path`, `hub` or `name`), which is replaced as a whole; lists and
single values are replaced:

    extends: miniature
    profile: mine
    sources:
      trajectories: {path: rows.jsonl}
    models:
      labeler: {name: ./my-model}

Relative paths resolve against the file they are in. A source or model is a local path, a hub id, or `miniature:NAME`, a
part of the embedded world.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cpmi_dagster.benchmarks.settings import resolve_judges
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files.places import expanded
from cpmi_dagster.files.text import did_you_mean
from cpmi_dagster.files.yaml_files import read_yaml
from cpmi_dagster.miniature.names import MINIATURE

PROFILES = Path(__file__).parent
LONGEST_NAME = 200


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


def read_profile(profile: str, extending: tuple[Path, ...] = ()) -> dict[str, Any]:
    path = profile_path(profile)
    if path in extending:
        chain = ", ".join(map(str, extending))
        raise SettingsError(f"profile {path} extends itself, through {chain}; remove one `extends`")
    values = read_yaml(path)
    if not isinstance(values, dict):
        wrong = "is empty" if values is None else "holds no settings"
        raise SettingsError(f"profile {path} {wrong}; write settings as `name: value`, or let `cpmi init` write them")
    parent = values.pop("extends", None)
    values = resolve_paths({"profile": path.stem, **values}, path)
    if parent is None:
        return values
    relative = path.parent / str(parent)
    inherited = read_profile(str(relative) if relative.is_file() else str(parent), (*extending, path))
    del inherited["profile"]
    return merge(inherited, values)


def profile_path(profile: str) -> Path:
    for path in (PROFILES / f"{profile}.yaml", Path(profile)):
        if path.is_file():
            return path
    shipped = sorted(path.stem for path in PROFILES.glob("*.yaml"))
    near = did_you_mean(profile, [*shipped, *map(str, Path(profile).parent.glob("*.yaml"))])
    raise SettingsError(
        f"there is no profile `{profile}`{near}; give one of {', '.join(shipped)}, or the path of a YAML file"
    )


def merge(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`changes` over `base`: mappings merge key by key, except a source or model, which is replaced whole."""
    merged = dict(base)
    for key, value in changes.items():
        nested = isinstance(value, dict) and isinstance(base.get(key), dict) and not _is_whole(value)
        merged[key] = merge(base[key], value) if nested else value
    return merged


def _is_whole(value: Mapping[str, Any]) -> bool:
    """Whether a mapping is a source or a model."""
    return bool({"path", "hub", "name"} & set(value)) or isinstance(value.get("sample"), dict)


def resolve_paths(values: dict[str, Any], profile: Path) -> dict[str, Any]:
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
