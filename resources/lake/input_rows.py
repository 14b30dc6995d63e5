"""Which rows of a table count: those the profile asks for, those a partition depends on, those within an extent."""

from collections.abc import Callable

import polars as pl

from cpmi_dagster.contracts.keys import (
    CONTROLS,
    LOGPROBS,
    NEGATIVES,
    POLICY_ROLLOUTS,
    PROBLEMS,
    PROVER_ROLLOUTS,
    SELECTED,
    SOFT_LABELS,
)
from cpmi_dagster.contracts.tables import TABLES, Partitioning
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.extent import Extent


def _rollouts_asked_for(steps: int | None, count: int) -> pl.Expr:
    rollouts = pl.col("rollout") < count
    return rollouts if steps is None else rollouts & (steps > 0) & (pl.col("prefix_length") <= steps)


# rows of files that may hold more than the profile asks for
ASKED_FOR: dict[str, Callable[[Settings], pl.Expr]] = {
    NEGATIVES: lambda settings: pl.col("rank") <= settings.demand.negatives,
    LOGPROBS: lambda settings: (
        (pl.col("template") < settings.scoring.templates)
        & (pl.col("answer_rank") <= settings.demand.negatives)
        & bool(settings.demand.conditionings)
    ),
    CONTROLS: lambda settings: (
        (pl.col("template") < settings.scoring.templates) & pl.col("control").is_in(settings.demand.controls)
    ),
    POLICY_ROLLOUTS: lambda settings: _rollouts_asked_for(settings.demand.policy_steps, settings.rollouts.policy_count),
    PROVER_ROLLOUTS: lambda settings: _rollouts_asked_for(settings.demand.prover_steps, settings.rollouts.prover_count),
}

# an unpartitioned input of which a partition depends on some rows only
ROWS_OF_PARTITION: dict[tuple[str, Partitioning | None], Callable[[Settings, str], pl.Expr]] = {
    (SELECTED, "shard"): lambda settings, shard: pl.col("shard") == shard,
    (SOFT_LABELS, "recipe"): lambda settings, recipe: pl.col("reward_type") == settings.recipe(recipe).reward_type,
    (PROBLEMS, "benchmark"): lambda _, benchmark: pl.col("benchmark") == benchmark,
}

# an input of which a stage that grows depends on the rows within its extent
ROWS_OF_EXTENT = {NEGATIVES: "demand.negatives"}


def partitions_of(key: str, settings: Settings) -> list[str] | None:
    """The partition keys a profile gives a table; None for a table in one file."""
    by_partitioning = {
        "shard": settings.shard_keys,
        "recipe": settings.recipe_names,
        "benchmark": list(settings.benchmarks.best_of_n),
    }
    partitioning = TABLES[key].partitioning
    return by_partitioning[partitioning] if partitioning else None


def rows_of_extent(key: str, extent: Extent) -> pl.Expr | None:
    """The rows of an input that a file with this extent depends on; None where its extent does not say."""
    axis = ROWS_OF_EXTENT.get(key)
    if axis is None or axis not in extent:
        return None
    return pl.lit(True) if extent[axis] is None else pl.col("rank") <= extent[axis]
