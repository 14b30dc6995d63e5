"""What a stage's body may use while it runs, and what it returns."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.keys import SELECTED, TRAJECTORIES
from cpmi_dagster.errors import LakeError
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.progress import Progress
from cpmi_dagster.resources.lake.chunk_store import ChunkStore
from cpmi_dagster.resources.lake.database import Database
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.pace import Pace
from cpmi_dagster.resources.lake.parts import partitions_of
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.resources.workers.chunks import ChunkMaker, StageOutput, chunks_of, make_chunk
from cpmi_dagster.resources.workers.language_models import LanguageModels


@dataclass(frozen=True)
class StageRun:
    """What one run of a stage uses: the profile, the lake, the models.

    Attributes:
        facts: that the rows depend on, by kind.
        parts: of the table that are to be made (see `parts`).
        stages: the stage behind each table.
        memo: values that the runs of this process share.
    """

    name: str
    tables: Sequence[str]
    settings: Settings
    lake: Lake
    models: LanguageModels
    sources: DataSources
    database: Database
    progress: Progress
    run_id: str
    log: Callable[[str], None]
    chunks: ChunkStore | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    parts: Sequence[str] = ()
    stages: Mapping[str, Any] = field(default_factory=dict)
    inputs: Sequence[str] | None = None
    memo: dict[str, Any] = field(default_factory=dict)

    def read(self, key: str, partition: str | None = None, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Rows of an input that the profile asks for; all partitions of the profile unless one is named.

        Raises:
            LakeError: it has not been made, or is damaged; or the stage does not declare it, so that no key would
                notice its changes.
        """
        if self.inputs is not None and key not in self.inputs:
            raise LakeError(f"the stage {self.name} reads {key} without declaring it; add it to its `inputs`")
        return self.lake.read(key, [partition] if partition else partitions_of(key, self.settings), columns)

    def selected(self, shard: str) -> pl.DataFrame:
        """The selected trajectories of a shard; those of one question are adjacent."""
        chosen = self.read(SELECTED, columns=["trajectory_id", "shard"]).filter(pl.col("shard") == shard)
        return in_labeling_order(self.read(TRAJECTORIES, shard), chosen)

    def version(self, key: str) -> str:
        """The hash of the rows of an unpartitioned input; empty where it has not been made."""
        record = self.lake.record(key, None)
        return record.content if record else ""

    @property
    def checkpoints(self) -> Path | None:
        """Where unfinished work on this partition may be kept; it goes when the partition is done."""
        return self.chunks.folder / "checkpoints" if self.chunks else None

    def once(self, version: str, make: Callable[[], Any]) -> Any:
        """A value that all partitions made by this process share, by a name that has its version in it."""
        if version not in self.memo:
            self.memo[version] = make()
        return self.memo[version]

    def track(self, partition: str | None, total: int) -> Callable[[int], None]:
        """A function to call with the number of items just finished."""
        return self.progress.start(f"{self.name} {partition}" if partition else self.name, total, self.log)

    def in_chunks(self, partition: str, frame: pl.DataFrame, size: int, make: ChunkMaker) -> StageOutput:
        """Make a partition chunk by chunk; a killed run continues after its finished chunks.

        Args:
            frame: its items, one a row, in a fixed order.
            size: rows of a chunk.
            make: makes a chunk.

        Returns:
            The chunks' rows one after another, their costs added up.
        """
        advance, chunks = self.track(partition, frame.height), chunks_of(frame, size)
        done = {name: chunk for name in chunks if (chunk := self._stored(name))}
        found = sum(chunks[name].height for name in done)
        advance(found)
        pace, began = Pace(frame.height, found), time.perf_counter()
        for name, rows in chunks.items():
            if name not in done:
                done[name] = make_chunk(make, rows, advance)
                self._store(name, done[name])
                pace = pace.after(rows.height, done[name].cost, time.perf_counter() - began)
                self._show(partition, pace)
        return self._joined([done[name] for name in chunks])

    def _joined(self, chunks: Sequence[StageOutput]) -> StageOutput:
        return StageOutput(
            frames={key: pl.concat([chunk.frame(key) for chunk in chunks]) for key in self.tables},
            model=chunks[0].model,
            cost=sum((chunk.cost for chunk in chunks), Cost.zero()),
            notes=[note for chunk in chunks for note in chunk.notes],
        )

    def _stored(self, name: str) -> StageOutput | None:
        stored = self.chunks.load(name) if self.chunks else None
        if stored is None:
            return None
        frames, facts = stored
        return StageOutput(frames, facts["model"], Cost.from_dict(facts["cost"]), facts["notes"])

    def _store(self, name: str, chunk: StageOutput) -> None:
        if self.chunks:
            facts = {"model": chunk.model, "cost": chunk.cost.to_dict(), "notes": list(chunk.notes)}
            self.chunks.save(name, {key: chunk.frame(key) for key in self.tables}, facts)

    def _show(self, partition: str, pace: Pace) -> None:
        """Write the pace to the run's log, and to where `cpmi status` sees it."""
        shares = [self.models.share_of_peak(role, pace.cost) for role in self.facts.get("models", ())]
        pace = replace(pace, peak_share=next((share for share in shares if share is not None), None))
        if pace.made:
            self.log(f"{self.name} {partition}: {pace}")
        if self.chunks:
            self.chunks.show(pace)


def in_labeling_order(trajectories: pl.DataFrame, chosen: pl.DataFrame) -> pl.DataFrame:
    """The trajectories that are chosen, question by question: chunks, and what they share, depend on this order."""
    return trajectories.join(chosen, on="trajectory_id", how="semi").sort("question_id", "trajectory_id")
