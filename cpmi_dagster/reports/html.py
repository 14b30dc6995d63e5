"""The HTML report: one self-contained file with every artifact next to the paper's figures.

    html = render_report("miniature", "2026-01-31", comparisons, inputs)

    row "CPMI", column "GSM8K"  ->  TableCell(ours="41.2", interval="[36.0, 46.1; n=96]", paper="49.4")
    column "share", 0.0653      ->  PlainCell("6.5 %", number=True)

A comparison with more than `WIDEST` columns and fewer rows is transposed, so that it fits the page.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

import polars as pl
from jinja2 import Environment, FunctionLoader, StrictUndefined

from cpmi_dagster.benchmarks.resampling import FEWEST_UNITS, is_left_out
from cpmi_dagster.contracts.contexts import CONDITIONINGS, PAPERS
from cpmi_dagster.contracts.keys import PROBLEMS, STEP_REWARDS, TRAJECTORIES, TRUTH
from cpmi_dagster.contracts.report_tables import OF_LABELS
from cpmi_dagster.installed import program
from cpmi_dagster.reports import label_trust
from cpmi_dagster.reports.artifacts import ARTIFACTS
from cpmi_dagster.reports.figures import ReportInputs, format_figure, format_interval
from cpmi_dagster.reports.labels import LABEL_AUC
from cpmi_dagster.reports.own_data import OWN_NAME, OwnData
from cpmi_dagster.reports.paper import (
    ADJUSTED_P_VALUE,
    COMPARISON_SCHEMA,
    DIFFERENCE,
    DIFFERENCE_COLUMN,
    P_VALUE,
    SIGNIFICANT,
    PaperTable,
    shipped_text,
    without_protocol,
)
from cpmi_dagster.reports.plots import draw_label_histograms, report_plots
from cpmi_dagster.reports.style import to_svg
from cpmi_dagster.reports.summary import (
    NOT_MEASURED,
    TELLS,
    UNMEASURED,
    findings,
    format_headline,
    headline_table,
)
from cpmi_dagster.rewards.registry import REWARD_TYPES, reward_label

OF_MODELS = ("reward_models", "differences")
"""Artifacts of the profile's reward models, which the paper lacks."""
TITLES = ("The labels themselves", "The paper's tables and figures", "The reward models")
EXPLORER = "http://127.0.0.1:3100"
"""The label explorer's address, unless `cpmi explore` is given a port."""
WIDEST = 8
LONGEST = 90
"""Characters of a text in a plain table."""
HEADINGS = {"AUC": "Step AUC", "ROC-AUC": "Step AUC", "RelEff AUC": "RelEff Step AUC"}
"""The paper's AUC is the reward model's, on steps; the report names it so, as labels have an AUC too."""


class TableCell(NamedTuple):
    """The texts of one cell of figures; empty strings if there is nothing.

    `within_noise` marks a difference whose interval contains 0, and its p-value.
    """

    ours: str = ""
    interval: str = ""
    paper: str = ""
    within_noise: bool = False


class Table(NamedTuple):
    """A table of figures: headings, and rows of a label and its cells.

    `caption` says the sample size; without rows, that every figure would be of too few questions.
    """

    columns: list[str]
    rows: list[tuple[str, list[TableCell]]]
    caption: str = ""


class PlainCell(NamedTuple):
    """A cell's text, the whole text if it is cut, whether it is aligned right, and the link that it opens."""

    text: str
    whole: str = ""
    number: bool = False
    link: str = ""


def render_report(
    profile: str,
    date: str,
    comparisons: Mapping[str, pl.DataFrame],
    inputs: ReportInputs = ReportInputs(),
    *,
    models: Mapping[str, str] = {},
    alignment: Mapping[str, pl.DataFrame] | None = None,
    provenance: pl.DataFrame = pl.DataFrame(),
    versions: Mapping[str, str] = {},
    profile_option: str = "",
    changes: Mapping[str, pl.DataFrame] = {},
    own: OwnData | None = None,
) -> str:
    """Render the report as a complete HTML document.

    Args:
        comparisons: comparison frames (`tables.PaperComparison`) by artifact; absent ones are shown as not measured.
        inputs: frames that plots are drawn from.
        models: identity (id + revision or weights hash) by role: labeler, policy, prover, backbone.
        alignment: how the questions were matched, and which rows were rejected.
        provenance: one row per table read, any columns: relation, rows, key, run_id, code_version.
        profile_option: option of the commands in the text that selects the profile, e.g. ` -p mine.yaml`.
        changes: tables of what changed since the previous run, by title.
        own: of a profile of own data, whose report opens with it and has no table of the paper that is not measured.
    """
    frames = {name: comparisons.get(name, pl.DataFrame(schema=COMPARISON_SCHEMA)) for name in ARTIFACTS}
    has_truth = bool(frames["label_quality"].filter(column=LABEL_AUC)["measured"].count())
    papers = [name for name in ARTIFACTS if name not in (*OF_LABELS, *OF_MODELS)]
    if own:
        papers = papers if inputs.table(PROBLEMS).height else []
    groups = [
        (number, title, [section for name in names if (section := _section(name, frames[name]))["measured"] or not own])
        for number, (title, names) in enumerate(zip(TITLES, (OF_LABELS, papers, OF_MODELS), strict=True), start=1)
    ]
    shown_findings = [each for each in findings(comparisons, profile_option) if not own or each.verdict != NOT_MEASURED]
    conditionings = "; ".join(
        f"{entry.words}{' (CPMI)' if name == PAPERS else ''}: {entry.compares}" for name, entry in CONDITIONINGS.items()
    )
    plots, labels = report_plots(inputs, comparisons), inputs.table(STEP_REWARDS)
    if own and (histograms := draw_label_histograms(inputs)):
        plots["own_labels"] = histograms
    labelled = inputs.table(TRAJECTORIES).join(labels, on="trajectory_id", how="semi").sort("trajectory_id")
    environment = Environment(autoescape=True, undefined=StrictUndefined, loader=FunctionLoader(shipped_text))
    return environment.get_template("report.html.j2").render(
        css=shipped_text("report.css"),
        profile=profile,
        date=date,
        models=models,
        headline=_headline(format_headline(headline_table(comparisons, inputs.recipes))),
        findings=shown_findings,
        tells=TELLS,
        plots={name: to_svg(figure, f"plot-{name}") for name, figure in plots.items()},
        groups=[group for group in groups if group[-1]],
        has_truth=has_truth,
        has_judged=inputs.table(TRUTH).height > 0,
        opened=OF_LABELS[0] if has_truth else OF_LABELS[1],
        suspicious=step_table(label_trust.suspicious_steps(inputs)),
        judged_wrong=step_table(label_trust.judged_wrong(inputs)),
        alignment={title: plain_table(frame) for title, frame in (alignment or {}).items() if frame.height},
        conditionings=conditionings[0].upper() + conditionings[1:],
        changes={title: plain_table(frame) for title, frame in changes.items()},
        provenance=plain_table(provenance),
        versions=versions,
        option=profile_option,
        program=program(),
        own=own,
        costs=plain_table(own.costs) if own else None,
        negatives=plain_table(own.negatives) if own else None,
        traced=labelled.select(OWN_NAME.first()).item() if labelled.height else None,
        labelled=labels["trajectory_id"].n_unique(),
        has_models=bool(inputs.recipes),
        has_benchmarks=inputs.table(PROBLEMS).height > 0,
    )


def _headline(texts: pl.DataFrame) -> Table:
    """A headline of `format_headline` as a table; intervals stand in cells' second lines."""
    rows = [
        (row, [TableCell() if text == UNMEASURED else TableCell(*text.partition(" ")[::2]) for text in cells])
        for row, *cells in texts.iter_rows()
    ]
    return Table(texts.columns[1:], rows)


def _section(name: str, comparison: pl.DataFrame) -> dict[str, Any]:
    """An artifact as the template shows it; `label_trust` has a table for each of its groupings."""
    paper = ARTIFACTS[name].paper
    tables = {"": comparison_table(paper, comparison)}
    if name == "label_trust":
        row = pl.col("row")
        tables = {
            title: comparison_table(
                paper.model_copy(update={"counted": label_trust.COUNTED[grouping]}),
                comparison.filter(row.str.starts_with(f"{grouping}: ")).with_columns(
                    row.str.strip_prefix(f"{grouping}: ")
                ),
            )
            for grouping, title in label_trust.GROUPINGS.items()
        }
    return {
        "name": name,
        "paper": paper,
        "printed": comparison["paper"].count(),
        "absent": comparison.drop_nulls("paper")["measured"].null_count(),
        "measured": comparison["measured"].count() > 0,
        "tables": [(title, table) for title, table in tables.items() if table.rows or table.caption],
    }


def comparison_table(table: PaperTable, comparison: pl.DataFrame) -> Table:
    """A comparison as a table, arranged as the paper prints it.

    Columns that have no figure of ours are left out, and rows that are then empty; if there is no figure of ours at
    all, the paper's columns are shown.

    Args:
        table: the paper's table, for column order and decimals.
        comparison: rows of its artifact; the result is without rows if it is empty, or if all is of too few.
    """
    ours = comparison.filter(pl.col("measured").is_not_null() | (pl.col("units") < FEWEST_UNITS))
    present = (ours if ours.height else comparison)["column"].unique(maintain_order=True).to_list()
    # if the paper has no such table, our columns come first
    printed = list(table.columns) if table.label else [*table.own_columns, *table.columns]
    columns = order_columns(printed, present)
    cells = {
        (figure["row"], figure["column"]): _cell(figure, table)
        for figure in comparison.filter(pl.col("column").is_in(columns)).iter_rows(named=True)
    }
    with_figure = {row for (row, _), cell in cells.items() if cell != TableCell()}
    rows = [row for row in comparison["row"].unique(maintain_order=True) if row in with_figure]
    lines = [(row, [cells.get((row, column), TableCell()) for column in columns]) for row in rows]
    if lines and not any(cell.ours or cell.paper for _, cells in lines for cell in cells):
        return Table([], [], f"Too few: figures are shown from {FEWEST_UNITS} questions on, and each is of fewer.")
    headings = [HEADINGS.get(column, column) for column in columns]
    if len(columns) > max(WIDEST, len(rows)):
        turned = zip(*(line for _, line in lines), strict=True)
        headings, lines = rows, [(heading, list(line)) for heading, line in zip(headings, turned, strict=True)]
    sizes = comparison["n"].drop_nulls()
    counts = [f"{size:,}" for size in dict.fromkeys((sizes.min(), sizes.max()))] if len(sizes) else []
    is_said = counts and table.counted
    return Table(headings, lines, f"Ours: over {' to '.join(counts)} {table.counted}." if is_said else "")


def order_columns(printed: Sequence[str], present: Sequence[str]) -> list[str]:
    """The paper's columns in its order, then ours; columns of other protocols follow their namesake."""
    extra = [column for column in present if column not in printed]
    unprinted = [column for column in extra if without_protocol(column) not in printed]
    ordered = []
    for column in (*(column for column in printed if column in present), *unprinted):
        ordered.append(column)
        ordered += [other for other in extra if other not in unprinted and without_protocol(other) == column]
    return ordered


def _cell(figure: Mapping[str, Any], table: PaperTable) -> TableCell:
    row, column, measured, low, high = (figure[name] for name in ("row", "column", "measured", "low", "high"))
    printed = decimals = table.decimals(column)
    if printed == 0 and measured is not None and abs(measured) < 10 and not float(measured).is_integer():
        decimals = 1  # in columns that the paper prints as whole numbers, small measured figures keep one digit
    if column.endswith((P_VALUE, ADJUSTED_P_VALUE)):
        is_noise = measured is not None and measured > SIGNIFICANT
    else:
        is_noise = low is not None and low <= 0 <= high
    is_difference = DIFFERENCE in row + column or column.startswith(DIFFERENCE_COLUMN)
    return TableCell(
        ours="" if is_left_out(figure["units"], figure["unit"]) else format_figure(measured, decimals),
        interval=format_interval(figure, decimals),
        paper=format_figure(figure["paper"], printed),
        within_noise=is_difference and is_noise,
    )


def step_table(steps: pl.DataFrame) -> tuple[list[str], list[list[PlainCell]]]:
    """Steps of `label_trust.suspicious_steps` or `judged_wrong` as text, each with a link into the explorer."""
    types = [name for name in steps.columns if name in REWARD_TYPES]
    where = pl.format("{}\u00a0step\u00a0{}", OWN_NAME, "step_index").alias("where")
    headings, rows = plain_table(
        steps.select(where, "question", "step", *(pl.col(name).alias(reward_label(name)) for name in types))
    )
    for cells, (trajectory, step) in zip(rows, steps.select("trajectory_id", "step_index").iter_rows(), strict=True):
        options = urlencode([*(("types", name) for name in types), ("step", step)])
        cells[0] = cells[0]._replace(link=f"{EXPLORER}/trajectory/{trajectory}?{options}")
    return headings, rows


def plain_table(frame: pl.DataFrame) -> tuple[list[str], list[list[PlainCell]]]:
    """Headings and rows of a frame as text: shares in percent, other fractions by `format_figure`, long texts cut."""

    def cell(value: object, column: str) -> PlainCell:
        if value is None or value == "":
            return PlainCell("–")
        if isinstance(value, float):
            return PlainCell(f"{100 * value:.1f} %" if column == "share" else format_figure(value), number=True)
        if isinstance(value, int):
            return PlainCell(f"{value:,}", number=True)
        text = str(value)
        return PlainCell(text) if len(text) <= LONGEST else PlainCell(f"{text[:LONGEST].rstrip()} …", text)

    rows = [
        [cell(value, column) for value, column in zip(row, frame.columns, strict=True)] for row in frame.iter_rows()
    ]
    return [column.replace("_", " ") for column in frame.columns], rows
