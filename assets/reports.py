"""Figures of the paper next to ours, the HTML report, and the summaries at the end of a run."""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import dagster as dg
import polars as pl

from cpmi_dagster.benchmarks.label_quality import FEWEST_OF_EACH
from cpmi_dagster.contracts.keys import (
    CHOICES,
    COSTS,
    FIGURES,
    JUDGES,
    MODELS,
    NEGATIVES,
    POLICY_ROLLOUTS,
    PRMBENCH_PREDICTIONS,
    PROBLEMS,
    PROCESSBENCH,
    REJECTED_ROWS,
    REJECTED_TRAJECTORIES,
    REJECTED_TRUTH,
    REPORT,
    STEP_REWARDS,
    TRAJECTORIES,
    TRUTH,
)
from cpmi_dagster.contracts.report_tables import TOPICS
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import CpmiError, LakeError
from cpmi_dagster.files.text import counted
from cpmi_dagster.files.whole_files import remove_unfinished, write_whole
from cpmi_dagster.installed import DISTRIBUTION
from cpmi_dagster.profiles.asked import is_asked
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.reports.artifacts import ARTIFACTS, READ_BY_SHARD, build_artifact, by_artifact, needs_of
from cpmi_dagster.reports.changes import FIGURE, STEP_OF_TYPE, changed_rows, changes_since
from cpmi_dagster.reports.figures import ReportInputs
from cpmi_dagster.resources.dag.file_metadata import preview
from cpmi_dagster.resources.dag.stage import Stage, StageOutput, stage
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.lake.database import reader
from cpmi_dagster.resources.lake.lake import Lake, partitions_of
from cpmi_dagster.resources.lake.query import ask
from cpmi_dagster.resources.models.language_models import Role

LOG = logging.getLogger(__name__)
REPORT_FILE = Path("report") / "index.html"
MODEL_ROLES: tuple[Role, ...] = get_args(Role)
MEASURED_BY = [
    "recipes",
    "benchmarks.bootstrap_samples",
    "models.labeler.name",
    "negatives.count",
    "answers.identity",
]
VERSIONS = (DISTRIBUTION, "dagster", "duckdb", "polars", "torch", "transformers")


def _inputs(run: StageRun, needs: Collection[str]) -> ReportInputs:
    """Inputs of figures; tables of `READ_BY_SHARD` are read one shard at a time."""

    def shards(key: str) -> Iterator[pl.DataFrame]:
        return (run.read(key, shard) for shard in run.settings.shard_keys)

    settings = run.settings
    return ReportInputs(
        recipes=settings.recipes,
        labeler=settings.models.labeler.name,
        bootstrap_samples=settings.benchmarks.bootstrap_samples,
        seed=settings.seed,
        negatives=settings.negatives.count,
        comparison=settings.answers.comparison,
        fewest_judged=FEWEST_OF_EACH,
        frames={key: run.read(key) for key in needs if key not in READ_BY_SHARD},
        shards={key: partial(shards, key) for key in needs if key in READ_BY_SHARD},
    )


@stage(
    FIGURES,
    code_version="20",
    inputs=sorted({key for topic in TOPICS for key in needs_of(topic)}),
    feeds=lambda key, partition, _: partition is None or key in needs_of(partition),
    settings=MEASURED_BY,
)
def figures(run: StageRun) -> StageOutput:
    """Measures of labels and of models, each computed once, laid out as the report's tables and plots."""
    topic, settings = str(run.partition), run.settings
    inputs = _inputs(run, needs_of(topic))
    tables = [
        build_artifact(ARTIFACTS[name], inputs, settings.profile, settings.has_own_trajectories)
        for name in TOPICS[topic]
    ]
    return StageOutput(pl.concat(tables))


DRAWN_FROM = (
    PROBLEMS, PROCESSBENCH, PRMBENCH_PREDICTIONS, JUDGES, CHOICES, MODELS, STEP_REWARDS, TRAJECTORIES, TRUTH, COSTS,
    NEGATIVES,
)  # fmt: skip
"""Inputs of plots and model cards."""
REVIEWED = ["question_id", "match_kind"]
LABELS_MADE = r"""
    select reward_type as reward, count(distinct trajectory_id) as trajectories, count(*) as steps, avg(reward) as mean,
        quantile_cont(reward, 0.05) as "5 %", quantile_cont(reward, 0.5) as median,
        quantile_cont(reward, 0.95) as "95 %",
        first('step ' || step_index || ' of '
            || case when regexp_full_match(source_id, '[\w.-]+') then source_id else trajectory_id end
            order by reward, trajectory_id, step_index) as "lowest at"
    from labels.step_rewards left join alignment.trajectories using (trajectory_id) group by all order by all
"""


@stage(
    REPORT,
    code_version="22",
    inputs=[FIGURES, *DRAWN_FROM, REJECTED_ROWS],
    settings=MEASURED_BY,
    models=MODEL_ROLES,
    kinds=("html", "matplotlib"),
)
def report(run: StageRun) -> StageOutput:
    """Writes one self-contained HTML file with all tables, plots and provenance, and completes the model cards."""
    from cpmi_dagster.alignment import review_alignment
    from cpmi_dagster.reports.html import render_report
    from cpmi_dagster.reports.own_data import own_data
    from cpmi_dagster.reports.summary import format_headline, headline_table

    inputs, frames = _inputs(run, DRAWN_FROM), by_artifact(run.read(FIGURES))
    rejected, option = run.read(REJECTED_ROWS), run.settings.profile_option
    is_own = run.settings.has_own_trajectories
    idle = () if run.settings.demand.asks_for[POLICY_ROLLOUTS] else ("rollouts",)
    html = render_report(
        run.settings.profile,
        datetime.now(UTC).date().isoformat(),
        frames,
        inputs,
        profile_option=option,
        models={role: run.models.identity(role) for role in MODEL_ROLES if run.models.has(role) and role not in idle},
        alignment=review_alignment(run.read(TRAJECTORIES, columns=REVIEWED), rejected),
        provenance=_provenance(run.lake, run.settings, OWN_WORDS if is_own else {}),
        versions={name: version(name) for name in VERSIONS},
        changes=_changes(run),
        own=own_data(inputs, frames, run.settings.trained_labels, rejected.height, option) if is_own else None,
    )
    remove_unfinished(run.settings.home / REPORT_FILE)
    write_whole(run.settings.home / REPORT_FILE, html)
    _complete_model_cards(run, inputs.table(MODELS), frames.get("reward_models"))
    row = {"path": [str(REPORT_FILE)], "artifacts": [len(ARTIFACTS)], "profile": [run.settings.profile]}
    shown: dict[str, Any] = {"report": dg.MetadataValue.path(str(run.settings.home / REPORT_FILE))}
    if (measured := format_headline(headline_table(frames, run.settings.recipes))).height:
        shown["headline"] = dg.MetadataValue.md(preview(measured, rows=None))
    return StageOutput(pl.DataFrame(row), files=[str(REPORT_FILE)], metadata=shown)


def stale_tables(settings: Settings, stages: Mapping[str, Stage]) -> set[str]:
    """Stale tables among those that `cpmi run` summarises."""
    states = States.of(settings, stages)
    summarised = (STEP_REWARDS, REJECTED_ROWS, REJECTED_TRUTH, REJECTED_TRAJECTORIES, FIGURES)
    return {key for key in summarised if states.stale(key)}


def headline(settings: Settings, stale: Collection[str] = ()) -> pl.DataFrame:
    """The headline table as text; empty without figures.

    Args:
        stale: tables to leave out, here and in the other summaries.
    """
    from cpmi_dagster.reports.summary import format_headline, headline_table

    return format_headline(headline_table(_figures_there(settings, stale), settings.recipes))


def verdicts(settings: Settings, stale: Collection[str] = ()) -> dict[str, str]:
    """Whether to train on the labels, if the data are the user's, and the quality of each reward model."""
    from cpmi_dagster.reports.summary import describe_models
    from cpmi_dagster.reports.verdict import judge_label
    from cpmi_dagster.rewards.registry import reward_label

    frames, lines = _figures_there(settings, stale), {}
    if settings.has_own_trajectories and "label_trust" in frames:
        first, *others = settings.trained_labels
        lines["Train?"] = judge_label(frames, first, settings.profile_option).line
        lines |= {f"{reward_label(name)}?": judge_label(frames, name).answered for name in others}
    return lines | describe_models(frames.get("reward_models"))


def _figures_there(settings: Settings, stale: Collection[str]) -> dict[str, pl.DataFrame]:
    """The figures of a home by artifact, as far as they are made; none if they are stale."""
    return {} if FIGURES in stale else by_artifact(Lake.of(settings).read(FIGURES))


def labels_made(settings: Settings, stale: Collection[str] = ()) -> pl.DataFrame:
    """A row per reward type: trajectories, steps, quantiles, step of the lowest reward; empty without labels."""
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
    """Rejected rows, judgements and trajectories by reason: reason, count, first (row, or the user's id).

    The most frequent reason is first.
    """
    lake, frames = Lake.of(settings), []
    try:
        if REJECTED_ROWS not in stale and lake.partitions(REJECTED_ROWS):
            rows = lake.read(REJECTED_ROWS)
            frames.append(rows.select("reason", first=pl.format("row {}", pl.col("row_number") + 1)))
        if REJECTED_TRUTH not in stale and is_asked(REJECTED_TRUTH, settings) and lake.exists(REJECTED_TRUTH):
            first = pl.format("row {} of sources.step_truth", pl.col("row_number") + 1)
            frames.append(lake.read(REJECTED_TRUTH).select("reason", first=first))
        if REJECTED_TRAJECTORIES not in stale and lake.partitions(REJECTED_TRAJECTORIES):
            ids = lake.read(TRAJECTORIES, None, ["trajectory_id", "source_id"])
            refused = lake.read(REJECTED_TRAJECTORIES)
            named = refused.join(ids, on="trajectory_id", how="left", maintain_order="left")
            name = pl.coalesce("source_id", "trajectory_id")
            # the name stands before the reason already
            reason = pl.col("reason").str.strip_prefix(pl.format("trajectory `{}` ", "trajectory_id"))
            frames.append(named.select(reason, first=name))
    except CpmiError as error:  # a summary fails no run
        LOG.warning("what was left out is not summarised: %s", error)
        return pl.DataFrame()
    schema = {"reason": pl.String, "count": pl.UInt32, "first": pl.String}
    by_table = (
        each.group_by("reason", maintain_order=True).agg(count=pl.len(), first=pl.col("first").first())
        for each in frames
    )
    reasons = pl.concat([pl.DataFrame(schema=schema), *by_table])
    return reasons.sort("count", descending=True, maintain_order=True)


def what_changed(settings: Settings, began: float) -> str:
    """How many labels and figures differ from those that they replaced since a time; empty if none was replaced."""
    lake, counts = Lake.of(settings), []
    for key, what, names, value in (
        (STEP_REWARDS, "label", STEP_OF_TYPE, "reward"),
        (FIGURES, "figure", FIGURE, "measured"),
    ):
        if replaced := lake.replaced_since(key, began):
            counts.append((changed_rows(lake.read_earlier(key), lake.read(key, replaced), names, value).height, what))
    return " and ".join(counted(count, what) for count, what in counts if count)


def _changes(run: StageRun) -> dict[str, pl.DataFrame]:
    """Tables of what changed since the answer before; none if the labels and figures are the first ones."""
    lake, tables = run.lake, (STEP_REWARDS, FIGURES)
    before = {key: lake.read_earlier(key) for key in tables}
    if all(rows.is_empty() for rows in before.values()):
        return {}
    pairs = [(lake.earlier(STEP_REWARDS, shard), lake.record(STEP_REWARDS, shard)) for shard in run.settings.shard_keys]
    then, now = next(((then.settings, now.settings) for then, now in pairs if then and now), ({}, {}))
    return changes_since(before, {key: lake.read(key) for key in tables}, then, now)


def _complete_model_cards(run: StageRun, models: pl.DataFrame, measured: pl.DataFrame | None) -> None:
    """Write the figures of each model to the card beside its weights."""
    from cpmi_dagster.prm.card import with_figures
    from cpmi_dagster.reports.models import model_figures

    for recipe, path in models.select("recipe", "path").iter_rows():
        card = run.lake.home / path / "README.md"
        figures = model_figures(measured, recipe)
        if not card.is_file():
            raise LakeError(f"{card} is missing; run `cpmi run{run.settings.profile_option} --only {MODELS} --force`")
        remove_unfinished(card)
        text = with_figures(card.read_text(encoding="utf-8"), figures, run.settings.profile)
        write_whole(card, text)


OWN_WORDS = {"sources.math_shepherd": "the rows of the file", "dataset.cpmi_80k": "the labelled data set"}
"""Names of tables in a report on the user's data."""


def _provenance(lake: Lake, settings: Settings, words: Mapping[str, str]) -> pl.DataFrame:
    """Rows, code version, model, run and key of each table behind the report."""
    rows = []
    for key in TABLES:
        partitions = partitions_of(key, settings)
        names = [None] if partitions is None else partitions
        records = [record for partition in names if (record := lake.record(key, partition))]
        count = sum(record.rows for record in records)
        # empty tables have no part in a report on the user's data
        if records and not key.startswith("reports/") and (count or not words):
            rows.append(
                {
                    "relation": words.get(name := key.replace("/", "."), name),
                    "rows": count,
                    "code_version": _one_or_count((record.code_version for record in records), "versions"),
                    "model": _one_or_count((record.model for record in records), "models"),
                    "run_id": _one_or_count((record.run_id[:8] for record in records), "runs"),
                    "fingerprint": " ".join(sorted({record.key[:8] for record in records})),
                }
            )
    return pl.DataFrame(rows)


def _one_or_count(values: Iterable[str], what: str) -> str:
    """The value that all records share, or the number of values: `7 models`."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else f"{len(distinct)} {what}"


STAGES = (figures, report)
