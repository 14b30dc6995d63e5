"""Does a reward model tell right steps from wrong ones at all? Its step AUC compared with chance, 0.5.

row    measured  low    high          verdict
MC        0.459  0.374  0.548   ->    chance
CPMI      0.612  0.530  0.689         above
"""

import polars as pl

from cpmi_dagster.rewards.registry import REWARD_TYPES

CHANCE = 0.5
STEP_AUC = "ROC-AUC"
CONTROLS = frozenset(entry.label for entry in REWARD_TYPES.values() if entry.kind == "control")
"""Rows whose labels need not be good: nothing follows from a bad score."""


def against_chance(distribution: pl.DataFrame) -> pl.DataFrame:
    """Whether the 95 % interval of each reward model's step AUC is above, around or below chance.

    Args:
        distribution: comparison of the artifact `distribution`.

    Returns:
        row, measured, low, high, verdict (`above`, `chance`, `below`); models without an interval are left out.
    """
    above, below = pl.col("low") > CHANCE, pl.col("high") < CHANCE
    verdict = pl.when(above).then(pl.lit("above")).when(below).then(pl.lit("below")).otherwise(pl.lit("chance"))
    measured = distribution.filter(pl.col("column") == STEP_AUC).drop_nulls(["measured", "low", "high"])
    return measured.select("row", "measured", "low", "high", verdict=verdict)
