"""Figures of the paper next to ours, and the HTML report."""

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
    REJECTED_TRUTH,
    REPORT,
    STEP_REWARDS,
    TRAJECTORIES,
    TRUTH,
)
from cpmi_dagster.contracts.report_tables import TOPICS
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import LakeError
from cpmi_dagster.files.whole_files import remove_unfinished, write_whole
from cpmi_dagster.installed import DISTRIBUTION
from cpmi_dagster.profiles.partitions import partitions_of
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.reports.artifacts import ARTIFACTS, READ_BY_SHARD, build_artifact, by_artifact, needs_of
from cpmi_dagster.reports.figures import ReportInputs
from cpmi_dagster.resources.commands.summary import list_changes
from cpmi_dagster.resources.dag.presentation import preview
from cpmi_dagster.resources.dag.stage import StageOutput, stage
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.models.language_models import Role

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
    code_version="21",
    inputs=sorted({key for topic in TOPICS for key in needs_of(topic)}),
    depends_on=lambda key, topic, _: key in needs_of(topic),
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


@stage(
    REPORT,
    code_version="25",
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
    left_out = run.lake.read(REJECTED_TRUTH)  # of the stage of TRUTH, and no asset
    is_own = run.settings.has_own_trajectories
    idle = () if run.settings.demand.needs[POLICY_ROLLOUTS] else ("rollouts",)
    html = render_report(
        run.settings.profile,
        datetime.now(UTC).date().isoformat(),
        frames,
        inputs,
        profile_option=option,
        models={role: run.models.identity(role) for role in MODEL_ROLES if run.models.has(role) and role not in idle},
        alignment=review_alignment(run.read(TRAJECTORIES, columns=REVIEWED), rejected, left_out),
        provenance=_provenance(run.lake, run.settings, OWN_WORDS if is_own else {}),
        versions={name: version(name) for name in VERSIONS},
        changes=list_changes(run.lake, run.settings.shard_keys),
        own=own_data(inputs, frames, run.settings.trained_labels, rejected.height, option, run.settings.is_pilot)
        if is_own
        else None,
    )
    remove_unfinished(run.settings.home / REPORT_FILE)
    write_whole(run.settings.home / REPORT_FILE, html)
    _complete_model_cards(run, inputs.table(MODELS), frames.get("reward_models"))
    row = {"path": [str(REPORT_FILE)], "artifacts": [len(ARTIFACTS)], "profile": [run.settings.profile]}
    shown: dict[str, Any] = {"report": dg.MetadataValue.path(str(run.settings.home / REPORT_FILE))}
    if (measured := format_headline(headline_table(frames, run.settings.recipes))).height:
        shown["headline"] = dg.MetadataValue.md(preview(measured, rows=None))
    return StageOutput(pl.DataFrame(row), files=[str(REPORT_FILE)], metadata=shown)


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
        records = lake.records(key, [None] if partitions is None else partitions)
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
                    "key": " ".join(sorted({record.key[:8] for record in records})),
                }
            )
    return pl.DataFrame(rows)


def _one_or_count(values: Iterable[str], what: str) -> str:
    """The value that all records share, or the number of values: `7 models`."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else f"{len(distinct)} {what}"


STAGES = (figures, report)
