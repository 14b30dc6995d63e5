"""The plan: every labeling method's tokens, hours and price before they are spent.

method       forward_tokens  generated_tokens  generated_share_of_mc  time_share_of_mc  gpu_hours   usd
mc            3,012,000,000     2,870,000,000                   1.00              1.00      910.0  2684
cpmi            142,000,000         3,100,000                   0.00              0.02       18.1    53
cpmi_merge1     640,000,000       480,000,000                   0.17              0.18      162.0   478

A plan of every chunk counts what a run will count, with the code of a run (`costs.labeling_costs`). A plan of some
chunks is scaled up, with the error of the sample.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import ceil
from operator import add

import numpy as np
import polars as pl
from scipy.stats import t

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.planning.hardware import Hardware
from cpmi_dagster.planning.labeling import ChunkCosts, Figure, Guess
from cpmi_dagster.rewards.costs import CostBasis, Measured, costs_of, labeling_costs
from cpmi_dagster.rewards.demand import Demand, demand_of
from cpmi_dagster.rewards.registry import Needs, reward_type

BASE = "mc"
EVERYTHING = "everything"
SECONDS_PER_HOUR = 3600
CONFIDENCE = 0.95
FIGURES = ("wall_seconds", "forward_tokens", "generated_tokens")


@dataclass(frozen=True)
class Plan:
    """What labeling will take.

    Attributes:
        frame: one row per method, and one, `everything`, for all that a run labels with. Columns method, also (methods
            that cost the same), model, trajectories, forward_tokens (generated ones included), generated_tokens,
            generated_share_of_mc, time_share_of_mc, gpu_hours, hours (on all cards), usd, forward_basis,
            generated_basis (exact or estimate), sampling_error (half of the 95 % interval, relative; 0 for a full
            count, null where one chunk was counted).
        hardware: what it runs on.
        gpus: how many of them have work.
        counted: trajectories whose tokens were counted.
        guesses: estimates, which a run may not confirm.
    """

    frame: pl.DataFrame
    hardware: Hardware
    gpus: int
    counted: int
    guesses: frozenset[Guess]

    @property
    def trajectories(self) -> int:
        """Trajectories that the plan is for."""
        return self.frame["trajectories"][0]

    def row(self, method: str) -> dict:
        """The row of a method."""
        return self.frame.row(by_predicate=pl.col("method") == method, named=True)


def method_groups(types: Sequence[str]) -> dict[str, list[str]]:
    """Labeling methods among the reward types, the first of each kind with those that cost the same; MC always.

    Controls are left out.
    """
    groups: dict[Needs, list[str]] = {}
    for method in dict.fromkeys((BASE, *types)):
        if reward_type(method).kind == "method":
            groups.setdefault(reward_type(method).needs, []).append(method)
    return {first: others for first, *others in groups.values()}


def make_plan(
    chunks: Iterable[ChunkCosts],
    trajectories: int,
    types: Sequence[str],
    demand: Demand,
    basis: CostBasis,
    models: Mapping[str, str],
    hardware: Hardware,
    gpus: int,
    portions: int,
) -> Plan:
    """Add up chunks, and scale them to all trajectories.

    Args:
        chunks: all chunks, or a random sample of them; at least one.
        trajectories: how many are to be labelled.
        demand: what a run computes.
        basis: how costs are shared out among methods.
        models: names by role.
        gpus: how many cards share the work.
        portions: chunks of all trajectories, each made on one card; the card with the most of them decides the hours.
    """
    chunks = list(chunks)
    counted = sum(chunk.trajectories for chunk in chunks)
    units = _by_shard(chunks) if counted == trajectories else chunks
    guesses: frozenset[Guess] = frozenset().union(*(unit.guesses for unit in units))
    groups = method_groups(types)
    costs = pl.concat([_unit_costs(unit, list(groups), demand, basis, models) for unit in units])
    rows = []
    for method, own in costs.group_by("method", maintain_order=True):
        error = _sampling_error(own, trajectories) if counted < trajectories else 0.0
        also = groups.get(str(method[0]), [])
        own_demand = demand
        if method[0] != EVERYTHING:
            own_demand = demand_of([str(method[0])], basis.default_conditioning, basis.negatives)
        bases = _bases(own_demand, guesses, counted == trajectories)
        sums = {name: own[name].sum() * trajectories / counted for name in FIGURES}
        rows.append(
            {"method": method[0], "also": also, "model": own["model"][0], **sums, **bases, "sampling_error": error}
        )
    busiest_share = ceil(portions / gpus) / portions
    frame = _priced(pl.DataFrame(rows), trajectories, hardware, busiest_share)
    return Plan(frame, hardware, gpus, counted, guesses)


def _by_shard(chunks: Sequence[ChunkCosts]) -> list[ChunkCosts]:
    """Costs are reported by shard, and a merge's share of the rollouts is taken there."""
    shards: dict[str, list[ChunkCosts]] = {}
    for chunk in chunks:
        shards.setdefault(chunk.shard, []).append(chunk)
    return [reduce(add, own) for own in shards.values()]


def _unit_costs(
    unit: ChunkCosts, methods: Sequence[str], demand: Demand, basis: CostBasis, models: Mapping[str, str]
) -> pl.DataFrame:
    """What `labels.labeling_costs` will hold, and a row for everything a run labels with."""
    # tokens are counted by prefix, all rollouts together
    rollouts = {role: frame.with_columns(rollout=pl.lit(0)) for role, frame in unit.rollouts.items()}
    measured = Measured(unit.costs, rollouts, unit.targets)
    own = labeling_costs(unit.shard, unit.trajectories, measured, basis, models, methods)
    parts = costs_of(demand, measured, basis)
    names = " + ".join(dict.fromkeys(models[role] for role in parts))
    total = sum(parts.values(), Cost.zero())
    row = {"shard": unit.shard, "method": EVERYTHING, "model": names, "trajectories": unit.trajectories}
    row |= total.to_dict()
    return pl.concat([own, pl.DataFrame([row], schema=own.schema)])


def _sampling_error(own: pl.DataFrame, trajectories: int) -> float | None:
    """Half of the 95 % interval over the total, the largest of the figures': chunks are the sampled clusters."""
    if own.height < 2:
        return None
    sizes = own["trajectories"].to_numpy().astype(float)
    left_out = 1 - sizes.sum() / trajectories
    return max(_relative_error(own[name].to_numpy().astype(float), sizes, left_out) for name in FIGURES)


def _relative_error(values: np.ndarray, sizes: np.ndarray, left_out: float) -> float:
    """Of a ratio estimate of a total from clusters of unequal size, finite population corrected."""
    if not values.sum():
        return 0.0
    residuals = values - sizes * values.sum() / sizes.sum()
    variance = left_out * (residuals**2).sum() / (len(values) - 1) / len(values)
    return float(t.ppf((1 + CONFIDENCE) / 2, len(values) - 1) * np.sqrt(variance) / values.mean())


def _bases(demand: Demand, guesses: frozenset[Guess], complete: bool) -> dict[str, str]:
    """Whether a method's forward tokens, which include the generated ones, and its generated tokens are exact."""
    parts = [part for part, is_needed in demand.asks_for.items() if is_needed]

    def basis(*figures: Figure) -> str:
        guessed = any((part, figure) in guesses for part in parts for figure in figures)
        return "exact" if complete and not guessed else "estimate"

    return {"forward_basis": basis("forward", "generated"), "generated_basis": basis("generated")}


def _priced(frame: pl.DataFrame, trajectories: int, hardware: Hardware, busiest_share: float) -> pl.DataFrame:
    base = frame.row(by_predicate=pl.col("method") == BASE, named=True)
    gpu_hours = pl.col("wall_seconds") / SECONDS_PER_HOUR
    return frame.select(
        "method",
        "also",
        "model",
        pl.lit(trajectories).alias("trajectories"),
        pl.col("forward_tokens", "generated_tokens").round().cast(pl.Int64),
        generated_share_of_mc=pl.col("generated_tokens") / max(base["generated_tokens"], 1),
        time_share_of_mc=pl.col("wall_seconds") / max(base["wall_seconds"], 1e-12),
        gpu_hours=gpu_hours,
        hours=gpu_hours * busiest_share,
        usd=gpu_hours * hardware.card.usd_per_hour,
        forward_basis="forward_basis",
        generated_basis="generated_basis",
        sampling_error="sampling_error",
    )
