"""The chunks that `cpmi plan` counts: selected trajectories in a run's order, with the labels that a run has stored.

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

import polars as pl

from cpmi_dagster.contracts.cost import in_proportion
from cpmi_dagster.contracts.keys import SELECTED, TRAJECTORIES
from cpmi_dagster.errors import LakeError
from cpmi_dagster.planning.labeling import ROLE_OF, Chunk, Part
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.extent import AXES, covers, setting_values
from cpmi_dagster.resources.fingerprints import rows_hash
from cpmi_dagster.resources.lake import FileRecord, Lake
from cpmi_dagster.resources.stage_run import asked_for, in_labeling_order

FEWEST_CHUNKS = 2
DEPENDS_ON: dict[Part, tuple[str, ...]] = {
    "hard_negatives": (
        "seed",
        "negatives.samples",
        "negatives.max_answer_characters",
        "negatives.sampling",
        "answers.identity",
    ),
    "policy_rollouts": ("seed", "rollouts.sampling", "rollouts.sample", "answers.identity"),
    "prover_rollouts": ("seed", "rollouts.sampling", "rollouts.sample", "answers.identity"),
}
"""Tables that a run may have made already, and the settings that decide their rows; the length of chunks does not."""


@dataclass(frozen=True)
class ChosenChunks:
    """Which chunks are counted, as (shard, number), and of how many trajectories and chunks they are a sample."""

    places: Sequence[tuple[str, int]]
    trajectories: int
    chunks: int

    def read(self, lake: Lake, settings: Settings) -> Iterator[Chunk]:
        """The chunks one by one, a shard's files read once; files with less than is asked for count as not made.

        Raises:
            LakeError: a table is missing or damaged.
        """
        for shard, places in groupby(self.places, key=lambda place: place[0]):
            yield from _shard_chunks(lake, settings, shard, {number for _, number in places})


def choose_chunks(lake: Lake, settings: Settings, sample: int) -> ChosenChunks:
    """Choose whole chunks at random, so that prefixes are shared as in a run.

    Args:
        settings: the profile; its seed decides the choice.
        sample: fewest trajectories to count; 0 counts them all.

    Raises:
        LakeError: no trajectories have been selected yet.
    """
    if not lake.exists(SELECTED):
        raise LakeError(
            f"no trajectories have been selected in {settings.home} yet, and a plan counts their tokens; run "
            f"`cpmi run{settings.profile_option} --only sources --only alignment --only selection` first"
        )
    shards = lake.read(SELECTED, columns=["shard"]).group_by("shard").len().sort("shard").rows()
    trajectories = sum(size for _, size in shards)
    if not trajectories:
        raise LakeError(
            f"the selection in {settings.home} is empty, so there is nothing to plan; loosen its constraints"
        )
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
    return ChosenChunks(places, trajectories, len(sizes))


def _chunk_length(settings: Settings) -> int:
    """Trajectories of a chunk: whole portions of negatives and scoring, and whole portions of rollouts."""
    return math.lcm(settings.scoring.chunk_trajectories, settings.rollouts.chunk_trajectories)


def _shard_chunks(lake: Lake, settings: Settings, shard: str, wanted: set[int]) -> Iterator[Chunk]:
    selected = lake.read(SELECTED).filter(pl.col("shard") == shard)
    trajectories = in_labeling_order(lake.read(TRAJECTORIES, shard), selected)
    source = lake.record(TRAJECTORIES, shard)
    versions = {
        SELECTED: rows_hash(selected),
        TRAJECTORIES: source.content if source else "",
    }
    found: dict[Part, FileRecord | None] = {part: lake.intact_record(f"labels/{part}", shard) for part in DEPENDS_ON}
    records: dict[Part, FileRecord] = {
        part: record for part, record in found.items() if record and _is_current(part, record, settings, versions)
    }
    tables: dict[Part, pl.DataFrame] = {part: asked_for(lake, settings, f"labels/{part}", [shard]) for part in records}
    chunks = list(trajectories.iter_slices(_chunk_length(settings)))
    sampled: list[int | None] = [None] * len(chunks)
    if record := records.get("hard_negatives"):
        sampled[:] = in_proportion(int(record.cost.get("generated_tokens", 0)), [chunk.height for chunk in chunks])
    for number in sorted(wanted):
        made: dict[Part, pl.DataFrame] = {
            part: frame.join(chunks[number], on="trajectory_id", how="semi") for part, frame in tables.items()
        }
        yield Chunk(shard, chunks[number], made, sampled[number])


def _is_current(part: Part, record: FileRecord, settings: Settings, versions: Mapping[str, str]) -> bool:
    """Whether a table has all that is asked for, of these trajectories and with the profile's settings and models."""
    role = ROLE_OF[part]
    model, asked = settings.models.of(role), setting_values(AXES[f"labels/{part}"], settings)
    if model is None or role not in record.inputs["models"] or not covers(record.extent, asked):
        return False
    if "rollouts.sample" in DEPENDS_ON[part] and settings.rollouts.sample:
        return False  # a plan is for all trajectories
    model = model.name
    made_with, inputs = str(record.inputs["models"][role][0]), record.inputs["inputs"]
    current = setting_values(DEPENDS_ON[part], settings)
    return (
        made_with.startswith((f"{model}@", f"{Path(model).name}@"))
        and all(inputs[key] == version for key, version in versions.items())
        and all(record.settings.get(path) == value for path, value in current.items())
    )
