"""What the rows of a file depend on: code version, columns, seed, settings, models, sources, the content of each input.

The hash of these facts is the key of the file. In words, those of some files, and what differs from the facts of now:

fact          name                    value
code version                          2
setting       scoring.templates       4
model         labeler                 miniature:labeler@9107f777503e, float32, 580a12c35a43
input         labels/hard_negatives   e3958c50

differences(record, facts, stage)     "scoring.templates: 2, now 4"
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import polars as pl
from pydantic_core import to_jsonable_python

from cpmi_dagster.contracts.tables import TABLES, columns_of
from cpmi_dagster.files.text import cut
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.stage import Stage
from cpmi_dagster.resources.lake.parquet import Record, hash_of

LONGEST_VALUE = 60
KEY_CHARACTERS, HASH_CHARACTERS = 32, 8
OTHER_INPUTS = "other inputs"
PILOT = "a pilot, `--limit`"
LIMITED = "selection.trajectories"
"""The setting that a pilot changes."""
WORDS = {
    "code_version": "code version",
    "settings": "setting",
    "models": "model",
    "sources": "source",
    "inputs": "input",
    "costs": "cost",
}
"""Names of kinds of facts, if a record calls them otherwise."""
BY_PATH = ("settings", "recipe")
"""Kinds of facts that have a row for each setting in them."""
HASH = re.compile("[0-9a-f]{64}")
COLUMNS = ("fact", "name", "value")


def key_of(facts: Mapping[str, Any]) -> str:
    """The key of a file, from what its rows depend on."""
    return hash_of(facts)[:KEY_CHARACTERS]


def recipe_facts(recipe: Recipe, settings: Settings) -> dict[str, Any]:
    """A recipe as JSON, its training settings completed from the profile."""
    training = recipe.trained_with(settings.training).model_dump(mode="json")
    return {**recipe.model_dump(mode="json"), "training": training}


def setting_values(paths: Sequence[str], settings: object) -> dict[str, Any]:
    """Settings by dotted path, as JSON holds them."""
    return {path: to_jsonable_python(attrgetter(path)(settings), by_alias=False) for path in paths}


def columns_hashed(stage: Stage) -> dict[str, dict[str, str]]:
    """Columns and types of a stage's tables, without categories: adding one changes no row."""
    return {
        key: {
            name: "Enum" if isinstance(kind, pl.Enum) else str(kind) for name, kind in columns_of(TABLES[key]).items()
        }
        for key in stage.tables
    }


def differences(record: Record, facts: Mapping[str, Any], stage: Stage) -> Iterator[str]:
    """The facts in which a file differs from what would be made now, settings first."""
    now = {name: facts[name] for name in ("seed", "recipe") if name in facts} | facts.get("settings", {})
    for path, value in now.items():
        if record.settings.get(path, value) != value:
            name, before, after = _narrow(path.replace("demand.", "needed "), record.settings[path], value)
            then, shown = ("none" if value is None else cut(str(value), LONGEST_VALUE) for value in (before, after))
            pilot = f" ({PILOT})" if name == LIMITED and (after is None or (before or after) < after) else ""
            yield f"{name}: {then}{pilot}, now {shown}"
    for path in stage.settings:
        if path not in now and record.settings.get(path) is not None:
            yield f"{path}: {cut(str(record.settings[path]), LONGEST_VALUE)}, now none"
    for role, model in facts.get("models", {}).items():
        made_with = record.inputs.get("models", {}).get(role)
        if made_with is None or made_with[0] != model[0]:
            yield f"another {role}: {made_with and made_with[0]}, now {model[0]}"
        elif made_with != model[: len(made_with)]:
            yield f"another precision, config or tokenizer of the {role} {model[0]}"
    if record.code_version != stage.code_version:
        yield f"rows of code version {record.code_version}, today's is {stage.code_version}"
    read = record.inputs.get("sources", {})
    for name, source in facts.get("sources", {}).items():
        if name not in read:
            yield f"no rows yet of the source `{name}`"
        elif read[name] != source:
            yield f"rows of another version of the source `{name}`"
    inputs = record.inputs.get("inputs", {})
    if others := [key for key, content in facts.get("inputs", {}).items() if inputs.get(key) != content]:
        yield f"{OTHER_INPUTS}: {', '.join(others)}"


def _narrow(path: str, before: Any, after: Any) -> tuple[str, Any, Any]:
    """The first setting of a group that differs: `rewards` becomes `rewards.alpha`."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return path, before, after
    name = next((name for name in {**before, **after} if before.get(name) != after.get(name)), None)
    if name is None:  # None was written then, and is left out now
        return path, before, after
    return _narrow(f"{path}.{name}", before.get(name), after.get(name))


def facts_in_words(records: Sequence[Record]) -> pl.DataFrame:
    """A row for each fact behind some files, with all its values if the files differ in it."""
    values: dict[tuple[str, str], dict[str, None]] = {}
    for record in records:
        for kind, name, value in _facts(record):
            values.setdefault((kind, name), {})[value] = None
    kinds = list(dict.fromkeys(kind for kind, _ in values))
    ordered = sorted(values.items(), key=lambda item: kinds.index(item[0][0]))
    rows = [(kind, name, ", ".join(distinct)) for (kind, name), distinct in ordered]
    return pl.DataFrame(rows, schema=dict.fromkeys(COLUMNS, pl.String()), orient="row")


def _facts(record: Record) -> Iterator[tuple[str, str, str]]:
    """The kind, name and value of each fact behind a file, without its columns, which the schema shows."""
    for kind, facts in record.facts.items():
        if kind == "columns":
            continue
        named = {"": facts} if not isinstance(facts, Mapping) else facts
        for name, value in _by_path(named) if kind in BY_PATH else named.items():
            yield WORDS.get(kind, kind), name, _in_words(value)


def _by_path(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by dotted path, without those that are null."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _by_path(value, f"{path}{name}.")
        elif value is not None:
            yield f"{path}{name}", value


def _in_words(value: Any) -> str:
    """A value of JSON as text, its hashes shortened: `split train, files 56e7d0a8`."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_in_words(each)}" for name, each in value.items() if each not in (None, {}))
    if isinstance(value, list):
        return ("; " if any(isinstance(each, Mapping) for each in value) else ", ").join(map(_in_words, value))
    if isinstance(value, float):
        return f"{value:.6g}"
    return value[:HASH_CHARACTERS] if isinstance(value, str) and HASH.fullmatch(value) else str(value)
