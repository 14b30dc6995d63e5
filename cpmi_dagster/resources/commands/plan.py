"""`cpmi plan`: tokens and GPU-hours of labeling the selected trajectories of a home, by method.

Qwen3-8B in bfloat16 on an H100:

method       forward_tokens  generated_tokens  gpu_hours
mc            3,012,000,000     2,870,000,000      265.8
cpmi            142,000,000         3,100,000        2.0
cpmi_merge1     640,000,000       480,000,000       46.1
together      3,160,000,000     2,873,100,000      267.8

If shards are labelled, their costs (`labels.labeling_costs`) are scaled to all trajectories; if not, tokens are counted
on some shards, and attributed to the methods as in a run. Their hours follow from the labeler's speed, measured on this
machine, or from a table of cards if one is named or the labeler cannot be loaded here.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import polars as pl

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.keys import (
    CONTROL_LOGPROBS,
    COSTS,
    LOGPROBS,
    NEGATIVES,
    POLICY_ROLLOUTS,
    PROVER_ROLLOUTS,
    SELECTED,
    TRAJECTORIES,
)
from cpmi_dagster.errors import CpmiError, LakeError, ModelError, first_line
from cpmi_dagster.planning.counting import count_labels
from cpmi_dagster.planning.hardware import CPU, Hardware, choose_hardware, planned_model
from cpmi_dagster.planning.measuring import load_here, measure_speed
from cpmi_dagster.planning.training import TrainingPlan
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.run import planned_training
from cpmi_dagster.resources.dag.stage import Stage
from cpmi_dagster.resources.dag.stage_run import in_labeling_order
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.models.language_models import Role
from cpmi_dagster.rewards.costs import labeling_costs

SAMPLE = 2000
"""The number of trajectories whose tokens are counted, from random shards."""
MEASURED = 32
"""The number of trajectories that the labeler reads to measure its speed."""
BASE, TOGETHER = "mc", "together"
COLUMNS = ["method", "trajectories", "wall_seconds", "forward_tokens", "generated_tokens"]
STAGES = (NEGATIVES, LOGPROBS, CONTROL_LOGPROBS, POLICY_ROLLOUTS, PROVER_ROLLOUTS)


class Plan(NamedTuple):
    """What labeling will take.

    Attributes:
        frame: columns method, forward_tokens (with generated ones), generated_tokens, gpu_hours.
        trajectories: number of trajectories to label.
        counted: number of those that were labelled or whose tokens were counted.
        is_measured: they were labelled; if not, the hours follow from the hardware.
        training: of the reward models; None without any.
        speed: tokens that the labeler read and sampled here a second; None if hours are those of the table.
        not_here: why the speed was not measured, if that was tried.
    """

    frame: pl.DataFrame
    hardware: str
    trajectories: int
    counted: int
    is_measured: bool
    training: TrainingPlan | None
    speed: tuple[float, float] | None = None
    not_here: str = ""


def plan(
    settings: Settings,
    hardware: str | None,
    advance: Callable[[int, int], None],
    stage_by_table: Mapping[str, Stage],
    measures: bool = True,
) -> Plan:
    """What labeling the selected trajectories by each method will take.

    Args:
        hardware: name in the table; by default this machine's, and the costs of labelled shards.
        advance: called with the numbers of trajectories just counted and in all.
        stage_by_table: the stage behind each table.

    Raises:
        CpmiError: there is no such hardware, nothing is selected yet, or a model's config or tokenizer is missing.
    """
    states, card = States.of(settings, stage_by_table), choose_hardware(hardware, settings.models.labeler)
    lake = states.lake
    if not lake.has_table(SELECTED) or (selected := lake.read(SELECTED)).is_empty():
        raise LakeError(
            f"no trajectories have been selected in {settings.home} yet, and a plan counts their tokens; run "
            f"`cpmi run{settings.profile_option} --until selection` first"
        )
    shards = sorted(selected["shard"].unique())
    labelled = [shard for shard in shards if not hardware and states.state(COSTS, shard).kind == "current"]
    speed, not_here = None, ""
    if measures and not hardware and not labelled:
        try:
            card, speed = _measure(states, selected, card)
        except (CpmiError, OSError, MemoryError, RuntimeError) as error:
            not_here = first_line(error)
    bills = _measured(lake, selected, labelled) if labelled else _estimates(states, selected, card, advance)
    # if rollouts are drawn for a sample, a shard may have none
    sums = pl.concat(bills).group_by("method", maintain_order=True).sum().filter(pl.col("trajectories") > 0)
    scale = selected.height / pl.col("trajectories")
    tokens = (pl.col("forward_tokens", "generated_tokens") * scale).round().cast(pl.Int64)
    frame = sums.select("method", tokens, gpu_hours=pl.col("wall_seconds") * scale / 3600)
    training = planned_training(lake, settings, card)
    counted, is_measured = max(sums["trajectories"]), bool(labelled)
    return Plan(frame, card.name, selected.height, counted, is_measured, training, speed, not_here)


def _measure(states: States, selected: pl.DataFrame, card: Hardware) -> tuple[Hardware, tuple[float, float]]:
    """The card with the rates of the labeler here, and the tokens that it reads and samples a second.

    Raises:
        CpmiError, OSError, MemoryError, RuntimeError: the labeler cannot be loaded or asked here.
    """
    spec, shard = states.models.spec("labeler"), min(selected["shard"])
    if spec.device_map or states.settings.scoring.scorer != "tree":
        raise ModelError("a model with a device map, or that reads single sequences, is not measured")
    some = in_labeling_order(states.lake.read(TRAJECTORIES, shard), selected.filter(shard=shard)).head(MEASURED)
    model, device = planned_model(spec, card), "cpu" if card.name == CPU else spec.device
    loaded = load_here(model, spec.name, spec.revision, spec.dtype, device)
    here = measure_speed(loaded, model, some, states.settings)
    reading = 1 / replace(model, card=here).cost(1).wall_seconds
    return here, (reading, reading * here.sampling)


def _measured(lake: Lake, selected: pl.DataFrame, shards: Sequence[str]) -> Iterator[pl.DataFrame]:
    """The costs of labelled shards, a frame per shard."""
    for shard in shards:
        records = [lake.record(key, shard) for key in STAGES]
        costs = [Cost(**record.cost) for record in records if record and record.cost]
        yield _add_total(lake.read(COSTS, shard), selected.filter(shard=shard).height, costs)


def _estimates(
    states: States, selected: pl.DataFrame, card: Hardware, advance: Callable[[int, int], None]
) -> Iterator[pl.DataFrame]:
    """The estimated costs of some shards, a frame per shard; the last shard may be counted in part."""
    settings, lake = states.settings, states.lake
    # MC, to which methods are compared, may not be in the profile
    types = tuple(dict.fromkeys((BASE, *settings.rewards.types)))
    compared = settings.model_copy(update={"rewards": settings.rewards.model_copy(update={"types": types})})
    roles: tuple[Role, ...] = ("labeler", "rollouts", "prover")
    specs = {role: states.models.spec(role) for role in roles if states.models.has(role)}
    models = {role: planned_model(spec, card) for role, spec in specs.items()}
    names, shards = {role: spec.name for role, spec in specs.items()}, sorted(selected["shard"].unique())
    left = total = min(SAMPLE, selected.height)
    for shard in random.Random(settings.seed).sample(shards, len(shards)):
        trajectories = in_labeling_order(lake.read(TRAJECTORIES, shard), selected.filter(shard=shard))
        rows, sampled, record = trajectories.head(left), None, lake.record(NEGATIVES, shard)
        if record and record.cost and states.state(NEGATIVES, shard).kind == "current":
            cost = Cost(**record.cost).times(rows.height / trajectories.height)
            sampled = lake.read(NEGATIVES, shard), cost
        measured = count_labels(rows, compared, models, sampled)
        costs = labeling_costs(shard, rows.height, measured, compared.rewards, compared.negatives.count, names)
        # those of MC alone are there to compare with
        own = [cost for name, cost in measured.costs.items() if settings.demand.needs.get(f"labels/{name}", True)]
        yield _add_total(costs, rows.height, own)
        left -= rows.height
        advance(rows.height, total)
        if not left:
            break


def _add_total(costs: pl.DataFrame, trajectories: int, parts: Iterable[Cost]) -> pl.DataFrame:
    """Rows of `labels.labeling_costs` with the total, in which what methods share counts once."""
    cost = sum(parts, Cost())
    total = (TOGETHER, trajectories, cost.wall_seconds, cost.forward_tokens, cost.generated_tokens)
    return pl.concat([costs.select(COLUMNS), pl.DataFrame([total], COLUMNS, orient="row")], how="vertical_relaxed")
