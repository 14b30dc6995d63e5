"""Which rows of a table count: those the profile asks for, those a partition depends on, those within an extent."""

from collections.abc import Callable

import polars as pl

from cpmi_dagster.contracts.tables import Partitioning
from cpmi_dagster.profiles.settings import Settings


def _rollouts_asked_for(steps: int | None, count: int) -> pl.Expr:
    rollouts = pl.col("rollout") < count
    return rollouts if steps is None else rollouts & (steps > 0) & (pl.col("prefix_length") <= steps)


# rows of files that may hold more than the profile asks for
ASKED_FOR: dict[str, Callable[[Settings], pl.Expr]] = {
    "labels/hard_negatives": lambda settings: pl.col("rank") <= settings.demand.negatives,
    "labels/answer_logprobs": lambda settings: (
        (pl.col("template") < settings.scoring.templates)
        & (pl.col("answer_rank") <= settings.demand.negatives)
        & bool(settings.demand.conditionings)
    ),
    "labels/control_logprobs": lambda settings: (
        (pl.col("template") < settings.scoring.templates) & pl.col("control").is_in(settings.demand.controls)
    ),
    "labels/policy_rollouts": lambda settings: _rollouts_asked_for(
        settings.demand.policy_steps, settings.rollouts.policy_count
    ),
    "labels/prover_rollouts": lambda settings: _rollouts_asked_for(
        settings.demand.prover_steps, settings.rollouts.prover_count
    ),
}

# an unpartitioned input of which a partition depends on some rows only
ROWS_OF_PARTITION: dict[tuple[str, Partitioning | None], Callable[[Settings, str], pl.Expr]] = {
    ("selection/selected_trajectories", "shard"): lambda settings, shard: pl.col("shard") == shard,
    ("dataset/soft_labels", "recipe"): lambda settings, recipe: (
        pl.col("reward_type") == settings.recipe(recipe).reward_type
    ),
    ("sources/benchmark_problems", "benchmark"): lambda _, benchmark: pl.col("benchmark") == benchmark,
}

# an input of which a stage that grows depends on the rows within its extent
ROWS_OF_EXTENT = {"labels/hard_negatives": "demand.negatives"}
