"""The chunks that `cpmi plan` counts: selected trajectories in the order of a run, with what a run has made already.

200 trajectories in 4 shards, chunks of 64     ->  000/0, 001/0, 002/0, 003/0     one chunk a shard, of 50
80,000 in 80 shards, a sample of 2,000         ->  003/7, 005/0, ...              32 of 1,280 chunks
"""

import math
import random
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any

import polars as pl

from cpmi_dagster.errors import LakeError
from cpmi_dagster.planning.labeling import Chunk, share_of
from cpmi_dagster.profiles.settings import Settings
from resources.lake import FileRecord, Lake, content_hash
from resources.language_models import Role
from resources.stage_run import SELECTED, TRAJECTORIES, in_labeling_order

FEWEST_CHUNKS = 2
NEGATIVES = "labels/hard_negatives"


@dataclass(frozen=True)
class ChosenChunks:
    """Which chunks are counted, as (shard, number), and of how many trajectories they are a sample."""

    places: Sequence[tuple[str, int]]
    trajectories: int

    def read(self, lake: Lake, settings: Settings) -> Iterator[Chunk]:
        """The chunks one by one, a shard's files read once.

        Raises:
            LakeError: a table is missing or damaged.
        """
        for shard, places in groupby(self.places, key=lambda place: place[0]):
            yield from _shard_chunks(lake, settings, shard, {number for _, number in places})


def choose_chunks(lake: Lake, settings: Settings, sample: int) -> ChosenChunks:
    """Choose whole chunks at random, so that prefixes are shared as in a run.

    Args:
        lake: the files.
        settings: the profile; its seed decides the choice.
        sample: at least so many trajectories are counted; all where there are no more, or where it is 0.

    Raises:
        LakeError: no trajectories have been selected yet.
    """
    if not lake.exists(SELECTED):
        raise LakeError(
            f"no trajectories have been selected in {settings.home} yet, and a plan counts their tokens; run "
            "`cpmi run --only sources --only alignment --only selection` with this profile first"
        )
    shards = lake.read(SELECTED, columns=["shard"]).group_by("shard").len().sort("shard").rows()
    trajectories = sum(size for _, size in shards)
    if not trajectories:
        raise LakeError(f"the selection in {settings.home} is empty, so there is nothing to plan; lift its constraints")
    length = _chunk_length(settings)
    sizes = {
        (shard, start // length): min(length, size - start)
        for shard, size in shards
        for start in range(0, size, length)
    }
    places = list(sizes)
    if 0 < sample < trajectories:
        random.Random(settings.seed).shuffle(places)
        reached = list(accumulate(sizes[place] for place in places))
        places = sorted(places[: max(bisect_left(reached, sample) + 1, FEWEST_CHUNKS)])
    return ChosenChunks(places, trajectories)


def _chunk_length(settings: Settings) -> int:
    """Trajectories of a chunk: whole portions of negatives and scoring, and whole portions of rollouts."""
    return math.lcm(settings.scoring.chunk_trajectories, settings.rollouts.chunk_trajectories)


def _shard_chunks(lake: Lake, settings: Settings, shard: str, wanted: set[int]) -> Iterator[Chunk]:
    selected = lake.read(SELECTED).filter(pl.col("shard") == shard)
    trajectories = in_labeling_order(lake.read(TRAJECTORIES, shard), selected)
    versions = {SELECTED: content_hash(selected), TRAJECTORIES: _content(lake, shard)}
    made = _Made(lake, settings, shard, versions)
    record, tables = made.record(NEGATIVES, "labeler"), made.tables()
    sampled = int(record.cost.get("generated_tokens", 0)) if record else None
    length = _chunk_length(settings)
    for number, chunk in enumerate(trajectories.iter_slices(length)):
        if number in wanted:
            own = {name: frame.join(chunk, on="trajectory_id", how="semi") for name, frame in tables.items()}
            first = number * length
            tokens = share_of(sampled, first, first + chunk.height, trajectories.height)
            yield Chunk(shard, chunk, sampled_tokens=tokens, **own)


def _content(lake: Lake, shard: str) -> str:
    record = lake.record(TRAJECTORIES, shard)
    return record.content if record else ""


@dataclass(frozen=True)
class _Made:
    """What a run has made for a shard, as far as it was made of these trajectories by these settings and models."""

    lake: Lake
    settings: Settings
    shard: str
    versions: Mapping[str, str]

    def tables(self) -> dict[str, pl.DataFrame]:
        """Negatives and rollouts, by the names that `Chunk` gives them."""
        wanted: dict[str, Role] = {"negatives": "labeler", "policy_rollouts": "policy", "prover_rollouts": "prover"}
        keys = {name: NEGATIVES if name == "negatives" else f"labels/{name}" for name in wanted}
        return {
            name: self.lake.read(keys[name], self.shard)
            for name, role in wanted.items()
            if self.record(keys[name], role) is not None
        }

    def record(self, key: str, role: Role) -> FileRecord | None:
        """What made a table, or None where it would be made otherwise now."""
        record = self.lake.intact_record(key, self.shard)
        return record if record is not None and self._is_of_now(record, role) else None

    def _is_of_now(self, record: FileRecord, role: Role) -> bool:
        name = getattr(self.settings.models, role).name
        model = str(record.inputs["models"][role][0])
        inputs, settings = record.inputs["inputs"], self._settings_of(role)
        return (
            model.startswith((f"{name}@", f"{Path(name).name}@"))
            and all(inputs[key] == version for key, version in self.versions.items())
            and record.settings["seed"] == self.settings.seed
            and all(record.settings[name] == value for name, value in settings.items())
        )

    def _settings_of(self, role: Role) -> dict[str, Any]:
        settings = self.settings
        if role == "labeler":
            return {"negatives": settings.negatives.model_dump(mode="json")}
        count = settings.rollouts.policy_count if role == "policy" else settings.rollouts.prover_count
        return {
            f"rollouts.{role}_count": count,
            "rollouts.sampling": settings.rollouts.sampling.model_dump(mode="json"),
        }
