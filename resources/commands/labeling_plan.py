"""`cpmi plan`: what labeling the selected trajectories of a home by each method will take.

method       forward_tokens  generated_tokens  gpu_hours
mc            3,012,000,000     2,870,000,000      910.0
cpmi            142,000,000         3,100,000       18.1
cpmi_merge1     640,000,000       480,000,000      162.0

Tokens are counted on some shards, billed to the methods by the code of a run (`costs.labeling_costs`), and scaled to
all trajectories. Methods of which the home has labelled shards are scaled from what those took.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import polars as pl

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.keys import (
    CONTROLS,
    COSTS,
    LOGPROBS,
    NEGATIVES,
    POLICY_ROLLOUTS,
    PROVER_ROLLOUTS,
    SELECTED,
    TRAJECTORIES,
)
from cpmi_dagster.contracts.tables import LabelingCosts
from cpmi_dagster.errors import LakeError
from cpmi_dagster.planning.counting import count_labels
from cpmi_dagster.planning.hardware import choose_hardware, planned_model
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.declaration import Declaration
from cpmi_dagster.resources.dag.stage_run import in_labeling_order
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.sources.hub import HubLock
from cpmi_dagster.rewards.costs import costs_of, labeling_costs
from cpmi_dagster.rewards.registry import Needs, reward_type

SAMPLE = 2000
"""Trajectories whose tokens are counted: those of random shards, the last of them in part."""
BASE, EVERYTHING = "mc", "everything"
STAGES = (NEGATIVES, LOGPROBS, CONTROLS, POLICY_ROLLOUTS, PROVER_ROLLOUTS)
FIGURES = ("wall_seconds", "forward_tokens", "generated_tokens")


class Plan(NamedTuple):
    """What labeling will take.

    Attributes:
        frame: columns method, also (methods of the same price), forward_tokens (generated ones included),
            generated_tokens, gpu_hours; the last row, `everything`, is what a run labels with.
        trajectories: number of selected trajectories, which the plan is for.
        counted: number of trajectories whose tokens were counted.
        labelled: number of trajectories whose measured costs were scaled; 0 if the hours come from the card's speed.
    """

    frame: pl.DataFrame
    hardware: str
    trajectories: int
    counted: int
    labelled: int


def method_groups(types: tuple[str, ...]) -> dict[str, list[str]]:
    """The labeling methods among the reward types, the first of each price with the others of it; MC always."""
    groups: dict[Needs, list[str]] = {}
    for method in dict.fromkeys((BASE, *types)):
        if reward_type(method).kind == "method":
            groups.setdefault(reward_type(method).needs, []).append(method)
    return {first: others for first, *others in groups.values()}


def plan(
    settings: Settings,
    hardware: str | None,
    advance: Callable[[int, int], None],
    makers: Mapping[str, Declaration],
) -> Plan:
    """What labeling the selected trajectories by each method will take.

    Args:
        hardware: name in the table; by default this machine's, and what labelled shards of this home took.
        advance: called with the numbers of trajectories just counted and to count.
        makers: the stage behind each table.

    Raises:
        CpmiError: there is no such hardware, nothing is selected yet, or a model's config or tokenizer is missing.
    """
    lake, card = Lake.of(settings), choose_hardware(hardware, settings.models.labeler)
    if not lake.exists(SELECTED) or lake.read(SELECTED, columns=["shard"]).is_empty():
        raise LakeError(
            f"no trajectories have been selected in {settings.home} yet, and a plan counts their tokens; run "
            f"`cpmi run{settings.profile_option} --only sources --only alignment --only selection` first"
        )
    selected, groups = lake.read(SELECTED), method_groups(settings.rewards.methods)
    # methods are compared with MC, which the profile may not have
    rewards = settings.rewards.model_copy(update={"types": tuple(dict.fromkeys((*settings.rewards.types, BASE)))})
    compared, revisions = settings.model_copy(update={"rewards": rewards}), HubLock(settings.home).revisions()
    specs = {role: spec for role in ("labeler", "rollouts", "prover") if (spec := compared.models.of(role))}
    models = {
        role: planned_model(role, spec, spec.revision or revisions.get(f"model {spec.name}"))
        for role, spec in specs.items()
    }
    names, basis = {role: spec.name for role, spec in specs.items()}, settings.cost_basis
    states, billed, counted = States.of(settings, makers), list[pl.DataFrame](), 0
    shards = sorted(selected["shard"].unique())
    for shard in random.Random(settings.seed).sample(shards, len(shards)):
        trajectories = in_labeling_order(lake.read(TRAJECTORIES, shard), selected.filter(pl.col("shard") == shard))
        rows, negatives, record = trajectories.head(SAMPLE - counted), None, lake.intact_record(NEGATIVES, shard)
        if record and record.cost and states.state(NEGATIVES, shard).kind == "current":
            cost = Cost.from_dict(record.cost).times(rows.height / trajectories.height)
            negatives = lake.read(NEGATIVES, shard), cost
        measured = count_labels(rows, compared, models, card, negatives)
        billed.append(labeling_costs(shard, rows.height, measured, basis, names, list(groups)))
        billed.append(_whole(shard, rows.height, costs_of(settings.demand, measured, basis).values()))
        counted += rows.height
        advance(rows.height, min(SAMPLE, selected.height))
        if counted >= SAMPLE:
            break
    finished = [shard for shard in shards if hardware is None and states.state(COSTS, shard).kind == "current"]
    taken = [lake.read(COSTS, finished)]
    for shard in finished:
        records = [record for key in STAGES if (record := lake.record(key, shard)) and record.cost]
        size = selected.filter(pl.col("shard") == shard).height
        taken.append(_whole(shard, size, [Cost.from_dict(record.cost) for record in records]))
    frame, labelled = scale(pl.concat(billed), pl.concat(taken), selected.height)
    order = pl.DataFrame({"method": [*groups, EVERYTHING], "also": [*groups.values(), []]})
    return Plan(order.join(frame, on="method", maintain_order="left"), card.name, selected.height, counted, labelled)


def _whole(shard: str, trajectories: int, costs: Iterable[Cost]) -> pl.DataFrame:
    """The sum of several stages' costs as a row of `labels.labeling_costs`, under the method `everything`."""
    row = {"shard": shard, "method": EVERYTHING, "model": "", "trajectories": trajectories}
    return LabelingCosts.cast(pl.DataFrame([row | sum(costs, Cost.zero()).to_dict()]))


def scale(counted: pl.DataFrame, labelled: pl.DataFrame, trajectories: int) -> tuple[pl.DataFrame, int]:
    """Figures of all trajectories, by method, and the number of labelled ones that they were scaled from.

    Seconds of a method that was counted but not labelled are multiplied by what the others took over their estimate.

    Args:
        counted, labelled: columns of `labels.labeling_costs`.
    """
    # where rollouts are drawn for a sample, a shard may have none
    estimate, taken = (
        costs.group_by("method")
        .agg(pl.col("trajectories", *FIGURES).sum())
        .filter(pl.col("trajectories") > 0)
        .select("method", "trajectories", pl.col(FIGURES) * trajectories / pl.col("trajectories"))
        for costs in (counted, labelled)
    )
    both = taken.join(estimate, on="method", suffix="_estimated")
    factor = float(both["wall_seconds"].sum()) / float(both["wall_seconds_estimated"].sum()) if both.height else 1.0
    slower = estimate.with_columns(pl.col("wall_seconds") * factor)
    frame = pl.concat([taken.join(estimate, on="method", how="semi"), slower.join(taken, on="method", how="anti")])
    tokens = pl.col("forward_tokens", "generated_tokens").round().cast(pl.Int64)
    hours = (pl.col("wall_seconds") / 3600).alias("gpu_hours")
    return frame.select("method", tokens, hours), int(taken["trajectories"].max() or 0)  # pyright: ignore[reportArgumentType]
