"""Plots of the figures in comparison frames (`tables.PaperComparison`): ours only, with their 95 % intervals.

draw_best_of_n(frame)   four panels, one per question set; accuracy against N, a line per reward type
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from cpmi_dagster.reports.figure_style import INK, add_legend, colour_of, label_axes, marker_of, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METRIC_UNITS = {
    "ROC-AUC": "ROC-AUC of step scores",
    "PB": "ProcessBench F1 (%)",
    "PRMB": "PRMScore (%)",
    "Math": "best of 8 (%)",
    "MMLU": "best of 8 (%)",
    "Label AUC": "ROC-AUC of labels",
}
"""Metrics of the ablation on M that are drawn, in order, and their vertical axes."""
BOUND_STYLES = {"Pass@N": ":", "Majority vote": "--", "Pass@1": "-."}


def draw_best_of_n(comparison: pl.DataFrame, rows: tuple[str, ...]) -> "Figure":
    """Accuracy against the number of candidates, a panel per question set.

    Args:
        comparison: `best_of_n` with columns like `MATH500 N=8`, in percent.
        rows: reward types to draw; the bounds are drawn beside them in grey.
    """
    measured = comparison.filter(pl.col("measured").is_not_null()).with_columns(
        pl.col("column").str.extract(r"^(.*) N=\d+$").alias("set"),
        pl.col("column").str.extract(r" N=(\d+)$").cast(pl.Int64).alias("candidates"),
    )
    sets = measured["set"].drop_nulls().unique(maintain_order=True).to_list()
    columns = 2 if len(sets) > 1 else 1
    figure, panels = new_figure(2.9 * -(-len(sets) // columns) + 0.5, -(-len(sets) // columns), columns)
    for panel, name in zip(panels, sets, strict=False):
        _draw_curves(panel, measured.filter(pl.col("set") == name), rows)
        label_axes(panel, "candidates N", "accuracy (%)", name)
    for panel in panels[len(sets) :]:
        panel.set_axis_off()
    add_legend(figure, panels[0])
    return figure


def draw_ablation(comparison: pl.DataFrame, order: tuple[str, ...]) -> "Figure":
    """One panel per metric: the single terms and CPMI by number of hard negatives.

    Args:
        comparison: `negatives_ablation`.
        order: rows from left to right.
    """
    measured = comparison.filter(pl.col("measured").is_not_null(), pl.col("row").is_in(order))
    metrics = [metric for metric in METRIC_UNITS if metric in set(measured["column"])]
    rows = -(-len(metrics) // 3)
    figure, panels = new_figure(2.5 * rows + 0.3, rows, min(3, len(metrics)))
    present = [row for row in order if row in set(measured["row"])]
    for panel, metric in zip(panels, metrics, strict=False):
        figures = measured.filter(pl.col("column") == metric)
        positions = [present.index(row) for row in figures["row"]]
        _error_points(panel, positions, figures, "#009e73", vertical=True)
        panel.set_xticks(range(len(present)), [row.replace("_", "\n").replace(" = ", "=") for row in present])
        panel.set_xlim(-0.5, len(present) - 0.5)
        label_axes(panel, "", METRIC_UNITS[metric], metric)
    for panel in panels[len(metrics) :]:
        panel.set_axis_off()
    return figure


def draw_label_quality(comparison: pl.DataFrame, column: str = "AUC") -> "Figure":
    """ROC-AUC of each label type against the true step labels, best at the top, chance marked.

    Args:
        comparison: `label_quality`.
        column: column to draw, in [0, 1].
    """
    ranked = comparison.filter(pl.col("column") == column, pl.col("measured").is_not_null()).sort("measured")
    figure, (panel,) = new_figure(0.32 * ranked.height + 0.9)
    _error_points(panel, list(range(ranked.height)), ranked, "#0072b2", vertical=False)
    panel.axvline(0.5, color=INK, linewidth=0.9, linestyle=":")
    panel.text(0.5, ranked.height - 0.4, " chance", color=INK, fontsize=8.5, va="bottom")
    panel.set_yticks(range(ranked.height), ranked["row"].to_list())
    panel.set_ylim(-0.6, ranked.height - 0.2)
    label_axes(panel, "ROC-AUC of the label against the true step labels, with 95 % interval")
    return figure


def draw_quality_against_cost(comparison: pl.DataFrame) -> "Figure":
    """ProcessBench F1 against labeling time relative to MC, one point per method with its interval.

    Args:
        comparison: `efficiency`.
    """
    measured = comparison.filter(pl.col("measured").is_not_null())
    time = measured.filter(pl.col("column") == "Time").select("row", pl.col("measured").alias("time"))
    quality = measured.filter(pl.col("column") == "PB").join(time, on="row", maintain_order="left")
    figure, (panel,) = new_figure(3.4)
    for point in quality.iter_rows(named=True):
        low, high = _arms(point)
        panel.errorbar(
            point["time"], point["measured"], yerr=[[low], [high]], fmt=marker_of(point["row"]), markersize=8,
            color=colour_of(point["row"]), ecolor=colour_of(point["row"]), elinewidth=1.2, capsize=3,
        )  # fmt: skip
        panel.annotate(
            point["row"], (point["time"], point["measured"]), (9, 5), textcoords="offset points", color=INK, fontsize=9
        )
    panel.margins(x=0.18, y=0.12)
    panel.set_xlim(left=0)
    label_axes(panel, "labeling time relative to MC", "ProcessBench F1 (%)")
    return figure


def _draw_curves(panel: "Axes", figures: pl.DataFrame, rows: tuple[str, ...]) -> None:
    from matplotlib.ticker import NullLocator

    present = [row for row in rows if row in set(figures["row"])]
    for number, row in enumerate(present):
        curve = figures.filter(pl.col("row") == row).sort("candidates")
        dodge = 1.0 + 0.035 * (number - (len(present) - 1) / 2)
        panel.errorbar(
            (curve["candidates"] * dodge).to_list(), curve["measured"].to_list(), yerr=_error_arms(curve), label=row,
            color=colour_of(row), marker=marker_of(row), markersize=5, linewidth=1.5, elinewidth=0.8, alpha=0.95,
        )  # fmt: skip
    for row, style in BOUND_STYLES.items():
        curve = figures.filter(pl.col("row") == row).sort("candidates")
        panel.plot(curve["candidates"], curve["measured"], style, color=INK, linewidth=1, alpha=0.7, label=row)
    counts = figures["candidates"].unique().sort().to_list()
    panel.set_xscale("log", base=2)
    panel.set_xticks(counts, [str(count) for count in counts])
    panel.xaxis.set_minor_locator(NullLocator())


def _error_points(panel: "Axes", positions: list[int], figures: pl.DataFrame, colour: str, vertical: bool) -> None:
    values, arms = figures["measured"].to_list(), _error_arms(figures)
    points = (positions, values) if vertical else (values, positions)
    across, up = (None, arms) if vertical else (arms, None)
    panel.errorbar(*points, xerr=across, yerr=up, fmt="o", color=colour, markersize=6, elinewidth=1.4, capsize=3)


def _error_arms(figures: pl.DataFrame) -> list[list[float]]:
    """[2, points] lengths below and above each figure, 0 where there is no interval."""
    arms = [_arms(figure) for figure in figures.iter_rows(named=True)]
    return [[low for low, _ in arms], [high for _, high in arms]]


def _arms(figure: Mapping[str, float | None]) -> tuple[float, float]:
    measured, low, high = figure["measured"], figure["low"], figure["high"]
    if measured is None or low is None or high is None:
        return 0.0, 0.0
    return max(0.0, measured - low), max(0.0, high - measured)
