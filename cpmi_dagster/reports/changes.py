"""What changed in labels and figures since the answer before, which a home keeps when settings or rows change.

setting            before  now          label  steps  changed  mean before  mean now
scoring.templates  4       2            CPMI   179    179      0.021        0.034

table          row   figure               before  now
label_quality  CPMI  Without last steps   0.612   0.587
"""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from cpmi_dagster.contracts.keys import FIGURES, STEP_REWARDS
from cpmi_dagster.reports.labels import in_order
from cpmi_dagster.rewards.registry import reward_label

MOST_FIGURES = 30
STEP_OF_TYPE = ["trajectory_id", "step_index", "reward_type"]
FIGURE = ["artifact", "row", "column"]


def changed_rows(before: pl.DataFrame, now: pl.DataFrame, names: Sequence[str], value: str) -> pl.DataFrame:
    """Rows of `now` that `before` has with another value, in `{value}_before`; `names` are the key of both."""
    both = now.join(before, on=names, suffix="_before", maintain_order="left")
    return both.filter(pl.col(value).ne_missing(pl.col(f"{value}_before")))


def changes_since(
    before: Mapping[str, pl.DataFrame],
    now: Mapping[str, pl.DataFrame],
    settings_before: Mapping[str, Any],
    settings_now: Mapping[str, Any],
) -> dict[str, pl.DataFrame]:
    """Tables of what changed, by title; only those that have rows.

    Args:
        before, now: rows of labels.step_rewards and reports.figures, by table key; what only one of them has is no
            change.
        settings_before, settings_now: by path, what the labels were made by.
    """
    names = dict.fromkeys([*settings_before, *settings_now])
    values = [(name, *(str(each.get(name, "–")) for each in (settings_before, settings_now))) for name in names]
    settings = pl.DataFrame(values, ["setting", "before", "now"], orient="row")
    rewards = before[STEP_REWARDS].join(now[STEP_REWARDS], on=STEP_OF_TYPE, suffix="_now")
    is_other = pl.col("reward") != pl.col("reward_now")
    by_type = rewards.group_by("reward_type").agg(
        pl.len().alias("steps"),
        is_other.sum().cast(pl.Int64).alias("changed"),
        pl.col("reward").mean().alias("mean before"),
        pl.col("reward_now").mean().alias("mean now"),
    )
    changed = by_type.filter(pl.col("changed") > 0)
    order = pl.DataFrame({"reward_type": in_order(changed["reward_type"])}, schema={"reward_type": pl.String})
    labels = order.join(changed, on="reward_type", maintain_order="left").select(
        pl.Series("label", [reward_label(name) for name in order["reward_type"]], pl.String),
        pl.all().exclude("reward_type"),
    )
    figures = changed_rows(before[FIGURES], now[FIGURES], FIGURE, "measured").select(
        pl.col("artifact").alias("table"),
        "row",
        pl.col("column").alias("figure"),
        pl.col("measured_before").alias("before"),
        pl.col("measured").alias("now"),
    )
    shown = min(MOST_FIGURES, figures.height)
    tables = {
        "Settings of the labels": settings.filter(pl.col("before") != pl.col("now")) if values else settings,
        "Labels": labels,
        f"Figures: {shown} of {figures.height:,}, all in reports.changes": figures.head(shown),
    }
    return {title: frame for title, frame in tables.items() if frame.height}
