"""The HTML report: one self-contained file with every artifact next to the paper's figures.

html = render_report("miniature", "2026-01-31", comparisons, inputs)
"""

from collections.abc import Collection, Mapping
from typing import Any

import polars as pl
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from cpmi_dagster.alignment.review import AlignmentReview
from cpmi_dagster.contracts.contexts import CONDITIONINGS, PAPERS
from cpmi_dagster.contracts.keys import STEP_REWARDS
from cpmi_dagster.reports.artifacts import ARTIFACTS, Artifact
from cpmi_dagster.reports.findings import findings
from cpmi_dagster.reports.headline import headline_cell, headline_table, shown_columns
from cpmi_dagster.reports.html_tables import PlainTable, TableRow, comparison_table, plain_table
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.paper import COMPARISON_SCHEMA, FIXED, shipped_text
from cpmi_dagster.reports.plots import Plot, report_plots
from cpmi_dagster.reports.question_sets import other_rule_rows

HEADLINE = "headline"
"""Where the picture of the first screen stands."""
COMPARISONS_OF_MODELS = ("differences", "training_seeds")
OPEN = ("label_evidence", "label_quality")
"""Artifacts that are not folded."""
OPEN_WITHOUT_TRUTH = ("reward_distribution",)
"""Those where nobody knows which steps are right: what there is to look at."""


def render_report(
    profile: str,
    date: str,
    comparisons: Mapping[str, pl.DataFrame],
    inputs: ReportInputs = ReportInputs(),
    *,
    models: Mapping[str, str] = {},
    alignment: AlignmentReview | None = None,
    provenance: pl.DataFrame = pl.DataFrame(),
    versions: Mapping[str, str] = {},
    profile_option: str = "",
) -> str:
    """Render the report as a complete HTML document.

    Args:
        comparisons: comparison frames (`tables.PaperComparison`) by artifact; absent ones are shown as not measured.
        inputs: frames that plots are drawn from.
        models: identity (id + revision or weights hash) by role: labeler, policy, prover, backbone.
        alignment: how the questions were matched, and which rows were rejected.
        provenance: one row per table read, any columns: relation, rows, fingerprint, run_id, code_version.
        profile_option: option of the commands in the text that selects the profile, e.g. ` -p mine.yaml`.
    """
    headline = headline_table(comparisons, inputs.recipes)
    plots = report_plots(inputs, comparisons)
    frames = {name: comparisons.get(name, pl.DataFrame(schema=COMPARISON_SCHEMA)) for name in ARTIFACTS}
    has_truth = bool(frames["label_quality"]["measured"].count())
    opened = OPEN if has_truth else OPEN_WITHOUT_TRUTH
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(shipped_text("report.html.j2"))
    return template.render(
        css=Markup(shipped_text("report.css")),
        profile=profile,
        date=date,
        models=models,
        headline=_headline_table(headline),
        findings=findings(comparisons),
        pictures=[plot for plot in plots if plot.artifact == HEADLINE],
        groups=[
            (title, text, [_section(ARTIFACTS[name], frames[name], inputs, plots, opened) for name in names])
            for title, text, names in _groups(has_truth)
        ],
        alignment=_alignment_tables(alignment),
        conditionings=_conditionings(),
        provenance=plain_table(provenance),
        versions=versions,
        option=profile_option,
        traced=inputs.table(STEP_REWARDS)["trajectory_id"].min(),
        labelled=inputs.table(STEP_REWARDS)["trajectory_id"].n_unique(),
        has_models=bool(inputs.recipes),
    )


def _groups(has_truth: bool) -> list[tuple[str, str, list[str]]]:
    """Title, explanation and artifacts of the parts of the report."""
    about_labels = (
        "Measured on steps whose truth is known, before any reward model is trained."
        if has_truth
        else "How the labels are distributed. How good they are cannot be measured, since nothing says which steps are "
        "truly right; the setting sources.step_truth names what does."
    )
    papers = [name for name, artifact in ARTIFACTS.items() if artifact.paper.label]
    labels = [name for name in ARTIFACTS if name not in papers and name not in COMPARISONS_OF_MODELS]
    return [
        ("The labels themselves", about_labels, labels),
        ("The paper's tables and figures", "Each next to our figures. Click one to open it.", papers),
        ("Which differences count", "Between reward models of this profile.", list(COMPARISONS_OF_MODELS)),
    ]


def _section(
    artifact: Artifact, comparison: pl.DataFrame, inputs: ReportInputs, plots: list[Plot], opened: Collection[str]
) -> dict[str, Any]:
    """One artifact as the template shows it; `untrained` are rows that the profile trains no reward model for."""
    is_best_of_n = artifact.name == "best_of_n"
    folded = (
        other_rule_rows(inputs.recipes)
        if is_best_of_n
        else comparison.filter(pl.col("row").str.ends_with(FIXED))["row"].unique()
    )
    return {
        "paper": artifact.paper,
        "untrained": artifact.untrained(inputs),
        "measured": comparison["measured"].count() > 0,
        "open": artifact.name in opened,
        "table": comparison_table(artifact.paper, comparison, folded),
        "folded": "Other ways to weigh the steps of a candidate" if is_best_of_n else "At the fixed threshold 0.5",
        "plots": [plot for plot in plots if plot.artifact == artifact.name],
    }


def _headline_table(headline: pl.DataFrame) -> dict[str, list]:
    columns = shown_columns(headline)
    rows = [
        TableRow(row["reward"], tuple(headline_cell(row, column) for column in columns))
        for row in headline.iter_rows(named=True)
    ]
    return {"columns": ["Reward", *(column.title for column in columns)], "rows": rows}


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
