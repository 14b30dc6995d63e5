"""Whether the file of a partition is what the profile would make now; stages, `status` and the schedule ask here.

    profile        scoring.templates: 4
    on disk        labels/answer_logprobs of shard 000 with 4 templates, of 001 to 003 with 2
    State          000 current; 001 to 003 other: "labels/answer_logprobs 001 has scoring.templates: 2, …"
                   template_scores, step_rewards, … of 001 to 003 are other too, since their inputs are

The key of a file is the hash of the facts that its rows depend on: code version, columns, seed, settings, models,
sources, the content of each input. A partition whose file has another key is made again.
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
    """The state of a partition: its file is what the profile would make, was made of other facts, or is missing.

    Attributes:
        reason: which fact of this partition, or of one of its inputs, differs.
    """

    kind: Literal["current", "missing", "other"]
    reason: str = ""


CURRENT, MISSING = State("current"), State("missing")


@dataclass(frozen=True)
class States:
    """Judges the files of a home by a profile, each partition once.

    Attributes:
        stages: the stage behind each table.
        memo: cache of row hashes, shared by the runs of a process.
    """

    settings: Settings
    lake: Lake
    models: LanguageModels
    sources: DataSources
    stages: Mapping[str, Declaration]
    memo: dict[str, Any] = field(default_factory=dict)
    _judged: dict[tuple[str, str | None], State] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings, stages: Mapping[str, Declaration]) -> "States":
        """The states of a profile's home, outside of a run."""
        return cls(settings, Lake.of(settings), LanguageModels(settings), DataSources(settings), stages)

    def state(self, key: str, partition: str | None = None) -> State:
        """The state of a partition of a table, by its facts and those of its inputs."""
        stage = self.stages.get(key)
        if stage is None:
            return CURRENT
        place = (stage.table, None if stage.at_once else partition)
        if place not in self._judged:
            self._judged[place] = self._judge(stage, place[1])
        return self._judged[place]

    def stale(self, key: str) -> dict[str, str]:
        """The reason by partition that was made of other facts; an unpartitioned table has the partition `all`."""
        partitions = partitions_of(key, self.settings)
        names = {"all": None} if partitions is None else {name: name for name in partitions}
        states = {name: self.state(key, partition) for name, partition in names.items()}
        return {name: state.reason for name, state in states.items() if state.kind == "other"}

    def files(self, stage: Declaration, partition: str | None) -> list[tuple[str, str | None]]:
        """The table and partition of each file that a run of a stage makes."""
        partitions: Sequence[str | None] = [partition]
        if stage.at_once:
            partitions = partitions_of(stage.table, self.settings) or [None]
        return [(key, name) for key in stage.tables for name in partitions]

    def is_made(self, stage: Declaration, partition: str | None, key: str, check: bool = False) -> bool:
        """Whether all files of a partition have this key; `check` also reads every byte of them."""
        records = [self.lake.record(*file) for file in self.files(stage, partition)]
        if not all(record and record.key == key for record in records):
            return False
        return not check or all(self.lake.is_whole(*file) for file in self.files(stage, partition))

    def _judge(self, stage: Declaration, partition: str | None) -> State:
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
        """Everything that the rows of a partition depend on, as JSON holds it.

        Raises:
            LakeError: an input has not been made.
            CpmiError: a model or a source cannot be read.
        """
        if not stage.asked(self.settings):
            return {"columns": _hashed_columns(stage), "nothing": stage.table}
        values = setting_values(stage.settings, self.settings)
        facts = {
            "code_version": stage.code_version,
            "columns": _hashed_columns(stage),
            "seed": self.settings.seed,
            # None is left out: a setting that a later version adds makes no file stale
            "settings": {path: value for path, value in values.items() if value is not None},
            "models": {role: self.models.facts(role) for role in stage.models if self.models.has(role)}
            | {name: self.models.facts_of(model) for name, model in stage.named_models(self.settings).items()},
            "sources": {name: self.sources.version(each) for name, each in stage.sources(self.settings).items()},
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
    """A recipe as JSON, its training settings completed from the profile."""
    training = recipe.trained_with(settings.training).model_dump(mode="json")
    return {**recipe.model_dump(mode="json"), "training": training}


def setting_values(paths: Sequence[str], settings: object) -> dict[str, Any]:
    """Settings by dotted path, as JSON holds them."""
    return {path: to_jsonable_python(attrgetter(path)(settings), by_alias=False) for path in paths}


def _hashed_columns(stage: Declaration) -> dict[str, dict[str, str]]:
    """Columns and types of a stage's tables, without categories: adding one changes no row."""
    return {
        key: {
            name: "Enum" if isinstance(kind, pl.Enum) else str(kind) for name, kind in columns_of(TABLES[key]).items()
        }
        for key in stage.tables
    }


def refuse_stale(states: States, declaration: Declaration) -> None:
    """Refuse to make a table of all shards from stale ones.

    Raises:
        LakeError: names the shards, the fact that differs, and what to run.
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
    """The facts in which a file differs from what would be made now, settings first."""
    now = {"seed": facts.get("seed"), **facts.get("settings", {})}
    for path, value in now.items():
        if record.settings.get(path, value) != value:
            name, before, after = _narrow(path, record.settings[path], value)
            shown = "none" if after is None else cut(str(after), LONGEST_VALUE)
            pilot = f" ({PILOT})" if name == LIMITED and after is None else ""
            yield f"{name}: {cut(str(before), LONGEST_VALUE)}{pilot}, the profile has {shown}"
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
    read = record.inputs.get("sources", {})
    for name, source in facts.get("sources", {}).items():
        if name not in read:
            yield f"no rows yet of the source `{name}`"
        elif read[name] != source:
            yield f"rows of another version of the source `{name}`"


def _narrow(path: str, before: Any, after: Any) -> tuple[str, Any, Any]:
    """The first setting of a group that differs: `rewards` becomes `rewards.alpha`."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return path, before, after
    name = next(name for name in {**before, **after} if before.get(name) != after.get(name))
    return _narrow(f"{path}.{name}", before.get(name), after.get(name))
