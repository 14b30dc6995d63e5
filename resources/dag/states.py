"""Whether the file of a partition is what the profile would make now: the one question, asked by all that decide.

    profile        scoring.templates: 4
    on disk        labels/answer_logprobs of shard 000 with 4 templates, of 001 to 003 with 2
    State          000 current; 001 to 003 other: "labels/answer_logprobs 001 has scoring.templates: 2, …"
                   template_scores, step_rewards, … of 001 to 003 are other through what they are made from

A file has a key: the hash of the facts that its rows depend on (code version, columns, the seed, settings, models,
sources, the content of each input). A partition whose file has another key is made again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal

import polars as pl
from pydantic_core import to_jsonable_python

from cpmi_dagster.contracts.tables import TABLES, columns_of
from cpmi_dagster.errors import CpmiError, LakeError
from cpmi_dagster.files.text import cut
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.declaration import Declaration
from cpmi_dagster.resources.lake.lake import Lake, partitions_of, words
from cpmi_dagster.resources.lake.records import Record, hash_of, rows_hash
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.resources.workers.language_models import LanguageModels

LONGEST_VALUE = 60
MOST_NAMED = 3
KEY_CHARACTERS = 32
OTHER_INPUTS = "other inputs"
PILOT = "a pilot, `--limit`"
LIMITED = "selection.trajectories"
"""The setting that a pilot changes."""


@dataclass(frozen=True)
class State:
    """Of a partition: its file is what the profile would make, is made of other facts, or is not there.

    Attributes:
        reason: in what the facts differ, of this partition or of what it is made from.
    """

    kind: Literal["current", "missing", "other"]
    reason: str = ""


CURRENT, MISSING = State("current"), State("missing")


@dataclass(frozen=True)
class States:
    """Judges the files of a home by a profile; every partition once.

    Attributes:
        stages: the stage behind each table.
        memo: hashes of rows, which the runs of a process share.
    """

    settings: Settings
    lake: Lake
    models: LanguageModels
    sources: DataSources
    stages: Mapping[str, Declaration]
    memo: dict[str, Any] = field(default_factory=dict)
    _known: dict[tuple[str, str | None], State] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings, stages: Mapping[str, Declaration]) -> "States":
        """Those of a profile's home, outside of a run."""
        return cls(settings, Lake.of(settings), LanguageModels(settings), DataSources(settings), stages)

    def state(self, key: str, partition: str | None = None) -> State:
        """The state of a partition of a table, by its own facts and by those of all that it is made from."""
        stage = self.stages.get(key)
        if stage is None:
            return CURRENT
        place = (stage.table, None if stage.at_once else partition)
        if place not in self._known:
            self._known[place] = self._judged(stage, place[1])
        return self._known[place]

    def stale(self, key: str) -> dict[str, str]:
        """The partitions of a table that are made of other facts, each with the reason; `all` where it has none."""
        partitions = partitions_of(key, self.settings)
        names = {"all": None} if partitions is None else {name: name for name in partitions}
        found = {name: self.state(key, partition) for name, partition in names.items()}
        return {name: state.reason for name, state in found.items() if state.kind == "other"}

    def files(self, stage: Declaration, partition: str | None) -> list[tuple[str, str | None]]:
        """Table and partition of each file that a run of a stage makes."""
        partitions: Sequence[str | None] = [partition]
        if stage.at_once:
            partitions = partitions_of(stage.table, self.settings) or [None]
        return [(key, name) for key in stage.tables for name in partitions]

    def is_made(self, stage: Declaration, partition: str | None, key: str, check: bool = False) -> bool:
        """Whether all files of a partition have a key.

        Args:
            check: read every byte of them.
        """
        records = [self.lake.record(*file) for file in self.files(stage, partition)]
        if not all(record and record.key == key for record in records):
            return False
        return not check or all(self.lake.is_whole(*file) for file in self.files(stage, partition))

    def _judged(self, stage: Declaration, partition: str | None) -> State:
        files = self.files(stage, partition)
        there = [self.lake.has(*file) for file in files]
        if not all(there):
            return State("missing", f"{stage.table} is of some shards alone ({PILOT})") if any(there) else MISSING
        for key in self._read(stage, partition):
            for name in self._partitions_read(stage, key, partition):
                state = self.state(key, name)
                if state.kind != "current":
                    return State("other", state.reason or f"{words(key, name)} is not there")
        records = [self.lake.record(*file) for file in files]
        first = records[0]
        if first is None or not all(records):
            return State("other", f"{words(stage.table, partition)} is damaged")
        if not self.lake.has_files(first):
            return MISSING
        try:
            facts = self.facts(stage, partition)
        except CpmiError as error:
            return State("other", str(error))
        if self.is_made(stage, partition, key_of(facts)):
            return CURRENT
        reason = next(_differences(first, facts, stage), OTHER_INPUTS)
        return State("other", f"{words(stage.table, partition)} has {reason}")

    def facts(self, stage: Declaration, partition: str | None) -> dict[str, Any]:
        """Everything that the rows of a partition depend on, as JSON-able facts.

        Raises:
            LakeError: an input has not been made.
            CpmiError: a model or a source cannot be looked at.
        """
        if not stage.asked(self.settings):
            return {"columns": _hashed_columns(stage), "nothing": stage.table}
        values = setting_values(stage.settings, self.settings)
        facts = {
            "code_version": stage.code_version,
            "columns": _hashed_columns(stage),
            "seed": self.settings.seed,
            # what is not set changes no row, so that a setting which a later version adds makes none stale
            "settings": {path: value for path, value in values.items() if value is not None},
            "models": {role: self.models.facts(role) for role in stage.models if self.models.has(role)}
            | {name: self.models.facts_of(model) for name, model in stage.named_models(self.settings).items()},
            "sources": {name: self.sources.version(own) for name, own in stage.sources(self.settings).items()},
            "inputs": {key: self._input(stage, key, partition) for key in self._read(stage, partition)},
        }
        if stage.partitioning not in (None, "shard"):
            facts["partition"] = partition
        if stage.counts_costs:
            records = {key: self.lake.record(key, partition) for key in stage.inputs if TABLES[key].partitioning}
            facts["costs"] = {key: dict(record.cost) for key, record in records.items() if record and record.cost}
        if stage.partitioning == "recipe" and partition:
            recipe = self.settings.recipe(partition)
            facts["recipe"] = recipe_facts(recipe, self.settings)
            if recipe.backbone is not None and "backbone" in stage.models:
                facts["models"]["backbone"] = self.models.facts_of(recipe.backbone)
        return facts

    def _read(self, stage: Declaration, partition: str | None) -> list[str]:
        """The inputs that a partition depends on."""
        if not stage.asked(self.settings):
            return []
        return [key for key in stage.inputs if stage.feeds(key, partition, self.settings)]

    def _partitions_read(self, stage: Declaration, key: str, partition: str | None) -> Sequence[str | None]:
        """The partitions of an input that a partition of a stage is made from."""
        if partition and TABLES[key].partitioning == stage.partitioning:
            return [partition]
        return partitions_of(key, self.settings) if TABLES[key].partitioning else [None]  # type: ignore[return-value]

    def _input(self, stage: Declaration, key: str, partition: str | None) -> str | dict[str, str]:
        """The hashes of the rows of an input that a partition depends on."""
        names = self._partitions_read(stage, key, partition)
        if TABLES[key].partitioning and names != [partition]:
            return {str(name): self.lake.content(key, name) for name in names}
        content = self.lake.content(key, names[0])
        if partition is None or key not in stage.rows_of:
            return content
        chosen: pl.Expr = stage.rows_of[key](self.settings, partition)
        name = f"{key} {content} {chosen}"
        if name not in self.memo:
            self.memo[name] = rows_hash(self.lake.read(key).filter(chosen))
        return self.memo[name]


def key_of(facts: Mapping[str, Any]) -> str:
    """The key of a file, from what its rows depend on."""
    return hash_of(facts)[:KEY_CHARACTERS]


def recipe_facts(recipe: Recipe, settings: Settings) -> dict[str, Any]:
    """What a recipe says of its training, with what it takes from the profile."""
    training = recipe.trained_with(settings.training).model_dump(mode="json")
    return {**recipe.model_dump(mode="json"), "training": training}


def setting_values(paths: Sequence[str], settings: object) -> dict[str, Any]:
    """Settings by their dotted paths, as values that JSON can hold."""
    return {path: to_jsonable_python(attrgetter(path)(settings), by_alias=False) for path in paths}


def _hashed_columns(stage: Declaration) -> dict[str, dict[str, str]]:
    """Columns and types of a stage's tables: a category that is added changes no row."""
    return {
        key: {
            name: "Enum" if isinstance(kind, pl.Enum) else str(kind) for name, kind in columns_of(TABLES[key]).items()
        }
        for key in stage.tables
    }


def refuse_stale(states: States, declaration: Declaration) -> None:
    """Refuse to read shards that the profile's settings would not give.

    Raises:
        LakeError: names the shards, in what they differ, and what to run.
    """
    for key in declaration.inputs:
        if TABLES[key].partitioning != "shard" or declaration.partitioning == "shard":
            continue
        if stale := states.stale(key):
            names, reason = list(stale), next(iter(stale.values()))
            more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
            group = TABLES[key].group
            command = f"cpmi run --only {group}" if reason.startswith(f"{group}/") else "cpmi run"
            raise LakeError(
                f"{key} of shard {', '.join(names[:MOST_NAMED])}{more} is stale, so {declaration.table} is not made "
                f"from it: {reason}; run `{command}` first"
            )


def _differences(record: Record, facts: Mapping[str, Any], stage: Declaration) -> Iterator[str]:
    """In what a file differs from what would be made now, the settings first."""
    now = {"seed": facts.get("seed"), **facts.get("settings", {})}
    for path, value in now.items():
        if record.settings.get(path, value) != value:
            name, one, other = _narrowed(path, record.settings[path], value)
            shown = "none" if other is None else cut(str(other), LONGEST_VALUE)
            pilot = f" ({PILOT})" if name == LIMITED and other is None else ""
            yield f"{name}: {cut(str(one), LONGEST_VALUE)}{pilot}, the profile has {shown}"
    for path in stage.settings:
        if path not in now and record.settings.get(path) is not None:
            yield f"{path}: {cut(str(record.settings[path]), LONGEST_VALUE)}, the profile has none"
    for role, model in facts.get("models", {}).items():
        made_with = record.inputs.get("models", {}).get(role)
        if made_with is None or made_with[0] != model[0]:
            yield f"another {role}: {made_with and made_with[0]}, the profile has {model[0]}"
        elif made_with != model[: len(made_with)]:
            yield f"another precision, config or tokenizer of the {role} {model[0]}"
    if record.code_version != stage.code_version:
        yield f"rows of code version {record.code_version}, today's is {stage.code_version}"
    for name, source in facts.get("sources", {}).items():
        if record.inputs.get("sources", {}).get(name) != source:
            yield f"rows of another version of the source `{name}`"


def _narrowed(path: str, one: Any, other: Any) -> tuple[str, Any, Any]:
    """The first part of a group of settings that differs: `rewards` becomes `rewards.alpha`."""
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return path, one, other
    name = next(name for name in {**one, **other} if one.get(name) != other.get(name))
    return _narrowed(f"{path}.{name}", one.get(name), other.get(name))
