"""Which files were made with other settings, models, code or inputs than the profile's, and in what they differ.

    profile        scoring.templates: 4
    on disk        labels/answer_logprobs of shard 000 with 4 templates, of 001 to 003 with 2
    stale          labels/answer_logprobs 001 to 003, and what is made from them: template_scores, step_rewards, …

A stage skips or makes again its own partitions; what it reads of others it takes as it is, unless it asks here.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import CpmiError, LakeError
from cpmi_dagster.files.text import cut
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.declaration import Declaration
from cpmi_dagster.resources.dag.progress import LoggedProgress
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.lake.database import Database
from cpmi_dagster.resources.lake.extent import Extent, covers
from cpmi_dagster.resources.lake.input_rows import partitions_of
from cpmi_dagster.resources.lake.lake import FileRecord, Lake
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.resources.workers.language_models import LanguageModels

LONGEST_VALUE = 60
MOST_NAMED = 3


class Maker(Declaration, ABC):
    """A declared stage whose files can be judged."""

    @abstractmethod
    def is_up_to_date(self, run: StageRun, partition: str | None = None) -> bool:
        """Whether its files have what is asked for, made by what they would be made by now.

        Raises:
            LakeError: an input has not been made.
        """

    @abstractmethod
    def dependencies(self, run: StageRun, partition: str | None, extent: Extent | None = None) -> dict[str, Any]:
        """Everything the rows of a partition depend on, as JSON-able facts.

        Args:
            extent: how much of a stage that grows is looked at.
        """


class Staleness:
    """Judges the files of a home by a profile; every file once.

    Args:
        run: whose settings, models, sources and lake count.
        makers: the stage behind each table.
    """

    def __init__(self, run: StageRun, makers: Mapping[str, Maker]) -> None:
        # what a run is forced to make again is not stale once it has been made
        self._run = replace(run, lake=Lake(run.lake.home), memo={}, inputs=None)
        self._makers = makers
        self._known: dict[tuple[str, str | None], str] = {}

    def of(self, key: str, partition: str | None) -> str:
        """Why a file is stale, itself or through what it is made from; empty where it is not, or not on disk."""
        maker = self._makers.get(key)
        if maker is None or not self._run.lake.has(key, partition):
            return ""
        if self._run.lake.intact_record(key, partition) is None:
            return f"{key} {partition} is damaged" if partition else f"{key} is damaged"
        place = (maker.table, partition)
        if place not in self._known:
            self._known[place] = ""
            self._known[place] = self._own(maker, partition) or self._inherited(maker, partition)
        return self._known[place]

    def partitions(self, key: str) -> dict[str, str]:
        """The stale partitions of a table among those of the profile, each with the reason."""
        found = {name: self.of(key, name) for name in partitions_of(key, self._run.settings) or ()}
        return {name: reason for name, reason in found.items() if reason}

    def _own(self, maker: Maker, partition: str | None) -> str:
        try:
            if maker.is_up_to_date(self._run, partition):
                return ""
            asked = maker.asked(self._run.settings)
            facts = maker.dependencies(self._run, partition, asked)
        except CpmiError as error:
            return str(error)
        record = self._run.lake.intact_record(maker.table, partition)
        if record is None:
            return ""
        where = f"{maker.table} {partition}" if partition else maker.table
        wanted = {"seed": facts["seed"], **facts["settings"], **asked}
        differences = _differences(record, wanted, facts, maker)
        return f"{where} has {next(differences, 'other inputs')}"

    def _inherited(self, maker: Maker, partition: str | None) -> str:
        places = (
            (key, name) for key in maker.inputs for name in input_partitions(maker, key, partition, self._run.settings)
        )
        return next((reason for key, name in places if (reason := self.of(key, name))), "")


def staleness_of(settings: Settings, makers: Mapping[str, Maker]) -> Staleness:
    """What of a profile's home is stale, outside of a run."""
    lake = Lake(settings.home)
    resources = (LanguageModels(settings), DataSources(settings), Database(lake, settings), LoggedProgress())
    return Staleness(StageRun("status", (), settings, lake, *resources, "", lambda _: None), makers)


def input_partitions(
    declaration: Declaration, key: str, partition: str | None, settings: Settings
) -> Sequence[str | None]:
    """The partitions of an input that a partition of a stage is made from; None for a table in one file."""
    if TABLES[key].partitioning is None:
        return [None]
    if TABLES[key].partitioning == declaration.partitioning:
        return [partition]
    return partitions_of(key, settings) or []


def refuse_stale(staleness: Staleness, declaration: Declaration) -> None:
    """Refuse to read shards that the profile's settings would not give.

    Raises:
        LakeError: names the shards, in what they differ, and what to run.
    """
    for key in declaration.inputs:
        if TABLES[key].partitioning != "shard" or declaration.partitioning == "shard":
            continue
        if stale := staleness.partitions(key):
            names, reason = list(stale), next(iter(stale.values()))
            more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
            group = TABLES[key].group
            command = f"cpmi run --only {group}" if reason.startswith(f"{group}/") else "cpmi run"
            raise LakeError(
                f"{key} of shard {', '.join(names[:MOST_NAMED])}{more} is stale, so {declaration.table} is not made "
                f"from it: {reason}; run `{command}` first"
            )


def _differences(
    record: FileRecord, settings: Mapping[str, Any], facts: Mapping[str, Any], maker: Maker
) -> Iterator[str]:
    """In what a file differs from what would be made now, the settings and extent first."""
    recorded = {**record.settings, **record.extent}
    for path, value in settings.items():
        if path in record.extent and covers(record.extent, {path: value}):
            continue
        if recorded.get(path, value) != value:
            name, one, other = _narrowed(path, recorded[path], value)
            yield f"{name}: {cut(str(one), LONGEST_VALUE)}, the profile has {cut(str(other), LONGEST_VALUE)}"
    for path in maker.settings:
        if path not in settings and recorded.get(path) is not None:
            yield f"{path}: {cut(str(recorded[path]), LONGEST_VALUE)}, the profile has none"
    for role, model in facts["models"].items():
        made_with = record.inputs.get("models", {}).get(role)
        if made_with is None or made_with[0] != model[0]:
            yield f"another {role}: {made_with and made_with[0]}, the profile has {model[0]}"
        elif made_with != model[: len(made_with)]:
            yield f"another precision, config or tokenizer of the {role} {model[0]}"
    if record.code_version != maker.code_version:
        yield f"rows of code version {record.code_version}, today's is {maker.code_version}"
    for name, source in facts["sources"].items():
        if record.inputs.get("sources", {}).get(name) != source:
            yield f"rows of another version of the source `{name}`"


def _narrowed(path: str, one: Any, other: Any) -> tuple[str, Any, Any]:
    """The first part of a group of settings that differs: `rewards` becomes `rewards.alpha`."""
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return path, one, other
    name = next(name for name in {**one, **other} if one.get(name) != other.get(name))
    return _narrowed(f"{path}.{name}", one.get(name), other.get(name))
