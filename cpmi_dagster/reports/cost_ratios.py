"""What labeling costs by method: relative to a baseline, and scaled to the paper's 10,000 trajectories.

    shard  method  trajectories  wall_seconds          method  ratio to mc
    000    mc      80            96.0            ->    cpmi    0.16 [0.14, 0.19]
    000    cpmi    80            15.4

The interval resamples shards, so it needs at least two; a baseline relative to itself has none.
"""

import math
from collections.abc import Callable, Iterable

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.resampling import Estimate, Floats, bootstrap
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.reward_rows import RecipeRow

COSTS = "labels/labeling_costs"
SUBSET = 10_000
"""Trajectories that the paper's raw costs are accumulated over."""


def cost_ratios(inputs: ReportInputs, rows: Iterable[RecipeRow], baseline: str, cost: str) -> dict[str, Estimate]:
    """Cost per trajectory of each row's method relative to a baseline method.

    Args:
        rows: their reward types are the methods.
        baseline: method to compare with.
        cost: `wall_seconds`, `generated_tokens` or `forward_tokens`.

    Returns:
        By row label; rows without costs, or without any of the baseline's, are left out. n counts trajectories.
    """
    base, ratios = _costs(inputs, baseline, cost), {}
    for row in rows:
        shards = _costs(inputs, row.reward_type, cost).join(base, on="shard", suffix="_base", maintain_order="left")
        if shards["cost_base"].sum() and shards["trajectories"].sum():
            has_interval = shards.height > 1 and row.reward_type != baseline
            ratios[row.row] = _resampled(inputs, shards, _ratio, has_interval)
    return ratios


def costs_per_subset(inputs: ReportInputs, rows: Iterable[RecipeRow], cost: str) -> dict[str, Estimate]:
    """What `SUBSET` trajectories cost with each row's method, in the unit of the column `cost`.

    Returns:
        By row label; rows without costs are left out. n counts trajectories.
    """
    costs = {row.row: _costs(inputs, row.reward_type, cost) for row in rows}
    return {
        row: _resampled(inputs, shards, _per_subset, shards.height > 1)
        for row, shards in costs.items()
        if shards["trajectories"].sum()
    }


def _costs(inputs: ReportInputs, method: str, cost: str) -> pl.DataFrame:
    """shard, cost, trajectories of one method."""
    own = inputs.table(COSTS).filter(pl.col("method") == method).sort("shard")
    return own.select("shard", pl.col(cost).cast(pl.Float64).alias("cost"), "trajectories")


def _resampled(
    inputs: ReportInputs, shards: pl.DataFrame, figure: Callable[[Floats], Floats], has_interval: bool
) -> Estimate:
    """A figure of sums over shards, its interval NaN where resampling shards says nothing about it."""
    estimate = bootstrap(shards.drop("shard").to_numpy(), figure, inputs.bootstrap_samples, inputs.seed).estimate()
    interval = (estimate.low, estimate.high) if has_interval else (math.nan, math.nan)
    return Estimate(estimate.value, *interval, int(shards["trajectories"].sum()))


def _per_subset(totals: Floats) -> Floats:
    return SUBSET * totals[..., 0] / totals[..., 1]


def _ratio(totals: Floats) -> Floats:
    """Cost per trajectory relative to that of the baseline."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return (totals[..., 0] / totals[..., 1]) / (totals[..., 2] / totals[..., 3])
