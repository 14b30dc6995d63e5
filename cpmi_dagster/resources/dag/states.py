"""Whether the file of a partition is what the profile would make now; stages, `status` and the schedule ask here.

    profile        scoring.templates: 4
    on disk        labels/answer_logprobs of shard 000 with 4 templates, of 001 to 003 with 2
    State          000 current; 001 to 003 stale: "labels/answer_logprobs 001 has scoring.templates: 2, now 4"
                   template_scores, step_rewards, … of 001 to 003 are stale too, since their inputs are
    is_current     the check of each of these tables says: "scoring.templates: 2, now 4; shards 001 to 003"

A partition whose file has another key than the hash of its `facts` is made again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import CpmiError, LakeError
from cpmi_dagster.profiles.partitions import is_needed, partition_name, partition_words, partitions_of
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.facts import (
    OTHER_INPUTS,
    PILOT,
    columns_hashed,
    differences,
    key_of,
    recipe_facts,
    setting_values,
)
from cpmi_dagster.resources.dag.stage import Stage, asset_key
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.parquet import rows_hash
from cpmi_dagster.resources.models.language_models import LanguageModels
from cpmi_dagster.resources.sources.data_sources import DataSources

SOURCES = "sources"


@dataclass(frozen=True)
class State:
    """The state of a partition: its file is what the profile would make, was made of other facts, or is missing.

    Attributes:
        fact: what differs: `scoring.templates: 2, now 4`.
        table: of which it does, this one or one that it is made from.
        partition: of that table.
    """

    kind: Literal["current", "missing", "stale"]
    fact: str = ""
    table: str = ""
    partition: str | None = None

    @property
    def reason(self) -> str:
        """What differs, and where: `labels/answer_logprobs 001 has scoring.templates: 2, now 4`."""
        return f"{partition_name(self.table, self.partition)} has {self.fact}" if self.table else self.fact


CURRENT, MISSING = State("current"), State("missing")


@dataclass(frozen=True)
class States:
    """Judges the files of a home by a profile, each partition once.

    Attributes:
        stages: the stage behind each table.
        cache: of row hashes, shared by the runs of a process.
    """

    settings: Settings
    lake: Lake
    models: LanguageModels
    sources: DataSources
    stages: Mapping[str, Stage]
    cache: dict[str, Any] = field(default_factory=dict)
    _judged: dict[tuple[str, str | None], State] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings, stages: Mapping[str, Stage]) -> "States":
        """The states of a profile's home, outside of a run: nothing is asked of the hub, and no file is written."""
        models, sources = LanguageModels(settings, asks_hub=False), DataSources(settings, asks_hub=False)
        return cls(settings, Lake.of(settings), models, sources, stages)

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
        return {name: state.reason for name, state in states.items() if state.kind == "stale"}

    def explain(self, key: str) -> tuple[bool, str]:
        """Whether what is there of a table is current, and in words what differs and where.

        (False, "scoring.templates: 4, now 2 (labels/answer_logprobs); shards 000 to 003")
        """
        names: Sequence[str | None] = partitions_of(key, self.settings) or [None]
        states = {name: self.state(key, name) for name in names}
        sentences = []
        for fact, table in dict.fromkeys((each.fact, each.table) for each in states.values() if each.fact):
            places = [name for name, state in states.items() if name and (state.fact, state.table) == (fact, table)]
            where = f" ({table})" if table not in ("", key) else ""
            sentences.append("; ".join(filter(None, [f"{fact}{where}", partition_words(key, places)])))
        return not sentences, "\n\n".join(sentences) or "made of what the profile says now"

    def is_done(self, stage: Stage, partition: str | None) -> bool:
        """Whether a partition is current, and every byte of its files as it was written."""
        files = stage.files(partition, self.settings)
        return self.state(stage.table, partition).kind == "current" and all(self.lake.is_whole(*file) for file in files)

    def rows(self, stage: Stage, partition: str | None) -> int:
        """The rows of a partition, of all tables of its stage."""
        records = [self.lake.record(*file) for file in stage.files(partition, self.settings)]
        return sum(record.rows for record in records if record)

    def _judge(self, stage: Stage, partition: str | None) -> State:
        files = stage.files(partition, self.settings)
        there = [self.lake.has_file(*file) for file in files]
        if not all(there):
            is_part = stage.at_once and any(there)
            return State("missing", f"{stage.table} is of some shards alone ({PILOT})") if is_part else MISSING
        if changed := self.changed_input(stage, partition):
            return changed
        records = [record for file in files if (record := self.lake.record(*file))]
        if len(records) < len(files):
            return State("stale", f"{partition_name(stage.table, partition)} is damaged")
        if not self.lake.has_files(records[0]):
            return State(
                "missing", f"files of {partition_name(stage.table, partition)} are missing, or others than it wrote"
            )
        try:
            facts = self.facts(stage, partition)
        except CpmiError as error:
            return State("stale", str(error))
        key = key_of(facts)
        if all(record.key == key for record in records):
            return CURRENT
        fact = next(differences(records[0], facts, stage), OTHER_INPUTS)
        return State("stale", fact, stage.table, partition)

    def changed_input(self, stage: Stage, partition: str | None) -> State | None:
        """The state of the first input of a partition that is stale or missing; None if all are current."""
        for key in self.inputs_read(stage, partition):
            for name in self.partitions_read(stage, key, partition):
                state = self.state(key, name)
                if state.kind == "stale":
                    return state
                if state.kind == "missing":
                    return State("stale", state.reason or f"{partition_name(key, name)} is not there")
        return None

    def facts(self, stage: Stage, partition: str | None) -> dict[str, Any]:
        """Everything that the rows of a partition depend on, as JSON holds it.

        Raises:
            LakeError: an input has not been made.
            CpmiError: a model or a source cannot be read.
        """
        values = setting_values(stage.settings, self.settings)
        facts = {
            "code_version": stage.code_version,
            "columns": columns_hashed(stage),
            "seed": self.settings.seed,
            # None is left out: a setting that a later version adds makes no file stale
            "settings": {path: value for path, value in values.items() if value is not None},
            "models": {role: self.models.facts(role) for role in stage.models if self.models.has(role)}
            | {name: self.models.facts_of(model) for name, model in stage.named_models(self.settings).items()},
            "sources": {name: self.sources.version(each) for name, each in stage.sources(self.settings).items()},
            "inputs": {key: self._input(stage, key, partition) for key in self.inputs_read(stage, partition)},
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

    def inputs_read(self, stage: Stage, partition: str | None) -> list[str]:
        """The inputs that a partition depends on, of those that the profile needs."""
        needed = (key for key in stage.inputs if is_needed(key, self.settings))
        return [key for key in needed if self._rows_read(stage, key, partition) is not False]

    def _rows_read(self, stage: Stage, key: str, partition: str | None) -> bool | pl.Expr:
        """The filter of the rows of an input that a partition depends on; True of all, False of none."""
        return partition is None or stage.depends_on(key, partition, self.settings)

    def partitions_read(self, stage: Stage, key: str, partition: str | None) -> Sequence[str | None]:
        """The partitions of an input that a partition of a stage is made from."""
        if partition and TABLES[key].partitioning == stage.partitioning:
            return [partition]
        if not TABLES[key].partitioning:
            return [None]
        # a pilot looks at few shards, but judgements are of any
        is_of_source = TABLES[key].partitioning == "shard" and TABLES[stage.table].group == TABLES[key].group == SOURCES
        return self.settings.every_shard if is_of_source else partitions_of(key, self.settings) or []

    def _input(self, stage: Stage, key: str, partition: str | None) -> str | dict[str, str]:
        """The hashes of the rows of an input that a partition depends on."""
        names = self.partitions_read(stage, key, partition)
        if TABLES[key].partitioning and names != [partition]:
            return {str(name): self.lake.content(key, name) for name in names}
        content, chosen = self.lake.content(key, names[0]), self._rows_read(stage, key, partition)
        if isinstance(chosen, bool):
            return content
        name = f"{key} {content} {chosen}"
        if name not in self.cache:
            self.cache[name] = rows_hash(self.lake.read(key).filter(chosen))
        return self.cache[name]


def refuse_stale(states: States, stage: Stage, partition: str | None) -> None:
    """Refuse to make a partition from stale inputs; one that is missing is an error of the reading.

    Raises:
        LakeError: names the input, the fact that differs, and what to run.
    """
    for key in states.inputs_read(stage, partition):
        read = states.partitions_read(stage, key, partition)
        stale = {name: state for name in read if (state := states.state(key, name)).kind == "stale"}
        if stale:
            where, first = partition_words(key, [name for name in stale if name]), next(iter(stale.values()))
            name, advice = partition_name(stage.table, partition), _advice(stage, first.table or key, states.settings)
            raise LakeError(
                f"{key}{f' of {where}' if where else ''} is stale, so {name} is not made from it: "
                f"{first.reason}; {advice}"
            )


def _advice(stage: Stage, key: str, settings: Settings) -> str:
    """What to run; `key` is the first stale table."""
    if stage.prefix:
        return f"materialize {asset_key(key, stage.prefix).to_user_string()} and all upstream of it first"
    only = " --only labels" if TABLES[key].group == "labels" else ""
    return f"run `cpmi run{settings.profile_option}{only}` first, or materialize {key} and what follows it in Dagster"
