"""What a stage's body may use while it runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from cpmi_dagster.contracts.keys import SELECTED, TRAJECTORIES
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import LakeError
from cpmi_dagster.generation.engine import Stop
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.declaration import Declaration
from cpmi_dagster.resources.dag.progress import Progress
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.lake.calls import Calls, check_unchanged
from cpmi_dagster.resources.lake.kept_engine import ANSWER, KEY, KeptEngine
from cpmi_dagster.resources.lake.lake import Lake, partitions_of
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.resources.workers.language_models import LanguageModels, Role


@dataclass(frozen=True)
class Home:
    """What all stages of a process use: the profile, its files, models and sources.

    Attributes:
        stages: the stage behind each table.
        remake: tables that are made again even where nothing changed, each partition once.
        memo: values that the runs of this process share.
    """

    settings: Settings
    lake: Lake
    models: LanguageModels
    sources: DataSources
    progress: Progress
    stages: dict[str, Declaration] = field(default_factory=dict)
    remake: set[str] = field(default_factory=set)
    memo: dict[str, Any] = field(default_factory=dict)

    def states(self) -> States:
        """The states of all partitions as their files are now."""
        return States(self.settings, self.lake, self.models, self.sources, self.stages, self.memo)


@dataclass(frozen=True)
class StageRun:
    """One run of a stage.

    Attributes:
        partition: that is made; None for a stage without partitions.
        facts: that the rows depend on, by kind.
        key: their hash.
    """

    stage: Declaration
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
        """The models that the stages use."""
        return self.home.models

    @property
    def sources(self) -> DataSources:
        """What is read from outside."""
        return self.home.sources

    @property
    def lake(self) -> Lake:
        """The tables of the home."""
        return self.home.lake

    def read(self, key: str, partition: str | None = None, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Rows of an input: of this partition if it is partitioned as the stage is, else all; or of one that is named.

        Raises:
            LakeError: it has not been made, or is damaged; or the stage does not declare it, so that no key would
                notice its changes.
        """
        if key not in self.stage.inputs:
            raise LakeError(f"the stage {self.stage.name} reads {key} without declaring it; add it to its `inputs`")
        if partition is None and TABLES[key].partitioning == self.stage.partitioning:
            partition = self.partition
        return self.lake.read(key, [partition] if partition else partitions_of(key, self.settings), columns)

    def selected(self) -> pl.DataFrame:
        """The selected trajectories of this shard; those of one question are adjacent."""
        return in_labeling_order(self.read(TRAJECTORIES), self.read(SELECTED, columns=["trajectory_id"]))

    def version(self, key: str) -> str:
        """The hash of the rows of an input in one file; empty where it has not been made."""
        record = self.lake.record(key, None)
        return record.content if record else ""

    @property
    def checkpoints(self) -> Path:
        """Where unfinished work on this partition may be kept; it goes when the partition is done."""
        return self.lake.work_folder(f"{self.stage.table}/{self.partition}-{self.key}")

    def once(self, version: str, make: Callable[[], Any]) -> Any:
        """A value that all partitions made by this process share, by a name that has its version in it."""
        if version not in self.home.memo:
            self.home.memo[version] = make()
        return self.home.memo[version]

    def track(self, total: int, label: str = "") -> Callable[[int], None]:
        """A function to call with the number of items just finished."""
        name = " ".join(filter(None, (self.stage.name, label or self.partition)))
        return self.home.progress.start(name, total, self.log)

    def calls(
        self,
        role: Role | LanguageModel,
        key: Mapping[str, Any],
        answer: Mapping[str, Any],
        how: Mapping[str, Any],
        shard: str | None = None,
    ) -> Calls:
        """What a model answered for this stage, and will be asked.

        Args:
            role: of the model, or a model that is named in the profile.
            key: columns that make a question.
            answer: columns of an answer.
            how: what its answers depend on beside the model; never how much is asked.
            shard: where the questions stand, of a stage without partitions that asks shard by shard.
        """

        def model() -> list[str]:
            return self.models.facts(role) if isinstance(role, str) else self.models.facts_of(role)

        facts = {"model": model(), **how}
        return self.calls_of(facts, key, answer, lambda: check_unchanged(facts["model"], model), shard)

    def calls_of(
        self,
        facts: Mapping[str, Any],
        key: Mapping[str, Any],
        answer: Mapping[str, Any],
        unchanged: Callable[[], None] = lambda: None,
        shard: str | None = None,
    ) -> Calls:
        """As `calls`, of a model that the facts name, such as a trained one by the hash of its weights."""
        shard = shard or (self.partition if self.stage.partitioning == "shard" else None)
        # recipes ask the same of a backbone
        other = self.partition if self.stage.partitioning == "benchmark" else None
        place = f"{self.settings.shards}/{shard}" if shard else f"all/{other or 'all'}"
        count = partial(self.home.progress.count_kept, self.stage.name)
        return Calls(self.lake.root / self.stage.table, facts, place, key, answer, unchanged, count)

    def engine(
        self, role: Role, sampling: Sampling, batch: int, stop: Stop = "answer", size: int | None = None
    ) -> KeptEngine:
        """The generation engine of a role, which samples only what is not kept.

        Args:
            batch: continuations sampled at the same time.
            size: prompts that are asked together, and kept as one file; `scoring.chunk_trajectories` by default.
        """
        how = {"sampling": sampling.model_dump(mode="json"), "stop": stop, "seed": self.settings.seed}
        calls = self.calls(role, KEY, ANSWER, how)
        chunk = size or self.settings.scoring.chunk_trajectories
        return KeptEngine(calls, self.models.identity(role), lambda: self.models.engine(role, batch), chunk)


def in_labeling_order(trajectories: pl.DataFrame, chosen: pl.DataFrame) -> pl.DataFrame:
    """The trajectories that are chosen, question by question: chunks, and what they share, depend on this order."""
    return trajectories.join(chosen, on="trajectory_id", how="semi").sort("question_id", "trajectory_id")
