"""What a run ends with: its figures, its labels, what was left out, and what changed since the previous run.

The report lists what changed, too:

setting            before  now          label  steps  changed  mean before  mean now
scoring.templates  4       2            CPMI   179    179      0.021        0.034

table          row   figure               before  now
label_quality  CPMI  Without last steps   0.612   0.587
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from cpmi_dagster.contracts.keys import (
    FIGURES,
    REJECTED_ROWS,
    REJECTED_TRAJECTORIES,
    REJECTED_TRUTH,
    STEP_REWARDS,
    TRAJECTORIES,
)
from cpmi_dagster.errors import CpmiError
from cpmi_dagster.files.text import counted
from cpmi_dagster.profiles.partitions import is_needed
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.reports.artifacts import by_artifact
from cpmi_dagster.reports.labels import in_order
from cpmi_dagster.reports.own_data import describe_final_answers
from cpmi_dagster.reports.summary import describe_models, format_headline, headline_table
from cpmi_dagster.reports.verdict import judge_label
from cpmi_dagster.resources.dag.stage import Stage
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.dag.status import Stale, describe_labels, describe_pilot, what_is_stale
from cpmi_dagster.resources.lake.database import reader
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.query import ask
from cpmi_dagster.rewards.registry import reward_label

LOG = logging.getLogger(__name__)
LABELS_MADE = r"""
    select reward_type as reward, count(distinct trajectory_id) as trajectories, count(*) as steps, avg(reward) as mean,
        quantile_cont(reward, 0.05) as "5 %", quantile_cont(reward, 0.5) as median,
        quantile_cont(reward, 0.95) as "95 %",
        first('step ' || step_index || ' of '
            || case when regexp_full_match(source_id, '[\w.-]+') then source_id else trajectory_id end
            order by reward, trajectory_id, step_index) as "lowest at"
    from labels.step_rewards left join alignment.trajectories using (trajectory_id) group by all order by all
"""
REJECTED = {
    REJECTED_ROWS: pl.format("row {}", pl.col("row_number") + 1),
    REJECTED_TRUTH: pl.format("row {} of sources.step_truth", pl.col("row_number") + 1),
    REJECTED_TRAJECTORIES: pl.coalesce("source_id", "trajectory_id"),
}
"""What a rejected row is called, by table."""
MOST_FIGURES = 30
VALUES = {
    STEP_REWARDS: ("label", ["trajectory_id", "step_index", "reward_type"], "reward"),
    FIGURES: ("figure", ["artifact", "row", "column"], "measured"),
}
"""What a row of a table is, its key, and the column of its value."""


@dataclass(frozen=True)
class Summary:
    """What a run ends with; stale tables are left out.

    Attributes:
        headline: as `reports.summary.format_headline` has it; empty if nothing could be measured.
        verdicts: whether to train on the labels, if the data are the user's, and the quality of each reward model.
        labels: a row per reward type: trajectories, steps, quantiles, step of the lowest reward; empty without labels.
        left_out: reason, count, first (row, or the user's id), the most frequent reason first.
        made: the labels of the home, in words.
        stale: what is stale; None if nothing is.
        changed: how many labels and figures differ from those that they replaced; empty if none was replaced.
        pilot: what a pilot has left for the whole run; empty of a whole run.
    """

    headline: pl.DataFrame
    verdicts: Mapping[str, str]
    labels: pl.DataFrame
    left_out: pl.DataFrame
    made: str
    stale: Stale | None
    changed: str
    pilot: str


def summarise(settings: Settings, began: float, stages: Mapping[str, Stage]) -> Summary:
    """Summarise a home at the end of a run.

    Args:
        began: the run's start, in seconds since 1970.
        stages: stage of each table.
    """
    states, lake = States.of(settings, stages), Lake.of(settings)
    stale = [key for key in (STEP_REWARDS, FIGURES, *REJECTED) if states.stale(key)]
    frames = {} if FIGURES in stale else by_artifact(lake.read(FIGURES))
    return Summary(
        format_headline(headline_table(frames, settings.recipes)),
        verdicts(settings, frames),
        labels_made(settings, stale),
        left_out(settings, stale),
        describe_labels(settings),
        what_is_stale(settings, stages),
        what_changed(lake, began),
        describe_pilot(settings),
    )


def verdicts(settings: Settings, frames: Mapping[str, pl.DataFrame]) -> dict[str, str]:
    """Whether to train on the labels, if the data are the user's, and the quality of each reward model.

    Args:
        frames: figures by artifact, as far as they are made.
    """
    lines = {}
    if settings.has_own_trajectories and "label_trust" in frames:
        first, *others = settings.trained_labels
        lines["Train?"] = judge_label(frames, first, settings.profile_option, settings.is_pilot).line
        lines |= {f"{reward_label(name)}?": judge_label(frames, name).answered for name in others}
        lines |= {"Answers": answers} if (answers := describe_final_answers(frames)) else {}
    return lines | describe_models(frames.get("reward_models"))


def labels_made(settings: Settings, stale: Collection[str] = ()) -> pl.DataFrame:
    """`Summary.labels`; `stale` tables are left out."""
    lake = Lake.of(settings)
    try:
        if STEP_REWARDS in stale or not lake.partitions(STEP_REWARDS):
            return pl.DataFrame()
        with reader(lake, settings) as connection:
            return ask(connection, LABELS_MADE)
    except CpmiError as error:  # a summary fails no run
        LOG.warning("the labels are not summarised: %s", error)
        return pl.DataFrame()


def left_out(settings: Settings, stale: Collection[str] = ()) -> pl.DataFrame:
    """Rejected rows, judgements and trajectories, as in `Summary.left_out`; `stale` tables are left out."""
    lake, schema = Lake.of(settings), {"reason": pl.String, "count": pl.UInt32, "first": pl.String}
    frames = [pl.DataFrame(schema=schema)]
    try:
        for key, name in REJECTED.items():
            if key in stale or not is_needed(key, settings) or not lake.has_table(key):
                continue
            rows = lake.read(key)
            if key == REJECTED_TRAJECTORIES:
                ids = lake.read(TRAJECTORIES, None, ["trajectory_id", "source_id"])
                # the name stands before the reason already
                reason = pl.col("reason").str.strip_prefix(pl.format("trajectory `{}` ", "trajectory_id"))
                rows = rows.join(ids, on="trajectory_id", how="left", maintain_order="left").with_columns(reason)
            by_reason = rows.group_by("reason", maintain_order=True)
            frames.append(by_reason.agg(count=pl.len(), first=name.first()))
    except CpmiError as error:  # a summary fails no run
        LOG.warning("what was left out is not summarised: %s", error)
        return pl.DataFrame()
    return pl.concat(frames).sort("count", descending=True, maintain_order=True)


def what_changed(lake: Lake, began: float) -> str:
    """How many labels and figures differ from those that they replaced since a time; empty if none was replaced."""
    counts = []
    for key, (what, *_) in VALUES.items():
        if replaced := lake.replaced_since(key, began):
            counts.append((_changed_rows(key, lake.read_earlier(key), lake.read(key, replaced)).height, what))
    return " and ".join(counted(count, what) for count, what in counts if count)


def _changed_rows(key: str, before: pl.DataFrame, now: pl.DataFrame) -> pl.DataFrame:
    """Rows of `now` that `before` has with another value, which is in `before`."""
    _, names, value = VALUES[key]
    both = now.join(before.select(*names, before=value), on=names, maintain_order="left")
    return both.filter(pl.col(value).ne_missing(pl.col("before")))


def list_changes(lake: Lake, shards: Sequence[str]) -> dict[str, pl.DataFrame]:
    """Tables of what changed since the previous run, by title; none if the labels and figures are the first ones."""
    before = {key: lake.read_earlier(key) for key in VALUES}
    if all(rows.is_empty() for rows in before.values()):
        return {}
    pairs = [(lake.earlier(STEP_REWARDS, shard), lake.record(STEP_REWARDS, shard)) for shard in shards]
    then, now = next(((then.settings, now.settings) for then, now in pairs if then and now), ({}, {}))
    return changes_since(before, {key: lake.read(key) for key in VALUES}, then, now)


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
    settings = pl.DataFrame(values, dict.fromkeys(("setting", "before", "now"), pl.String), orient="row")
    rewards = now[STEP_REWARDS].join(before[STEP_REWARDS], on=VALUES[STEP_REWARDS][1], suffix="_before")
    by_type = rewards.group_by("reward_type").agg(
        pl.len().alias("steps"),
        (pl.col("reward") != pl.col("reward_before")).sum().cast(pl.Int64).alias("changed"),
        pl.col("reward_before").mean().alias("mean before"),
        pl.col("reward").mean().alias("mean now"),
    )
    changed = by_type.filter(pl.col("changed") > 0)
    order = pl.DataFrame({"reward_type": in_order(changed["reward_type"])}, schema={"reward_type": pl.String})
    labels = order.join(changed, on="reward_type", maintain_order="left").select(
        pl.Series("label", [reward_label(name) for name in order["reward_type"]], pl.String),
        pl.all().exclude("reward_type"),
    )
    figures = _changed_rows(FIGURES, before[FIGURES], now[FIGURES]).select(
        table="artifact", row="row", figure="column", before="before", now="measured"
    )
    shown = min(MOST_FIGURES, figures.height)
    tables = {
        "Settings of the labels": settings.filter(pl.col("before") != pl.col("now")),
        "Labels": labels,
        f"Figures: {shown} of {figures.height:,}, all in reports.changes": figures.head(shown),
    }
    return {title: frame for title, frame in tables.items() if frame.height}
