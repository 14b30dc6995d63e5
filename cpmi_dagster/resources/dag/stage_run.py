"""A run of a stage, as its body sees it: inputs, settings, models, and the answers that are kept."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from cpmi_dagster.contracts.keys import SELECTED, TRAJECTORIES
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import LakeError
from cpmi_dagster.files.time_left import Advance
from cpmi_dagster.generation.engine import Stop
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.profiles.partitions import partitions_of
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.answers.cache import AnswerCache, check_unchanged
from cpmi_dagster.resources.answers.questions import CONTINUATION, CONTINUATION_KEY, CachingEngine
from cpmi_dagster.resources.dag.progress import Progress
from cpmi_dagster.resources.dag.stage import Stage
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.models.language_models import LanguageModels, Role
from cpmi_dagster.resources.sources.data_sources import DataSources


@dataclass(frozen=True)
class Home:
    """What all stages of a process share: the profile, its files, models and sources.

    Attributes:
        stages: the stage behind each table.
        remake: partitions to make again once though they are current, as `labels/step_rewards 003`.
        cache: values that runs of this process share.
    """

    settings: Settings
    lake: Lake
    models: LanguageModels
    sources: DataSources
    progress: Progress
    stages: Mapping[str, Stage] = field(default_factory=dict)
    remake: set[str] = field(default_factory=set)
    cache: dict[str, Any] = field(default_factory=dict)

    def made_in_a_run(self, stage: Stage, partition: str | None) -> Sequence[str | None]:
        """The partitions that a run of Dagster makes of a stage: the one that it has, or all, one after another."""
        if partition is not None or stage.partitioning is None:
            return [partition]
        return partitions_of(stage.table, self.settings) or []

    def states(self) -> States:
        """The states of all partitions, judged anew from their files."""
        return States(self.settings, self.lake, self.models, self.sources, self.stages, self.cache)


@dataclass(frozen=True)
class StageRun:
    """One run of a stage.

    Attributes:
        partition: to make; None for a stage without partitions.
        facts: what the rows depend on, by kind.
        key: hash of the facts.
    """

    stage: Stage
    home: Home
    partition: str | None
    run_id: str
    log: Callable[[str], None]
    facts: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""

    @property
    def settings(self) -> Settings:
        """The profile."""
        return self.home.settings

    @property
    def models(self) -> LanguageModels:
        """The language models by role."""
        return self.home.models

    @property
    def sources(self) -> DataSources:
        """The readers of files and hub data sets."""
        return self.home.sources

    @property
    def lake(self) -> Lake:
        """The tables of the home."""
        return self.home.lake

    def read(self, key: str, partition: str | None = None, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Rows of an input.

        Args:
            partition: by default the stage's own, or all if the input is partitioned otherwise.

        Raises:
            LakeError: the input has not been made, is damaged, or is not declared: no key would notice its changes.
        """
        if key not in self.stage.inputs:
            raise LakeError(f"the stage {self.stage.name} reads {key} without declaring it; add it to its `inputs`")
        if partition is None and TABLES[key].partitioning == self.stage.partitioning:
            partition = self.partition
        return self.lake.read(key, [partition] if partition else partitions_of(key, self.settings), columns)

    def selected(self) -> pl.DataFrame:
        """The selected trajectories of this shard, in labeling order."""
        return in_labeling_order(self.read(TRAJECTORIES), self.read(SELECTED, columns=["trajectory_id"]))

    def content_hash(self, key: str) -> str:
        """The hash of the rows of an unpartitioned input; empty if it has not been made."""
        record = self.lake.record(key, None)
        return record.content if record else ""

    @property
    def checkpoints(self) -> Path:
        """The folder for unfinished work on this partition; its parent is removed when the partition is done."""
        return self.lake.work_folder(f"{self.stage.table}/{self.partition}/{self.key}")

    def cached(self, version: str, make: Callable[[], Any]) -> Any:
        """A value from the cache of this process, by a name that includes its version."""
        if version not in self.home.cache:
            self.home.cache[version] = make()
        return self.home.cache[version]

    def tell(self, line: str) -> None:
        """Write a sentence to the run's log, and show it in a terminal."""
        self.log(line)
        self.home.progress.print(line)

    def track(self, total: int, label: str = "") -> Advance:
        """A callback that takes what has just been finished of `total` items."""
        name = " ".join(filter(None, (self.stage.name, label or self.partition)))
        return self.home.progress.start(name, total, self.log)

    def answer_cache(
        self,
        role: Role | LanguageModel,
        key: Mapping[str, Any],
        answer: Mapping[str, Any],
        how: Mapping[str, Any],
        shard: str | None = None,
    ) -> AnswerCache:
        """The kept answers of a model for this stage.

        Args:
            role: of the model, or a model that the profile names.
            key: columns of a question, with types.
            answer: columns of an answer, with types.
            how: what answers depend on beside the model; never how much is asked.
            shard: of the questions, if the stage has no partitions but asks shard by shard.
        """

        def model() -> list[str]:
            return self.models.facts(role) if isinstance(role, str) else self.models.facts_of(role)

        facts = {"model": model(), **how}
        return self.answer_cache_of(facts, key, answer, lambda: check_unchanged(facts["model"], model), shard)

    def answer_cache_of(
        self,
        facts: Mapping[str, Any],
        key: Mapping[str, Any],
        answer: Mapping[str, Any],
        unchanged: Callable[[], None] = lambda: None,
        shard: str | None = None,
    ) -> AnswerCache:
        """As `answer_cache`, of a model that the facts identify, such as a trained one by the hash of its weights."""
        shard = shard or (self.partition if self.stage.partitioning == "shard" else None)
        # partitions by recipe share their answers: all ask the same of a backbone
        other = self.partition if self.stage.partitioning == "benchmark" else None
        place = f"{self.settings.shards}/{shard}" if shard else f"all/{other or 'all'}"
        count = partial(self.home.progress.count_cached, self.stage.name)
        return AnswerCache(self.lake.root / self.stage.table, facts, place, key, answer, unchanged, count)

    def engine(
        self, role: Role, sampling: Sampling, batch: int, stop: Stop = "answer", size: int | None = None
    ) -> CachingEngine:
        """A generation engine of a role that samples only what is not kept.

        Args:
            batch: continuations sampled at the same time.
            size: prompts per chunk, kept as one file; `scoring.chunk_trajectories` by default.
        """
        how = {"sampling": sampling.model_dump(mode="json"), "stop": stop, "seed": self.settings.seed}
        cache = self.answer_cache(role, CONTINUATION_KEY, CONTINUATION, how)
        chunk = size or self.settings.scoring.chunk_trajectories
        return CachingEngine(cache, self.models.identity(role), lambda: self.models.engine(role, batch), chunk)


def in_labeling_order(trajectories: pl.DataFrame, chosen: pl.DataFrame) -> pl.DataFrame:
    """The chosen trajectories, those of a question adjacent: their chunk shares a token tree."""
    return trajectories.join(chosen, on="trajectory_id", how="semi").sort("question_id", "trajectory_id")
