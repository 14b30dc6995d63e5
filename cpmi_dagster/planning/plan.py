"""The plan: every labeling method's tokens, hours and price before they are spent.

method       forward_tokens  generated_tokens  generated_share_of_mc  time_share_of_mc  gpu_hours   usd
mc            3,012,000,000     2,870,000,000                   1.00              1.00      910.0  2684
cpmi            142,000,000         3,100,000                   0.00              0.02       18.1    53
cpmi_merge1     640,000,000       480,000,000                   0.17              0.18      162.0   478

What was counted is billed to the methods by the code of a run (`costs.labeling_costs`) and scaled to all trajectories.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import polars as pl
from scipy.stats import t

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.planning.hardware import Hardware
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.rewards.costs import Measured, costs_of, labeling_costs
from cpmi_dagster.rewards.demand import demand_of
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
        labelled: trajectories whose measured seconds the hours are scaled from; 0 where they are the hardware's.
        guesses: labeling assets of which the length of sampled text was estimated.
    """

    frame: pl.DataFrame
    hardware: Hardware
    gpus: int
    counted: int
    labelled: int
    guesses: frozenset[str]

    @property
    def trajectories(self) -> int:
        """Trajectories that the plan is for."""
        return self.frame["trajectories"][0]


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
    counted: Sequence[tuple[int, Measured]],
    trajectories: int,
    chunks: int,
    settings: Settings,
    models: Mapping[str, str],
    hardware: Hardware,
    gpus: int,
    guesses: Collection[str] = (),
    labelled: pl.DataFrame | None = None,
) -> Plan:
    """Bill what was counted to the methods, and scale it to all trajectories.

    Args:
        counted: trajectories and what labeling them takes, of every shard or of a random sample of chunks.
        trajectories: how many are to be labelled.
        chunks: of all trajectories, each made on one card; the card with the most of them decides the hours.
        models: names by role.
        gpus: how many cards share the work.
        guesses: labeling assets of which the length of sampled text is an estimate.
        labelled: rows of `labels.labeling_costs`, whose seconds count in the place of the hardware's. Of methods that
            are not among them, the hardware's seconds are multiplied by what the others took against their estimate.
    """
    groups, basis = method_groups(settings.rewards.methods), settings.cost_basis
    billed = []
    for size, measured in counted:
        own = labeling_costs("", size, measured, basis, models, list(groups))
        parts = costs_of(settings.demand, measured, basis)
        names = " + ".join(dict.fromkeys(models[role] for role in parts))
        row = {"shard": "", "method": EVERYTHING, "model": names, "trajectories": size}
        everything = row | sum(parts.values(), Cost.zero()).to_dict()
        billed += [own, pl.DataFrame([everything], schema=own.schema)]
    costs = pl.concat(billed)
    known = sum(size for size, _ in counted)
    rows = []
    for (method,), own in costs.group_by("method", maintain_order=True):
        demand = settings.demand
        if method != EVERYTHING:
            demand = demand_of([str(method)], basis.default_conditioning, basis.negatives)
        row = {"method": method, "also": groups.get(str(method), []), "model": own["model"][0]}
        row |= {name: own[name].sum() * trajectories / known for name in FIGURES}
        needed = {asset for asset, is_needed in demand.asks_for.items() if is_needed}
        # answers are scored in one pass for all methods, whose length depends on the hard negatives
        read = needed | {"hard_negatives"} if "answer_logprobs" in needed else needed
        for name, assets in (("forward_basis", read), ("generated_basis", needed)):
            row[name] = "estimate" if known < trajectories or assets & set(guesses) else "exact"
        rows.append(row | {"sampling_error": _sampling_error(own, trajectories) if known < trajectories else 0.0})
    made = 0
    if labelled is not None:
        sums = labelled.group_by("method").agg(pl.col("wall_seconds", "trajectories").sum())
        made = max(sums["trajectories"])
        # where rollouts are drawn for a sample, a shard may have none
        pace = {method: seconds * trajectories / number for method, seconds, number in sums.iter_rows() if number}
        both = [(pace[row["method"]], row["wall_seconds"]) for row in rows if row["method"] in pace]
        factor = sum(taken for taken, _ in both) / sum(estimate for _, estimate in both) if both else 1.0
        for row in rows:
            row["wall_seconds"] = pace.get(row["method"], row["wall_seconds"] * factor)
    mc = next(row for row in rows if row["method"] == BASE)
    gpus, gpu_hours = min(gpus, chunks), pl.col("wall_seconds") / SECONDS_PER_HOUR
    frame = pl.DataFrame(rows).select(
        "method",
        "also",
        "model",
        pl.lit(trajectories).alias("trajectories"),
        pl.col("forward_tokens", "generated_tokens").round().cast(pl.Int64),
        generated_share_of_mc=pl.col("generated_tokens") / max(mc["generated_tokens"], 1),
        time_share_of_mc=pl.col("wall_seconds") / max(mc["wall_seconds"], 1e-12),
        gpu_hours=gpu_hours,
        hours=gpu_hours * ceil(chunks / gpus) / chunks,
        usd=gpu_hours * hardware.usd_per_hour,
        forward_basis="forward_basis",
        generated_basis="generated_basis",
        sampling_error="sampling_error",
    )
    return Plan(frame, hardware, gpus, known, made, frozenset(guesses))


def _sampling_error(own: pl.DataFrame, trajectories: int) -> float | None:
    """Half of the 95 % interval over the total, the largest of the figures'; chunks are the sampled clusters.

    A ratio estimate of a total from clusters of unequal size, finite population corrected.
    """
    if own.height < 2:
        return None
    sizes = own["trajectories"].to_numpy().astype(float)
    left_out, degrees = 1 - sizes.sum() / trajectories, len(sizes) - 1
    errors = [0.0]
    for values in (own[name].to_numpy().astype(float) for name in FIGURES if own[name].sum()):
        residuals = values - sizes * values.sum() / sizes.sum()
        variance = left_out * (residuals**2).sum() / degrees / len(sizes)
        errors.append(float(t.ppf((1 + CONFIDENCE) / 2, degrees) * np.sqrt(variance) / values.mean()))
    return max(errors)
