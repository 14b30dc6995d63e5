"""Whether the files of a partition are what the profile would make now: the one question, asked by all that decide.

    profile        scoring.templates: 4
    on disk        labels/answer_logprobs of shard 000 with 4 templates, of 001 to 003 with 2
    State          000 current; 001 to 003 other: "labels/answer_logprobs 001 has scoring.templates: 2, …"
                   template_scores, step_rewards, … of 001 to 003 are other through what they are made from

A part of a table has a key: the hash of the facts that its rows depend on (code version, columns, the seed, settings,
models, sources) and of the rows of its inputs. A stage makes the parts of which no file has the key.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal

from pydantic_core import to_jsonable_python

from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import CpmiError, LakeError
from cpmi_dagster.files.text import cut
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.declaration import Declaration
from cpmi_dagster.resources.lake.current_files import Entry
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.parts import (
    NOTHING,
    ROWS_OF_PARTITION,
    ROWS_OF_TABLE,
    facts_of_part,
    feeds,
    inputs_of,
    partitions_of,
    parts_asked,
    parts_read,
)
from cpmi_dagster.resources.lake.records import KEY_CHARACTERS, FileRecord, hash_of, hashed_columns, rows_hash
from cpmi_dagster.resources.lake.table_files import missing, words
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.resources.workers.language_models import LanguageModels

LONGEST_VALUE = 60
MOST_NAMED = 3


@dataclass(frozen=True)
class State:
    """Of a partition: its files are what the profile would make, are made of other facts, or are not there.

    Attributes:
        reason: in what the facts differ, of this partition or of what it is made from.
    """

    kind: Literal["current", "missing", "other"]
    reason: str = ""


CURRENT, MISSING = State("current"), State("missing")


@dataclass(frozen=True)
class ToMake:
    """What a stage makes of a partition.

    Attributes:
        facts: that the rows depend on, by kind.
        keys: of the parts that the profile asks for.
        entries: by table, the files that have some of these parts.
        missing: the parts that are in no file of some table.
    """

    facts: Mapping[str, Any]
    keys: Mapping[str, str]
    entries: Mapping[str, Entry]
    missing: Sequence[str]


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
        place = (stage.table, partition)
        if place not in self._known:
            self._known[place] = self._judged(stage, partition)
        return self._known[place]

    def stale(self, key: str) -> dict[str, str]:
        """The partitions of a table that are made of other facts, each with the reason; `all` where it has none."""
        partitions = partitions_of(key, self.settings)
        names = {"all": None} if partitions is None else {name: name for name in partitions}
        found = {name: self.state(key, partition) for name, partition in names.items()}
        return {name: state.reason for name, state in found.items() if state.kind == "other"}

    def to_make(self, stage: Declaration, partition: str | None, check: bool = False) -> ToMake:
        """What a stage would make of a partition, from its inputs as the profile reads them now.

        Args:
            check: read every byte of the files that are there.

        Raises:
            LakeError: an input has not been made.
            CpmiError: a model or a source cannot be looked at.
        """
        facts, keys = self._keys(stage, partition)
        entries = {key: self.lake.found(key, partition, keys, check) for key in stage.tables}
        found = [{part for parts in entry.values() for part in parts} for entry in entries.values()]
        return ToMake(facts, keys, entries, [part for part in keys if not all(part in own for own in found)])

    def _judged(self, stage: Declaration, partition: str | None) -> State:
        if not all(self.lake.has(key, partition) for key in stage.tables):
            return MISSING
        for key in self._read(stage, partition):
            for name in inputs_of(stage.table, partition, key, self.settings):
                state = self.state(key, name)
                if state.kind != "current":
                    return State("other", state.reason or f"{words(key, name)} is not there any more")
        records = [self.lake.intact_record(key, partition) for key in stage.tables]
        first = records[0]
        if first is None or not all(records):
            return State("other", f"{words(stage.table, partition)} is damaged")
        if not self.lake.tables.has_files(first):
            return MISSING
        try:
            facts, keys = self._keys(stage, partition)
        except CpmiError as error:
            return State("other", str(error))
        if dict(first.parts) == dict(keys):
            return CURRENT
        found = self.lake.found(stage.table, partition, keys, check=False)
        if keys.keys() == {part for parts in found.values() for part in parts}:
            reason = "files of the profile's settings, which the next run will read"
        else:
            reason = next(_differences(first, facts, stage), "other inputs")
        return State("other", f"{words(stage.table, partition)} has {reason}")

    def adopt_inputs(self, stage: Declaration, partition: str | None) -> None:
        """Have the profile read what another profile of the home has made of the same facts, where it reads nothing."""
        for key in self._read(stage, partition):
            for name in inputs_of(stage.table, partition, key, self.settings):
                if key in self.stages and self.lake.entry(key, name) is None:
                    self.adopt_inputs(self.stages[key], name)
                    with suppress(CpmiError):
                        wanted = self.to_make(self.stages[key], name)
                        if not wanted.missing:
                            self.lake.count({(table, name): entry for table, entry in wanted.entries.items()})

    def _keys(self, stage: Declaration, partition: str | None) -> tuple[dict[str, Any], dict[str, str]]:
        """The facts of a partition, and the key of each part that the profile asks for."""
        parts = parts_asked(stage.table, self.settings)
        if parts == (NOTHING,):
            return {}, {NOTHING: hash_of([stage.table, NOTHING])[:KEY_CHARACTERS]}
        facts = self.facts(stage, partition)
        by_part = {
            key: contents for key, contents in facts["inputs"].items() if parts_read(stage.table, "", key) is not None
        }
        whole = {key: own for key, own in facts["inputs"].items() if key not in by_part}
        shared = {**facts, "asks": None}
        try:
            keys = {
                part: hash_of(
                    {
                        **facts_of_part(stage.table, part, shared),
                        "inputs": whole,
                        "part": part,
                        "of": {
                            key: {name: contents[name] for name in parts_read(stage.table, part, key) or ()}
                            for key, contents in by_part.items()
                        },
                    }
                )[:KEY_CHARACTERS]
                for part in parts
            }
        except KeyError as error:
            names = " and ".join(by_part)
            raise LakeError(
                f"{words(stage.table, partition)} needs {error} of {names}, which has less; "
                f"run `cpmi run --only {names}` first"
            ) from error
        return facts, keys

    def facts(self, stage: Declaration, partition: str | None) -> dict[str, Any]:
        """Everything that the rows of a partition depend on, as JSON-able facts.

        Raises:
            LakeError: an input has not been made.
            CpmiError: a model or a source cannot be looked at.
        """
        values = setting_values(stage.settings, self.settings)
        facts = {
            "code_version": stage.code_version,
            "columns": {key: hashed_columns(key) for key in stage.tables},
            "seed": self.settings.seed,
            # what is not set changes no row, so that a setting which a later version adds makes none stale
            "settings": {path: value for path, value in values.items() if value is not None},
            "asks": setting_values(stage.asks, self.settings),
            "models": {role: self.models.facts(role) for role in stage.models if self.models.has(role)}
            | {name: self.models.facts_of(model) for name, model in stage.named_models(self.settings).items()},
            "sources": {name: self.sources.version(own) for name, own in stage.sources(self.settings).items()},
            "inputs": {key: self._input(stage, key, partition) for key in self._read(stage, partition)},
        }
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
        return [key for key in stage.inputs if feeds(key, stage.partitioning, partition, self.settings)]

    def _input(self, stage: Declaration, key: str, partition: str | None) -> str | dict[str, str]:
        """The hashes of the rows of an input that a partition depends on."""
        if TABLES[key].partitioning == stage.partitioning and partition:
            record = self.lake.record(key, partition)
            if record is None:
                raise missing(key, partition)
            return record.as_input
        if TABLES[key].partitioning is not None:
            return {name: self.lake.content(key, name) for name in partitions_of(key, self.settings) or []}
        content = self.lake.content(key, None)
        if partition and (rows := ROWS_OF_PARTITION.get((key, stage.partitioning))):
            chosen = rows(self.settings, partition)
        elif (key, stage.table) in ROWS_OF_TABLE:
            chosen = ROWS_OF_TABLE[key, stage.table]
        else:
            return content
        name = f"{key} {content} {chosen}"
        if name not in self.memo:
            self.memo[name] = rows_hash(self.lake.read(key).filter(chosen))
        return self.memo[name]


def recipe_facts(recipe: Recipe, settings: Settings) -> dict[str, Any]:
    """What a recipe says of its training, with what it takes from the profile."""
    training = recipe.trained_with(settings.training).model_dump(mode="json")
    return {**recipe.model_dump(mode="json"), "training": training}


def setting_values(paths: Sequence[str], settings: object) -> dict[str, Any]:
    """Settings by their dotted paths, as values that JSON can hold."""
    return {path: to_jsonable_python(attrgetter(path)(settings), by_alias=False) for path in paths}


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


def _differences(record: FileRecord, facts: Mapping[str, Any], stage: Declaration) -> Iterator[str]:
    """In what a file differs from what would be made now, the settings first."""
    now = {"seed": facts.get("seed"), **facts.get("settings", {}), **facts.get("asks", {})} if facts else {}
    for path, value in now.items():
        if record.settings.get(path, value) != value:
            name, one, other = _narrowed(path, record.settings[path], value)
            yield f"{name}: {cut(str(one), LONGEST_VALUE)}, the profile has {cut(str(other), LONGEST_VALUE)}"
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
