"""`cpmi plan`: what labeling the selected trajectories of a home by each method will take.

200 trajectories in 4 shards, all counted      ->  000, 001, 002, 003              whole shards
80,000 in 80 shards, a sample of 2,000         ->  chunks 003/7, 005/0, ...        32 of 1,280, drawn by the seed
"""

import random
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, groupby
from math import ceil, lcm
from operator import attrgetter
from typing import NamedTuple

import polars as pl

from cpmi_dagster.contracts.keys import COSTS, NEGATIVES, SELECTED, TRAJECTORIES
from cpmi_dagster.errors import LakeError
from cpmi_dagster.planning.counting import ROLES, LabelCounter, Made
from cpmi_dagster.planning.hardware import default_hardware, load_hardware
from cpmi_dagster.planning.plan import BASE, Plan, make_plan
from cpmi_dagster.planning.shapes import planned_model
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.declaration import Declaration
from cpmi_dagster.resources.dag.stage_run import in_labeling_order
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.sources.hub import HubLock
from cpmi_dagster.rewards.costs import Measured

FEWEST_CHUNKS = 2
ROLLOUTS = {"policy_rollouts", "prover_rollouts"}
SAMPLED_TEXT = {"hard_negatives", *ROLLOUTS}
"""Labeling assets whose text a plan takes from the lake, where it is made."""


class Unit(NamedTuple):
    """Trajectories that are counted together: a shard, or a chunk of it."""

    shard: str
    start: int
    size: int


def plan(
    settings: Settings,
    hardware: str | None,
    gpus: int | None,
    sample: int,
    parameters: Mapping[str, int],
    advance: Callable[[int, int], None],
    makers: Mapping[str, Declaration],
) -> Plan:
    """What labeling the selected trajectories by each method will take.

    Args:
        hardware: name in the table, or a file; by default the table's card for the profile's labeler, and the seconds
            that shards of this home took, once one is labelled.
        gpus: how many cards, those of the profile's `orchestration` by default; no more than one a chunk is used.
        sample: trajectories whose tokens are counted; 0 counts them all.
        parameters: parameter counts by role, for models whose config is not on this disk.
        advance: called with 1 after each counted unit, and the number of units.
        makers: the stage behind each table.

    Raises:
        CpmiError: there is no such hardware, nothing is selected yet, or a model's config or tokenizer is missing.
    """
    lake, card = Lake.of(settings), load_hardware(hardware or default_hardware(settings.models.labeler))
    shards = _selected(lake, settings)
    # whole portions of negatives and scoring, and whole portions of rollouts
    chunk_length = lcm(settings.scoring.chunk_trajectories, settings.rollouts.chunk_trajectories)
    units = choose_units(shards, chunk_length, sample, settings.seed)
    revisions = HubLock(settings.home).revisions()
    # methods are compared with MC, which the profile may not have
    rewards = settings.rewards.model_copy(update={"types": tuple(dict.fromkeys((*settings.rewards.types, BASE)))})
    compared = settings.model_copy(update={"rewards": rewards})
    specs = {role: spec for role in ROLES if (spec := compared.models.of(role))}
    models = {
        role: planned_model(role, spec, spec.revision or revisions.get(f"model {spec.name}"), parameters.get(role))
        for role, spec in specs.items()
    }
    counted, guesses = _counted(lake, settings, compared, makers, LabelCounter(compared, models, card), units, advance)
    labelled = None
    if hardware is None:
        current = States.of(settings, makers)
        finished = [shard for shard in shards if current.state(COSTS, shard).kind == "current"]
        labelled = lake.read(COSTS, finished) if finished else None
    return make_plan(
        counted,
        sum(shards.values()),
        sum(ceil(size / chunk_length) for size in shards.values()),
        settings,
        {role: model.name for role, model in models.items()},
        card,
        gpus or settings.orchestration.gpus,
        guesses,
        labelled,
    )


def _counted(
    lake: Lake,
    settings: Settings,
    compared: Settings,
    makers: Mapping[str, Declaration],
    counter: LabelCounter,
    units: Sequence[Unit],
    advance: Callable[[int, int], None],
) -> tuple[list[tuple[int, Measured]], set[str]]:
    """The trajectories and counts of each unit, and the labeling assets whose text had to be guessed for some."""
    counted, current = [], States.of(compared, makers)
    guesses: set[str] = set()
    for shard, own in groupby(units, key=attrgetter("shard")):
        selected = lake.read(SELECTED).filter(pl.col("shard") == shard)
        trajectories = in_labeling_order(lake.read(TRAJECTORIES, shard), selected)
        made = {
            part: lake.read(f"labels/{part}", [shard])
            for part in SAMPLED_TEXT
            if not (part in ROLLOUTS and settings.rollouts.sample)
            and current.state(f"labels/{part}", shard).kind == "current"
        }
        guesses.update(SAMPLED_TEXT - made.keys())
        record = lake.record(NEGATIVES, shard) if "hard_negatives" in made else None
        sampled_tokens = record.cost.get("generated_tokens", 0) if record else 0
        for unit in own:
            rows = trajectories.slice(unit.start, unit.size)
            own_made = Made(
                {part: table.join(rows, on="trajectory_id", how="semi") for part, table in made.items()},
                round(sampled_tokens * rows.height / trajectories.height),
            )
            counted.append((rows.height, counter.count(rows, own_made)))
            advance(1, len(units))
    guesses &= {asset for asset, is_asked in compared.demand.asks_for.items() if is_asked}
    if not settings.negatives.samples:
        guesses.discard("hard_negatives")
    return counted, guesses


def choose_units(shards: Mapping[str, int], chunk_length: int, sample: int, seed: int) -> list[Unit]:
    """All shards, or whole chunks of them drawn at random, so that what trajectories share is read once as in a run.

    Args:
        shards: trajectories of each.
        sample: fewest trajectories to count; 0 counts them all.
    """
    if not 0 < sample < sum(shards.values()):
        return [Unit(shard, 0, size) for shard, size in shards.items()]
    chunks = [
        Unit(shard, start, min(chunk_length, size - start))
        for shard, size in shards.items()
        for start in range(0, size, chunk_length)
    ]
    random.Random(seed).shuffle(chunks)
    reached = list(accumulate(chunk.size for chunk in chunks))
    return sorted(chunks[: max(bisect_left(reached, sample) + 1, FEWEST_CHUNKS)])


def _selected(lake: Lake, settings: Settings) -> dict[str, int]:
    """How many trajectories are selected of each shard."""
    if not lake.exists(SELECTED):
        raise LakeError(
            f"no trajectories have been selected in {settings.home} yet, and a plan counts their tokens; run "
            f"`cpmi run{settings.profile_option} --only sources --only alignment --only selection` first"
        )
    sizes = dict(lake.read(SELECTED, columns=["shard"]).group_by("shard").len().sort("shard").iter_rows())
    if not sizes:
        raise LakeError(
            f"the selection in {settings.home} is empty, so there is nothing to plan; loosen its constraints"
        )
    return sizes
