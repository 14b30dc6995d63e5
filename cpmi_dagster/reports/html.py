"""The HTML report: one self-contained file with every artifact next to the paper's figures.

html = render_report(ReportContext(profile="miniature", date="2026-01-31", comparisons=frames, inputs=inputs))
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from cpmi_dagster.alignment.review import AlignmentReview
from cpmi_dagster.contracts.contexts import CONDITIONINGS, PAPERS
from cpmi_dagster.reports.artifacts import ARTIFACTS, Artifact
from cpmi_dagster.reports.differences import DIFFERENCE_SCHEMA
from cpmi_dagster.reports.figures import Plot, report_plots
from cpmi_dagster.reports.headline import HEADLINE_COLUMNS, headline_cell, headline_table
from cpmi_dagster.reports.html_tables import TableRow, comparison_table
from cpmi_dagster.reports.inputs import JUDGES, ReportInputs
from cpmi_dagster.reports.labels import REWARDS
from cpmi_dagster.reports.paper import COMPARISON_SCHEMA, shipped_text
from cpmi_dagster.reports.plain_tables import PlainTable, plain_table
from cpmi_dagster.reports.question_sets import other_rule_rows
from cpmi_dagster.reports.reading import headline_reading


@dataclass(frozen=True, eq=False)
class ReportContext:
    """Everything the report shows.

    Attributes:
        profile: name of the profile that was measured.
        date: day of the report, as shown.
        comparisons: comparison frames (`tables.PaperComparison`) by artifact.
        inputs: frames that plots are drawn from.
        models: identity (id + revision or weights hash) by role: labeler, policy, prover, backbone.
        differences: `differences_to_baseline`; without it the text compares intervals.
        alignment: how the questions were matched, and which rows were rejected.
        provenance: one row per table read, any columns: relation, rows, fingerprint, run_id, code_version.
        versions: version by library.
        profile_option: option of the commands in the text that selects the profile, e.g. ` -p mine.yaml`.
    """

    profile: str
    date: str
    comparisons: Mapping[str, pl.DataFrame]
    inputs: ReportInputs = field(default_factory=ReportInputs)
    models: Mapping[str, str] = field(default_factory=dict)
    differences: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=DIFFERENCE_SCHEMA))
    alignment: AlignmentReview | None = None
    provenance: pl.DataFrame = field(default_factory=pl.DataFrame)
    versions: Mapping[str, str] = field(default_factory=dict)
    profile_option: str = ""


def render_report(context: ReportContext) -> str:
    """Render the report.

    Args:
        context: what to show; artifacts that are absent from `comparisons` are shown as not measured.

    Returns:
        A complete HTML document.
    """
    headline = headline_table(context.comparisons, context.inputs.recipes)
    plots = report_plots(context.inputs, context.comparisons)
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(shipped_text("report.html.j2"))
    return template.render(
        css=Markup(shipped_text("report.css")),
        profile=context.profile,
        date=context.date,
        models=context.models,
        headline=_headline_table(headline),
        reading=headline_reading(
            headline, context.differences, _distribution_of_models(context), _comparison(context, "training_seeds")
        ),
        sections=[_section(artifact, context, plots) for artifact in ARTIFACTS.values()],
        alignment=_alignment_tables(context.alignment),
        conditionings=_conditionings(),
        provenance=plain_table(context.provenance),
        versions=context.versions,
        option=context.profile_option,
        traced=context.inputs.table(REWARDS)["trajectory_id"].min(),
    )


def _comparison(context: ReportContext, name: str) -> pl.DataFrame:
    return context.comparisons.get(name, pl.DataFrame(schema=COMPARISON_SCHEMA))


def _distribution_of_models(context: ReportContext) -> pl.DataFrame:
    judges = context.inputs.table(JUDGES)["judge"].unique()
    return _comparison(context, "distribution").filter(~pl.col("row").is_in(judges.implode()))


def _section(artifact: Artifact, context: ReportContext, plots: list[Plot]) -> dict[str, Any]:
    """One artifact as the template shows it; `untrained` are rows that the profile trains no reward model for."""
    comparison = _comparison(context, artifact.name)
    folded = other_rule_rows(context.inputs.recipes) if artifact.name == "best_of_n" else ()
    return {
        "paper": artifact.paper,
        "untrained": artifact.untrained(context.inputs),
        "measured": comparison["measured"].count() > 0,
        "table": comparison_table(artifact.paper, comparison, folded),
        "plots": [plot for plot in plots if plot.artifact == artifact.name],
    }


def _headline_table(headline: pl.DataFrame) -> dict[str, list]:
    rows = [
        TableRow(row["reward"], tuple(headline_cell(row, column) for column in HEADLINE_COLUMNS))
        for row in headline.iter_rows(named=True)
    ]
    return {"columns": ["Reward", *(column.title for column in HEADLINE_COLUMNS)], "rows": rows}


def _alignment_tables(review: AlignmentReview | None) -> dict[str, PlainTable]:
    """The tables of a review that have rows, by their titles."""
    tables = review.tables() if review else {}
    return {title: plain_table(frame) for title, frame in tables.items() if frame.height}


def _conditionings() -> str:
    """What each conditioning compares, as one sentence."""
    parts = [
        f"{entry.words}{' (CPMI)' if name == PAPERS else ''}: {entry.compares}" for name, entry in CONDITIONINGS.items()
    ]
    sentence = "; ".join(parts)
    return sentence[0].upper() + sentence[1:]
