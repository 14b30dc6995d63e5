"""Plots of the measured figures in comparison frames (`tables.PaperComparison`), with their 95 % intervals.

draw_best_of_n(frame, rows)   four panels, one per question set; accuracy against N, a line per reward type
"""

from typing import TYPE_CHECKING, Any

import polars as pl

from cpmi_dagster.reports.figure_style import INK, colour_of, label_axes, label_ends, marker_of, new_figure
from cpmi_dagster.reports.labels import LABEL_AUC

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METRIC_UNITS = {
    "ROC-AUC": "Step AUC",
    "PB": "ProcessBench F1 (%)",
    "PRMB": "PRMScore (%)",
    "Math": "MATH500, best of 8 (%)",
    "MMLU": "MMLU-Stem, best of 8 (%)",
    LABEL_AUC: LABEL_AUC,
}
"""Metrics of the ablation on M that are drawn, in order, and their titles."""
UNAIDED_STYLES = {"Pass@N": ":", "Majority vote": "--", "Pass@1": "-."}
POINTS: dict[str, Any] = {"fmt": "o", "markersize": 6, "elinewidth": 1.4, "capsize": 3}
BANDED = ("MC", "CPMI")
"""Rows whose intervals are drawn; the tables hold the others."""


def draw_best_of_n(comparison: pl.DataFrame, rows: tuple[str, ...]) -> "Figure":
    """Accuracy against the number of candidates, a panel per question set.

    Args:
        comparison: `best_of_n` with columns like `MATH500 N=8`, in percent.
        rows: reward types to draw; thin lines show what needs no reward model.
    """
    measured = comparison.filter(pl.col("measured").is_not_null()).with_columns(
        pl.col("column").str.extract(r"^(.*) N=\d+$").alias("set"),
        pl.col("column").str.extract(r" N=(\d+)$").cast(pl.Int64).alias("candidates"),
    )
    sets = measured["set"].drop_nulls().unique(maintain_order=True).to_list()
    figure, panels = new_figure(2.9, len(sets), columns=2, margin=0.5)
    for panel, name in zip(panels, sets, strict=True):
        _draw_curves(panel, measured.filter(pl.col("set") == name), rows)
        label_axes(panel, "candidates N", "accuracy (%)", name)
    return figure


def draw_ablation(comparison: pl.DataFrame, order: tuple[str, ...]) -> "Figure":
    """One panel per metric with two points or more: the single terms and CPMI by number of hard negatives.

    Args:
        comparison: `negatives_ablation`.
        order: rows from left to right.
    """
    measured = comparison.filter(pl.col("measured").is_not_null(), pl.col("row").is_in(order))
    metrics = [metric for metric in METRIC_UNITS if measured["column"].to_list().count(metric) > 1]
    figure, panels = new_figure(2.5, len(metrics), columns=3, margin=0.3)
    present = [row for row in order if row in set(measured["row"])]
    for panel, metric in zip(panels, metrics, strict=True):
        figures = measured.filter(pl.col("column") == metric)
        positions = [present.index(row) for row in figures["row"]]
        panel.errorbar(positions, figures["measured"], yerr=_error_arms(figures), color="#009e73", **POINTS)
        panel.set_xticks(range(len(present)), [row.replace("_", "\n").replace(" = ", "=") for row in present])
        panel.set_xlim(-0.5, len(present) - 0.5)
        label_axes(panel, "", "", METRIC_UNITS[metric])
    return figure


def draw_label_quality(comparison: pl.DataFrame) -> "Figure":
    """ROC-AUC of each label type against the true step labels, best at the top, chance marked.

    Args:
        comparison: `label_quality`.
    """
    ranked = comparison.filter(pl.col("column") == LABEL_AUC, pl.col("measured").is_not_null()).sort("measured")
    figure, (panel,) = new_figure(0.32 * ranked.height + 0.9)
    panel.errorbar(ranked["measured"], range(ranked.height), xerr=_error_arms(ranked), color="#0072b2", **POINTS)
    panel.axvline(0.5, color=INK, linewidth=0.9, linestyle=":")
    panel.text(0.5, ranked.height - 0.4, " chance", color=INK, fontsize=8.5, va="bottom")
    panel.set_yticks(range(ranked.height), ranked["row"].to_list())
    panel.set_ylim(-0.6, ranked.height - 0.2)
    label_axes(panel, "label AUC with 95 % interval")
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
    for point, low, high in zip(quality.iter_rows(named=True), *_error_arms(quality), strict=True):
        panel.errorbar(
            point["time"], point["measured"], yerr=[[low], [high]], fmt=marker_of(point["row"]), markersize=8,
            color=colour_of(point["row"]), ecolor=colour_of(point["row"]), elinewidth=1.2, capsize=3,
        )  # fmt: skip
        side = -1 if _nearest(point["time"], quality["time"].to_list()) > point["time"] else 1
        panel.annotate(
            point["row"], (point["time"], point["measured"]), (9 * side, 5), textcoords="offset points",
            ha="left" if side > 0 else "right", color=INK, fontsize=9,
        )  # fmt: skip
    panel.margins(x=0.18, y=0.12)
    panel.set_xlim(left=0)
    label_axes(panel, "labeling time relative to MC", "ProcessBench F1 (%)")
    return figure


def _draw_curves(panel: "Axes", figures: pl.DataFrame, rows: tuple[str, ...]) -> None:
    from matplotlib.ticker import NullLocator

    ends = []
    for row in (*rows, *UNAIDED_STYLES):
        curve = figures.filter(pl.col("row") == row).sort("candidates")
        colour, marker, width = (INK, "", 1.0) if row in UNAIDED_STYLES else (colour_of(row), marker_of(row), 1.8)
        if curve.height:
            panel.plot(
                curve["candidates"], curve["measured"], color=colour, marker=marker, markersize=5, linewidth=width,
                linestyle=UNAIDED_STYLES.get(row, "-"),
            )  # fmt: skip
            ends.append((curve["measured"][-1], row, colour))
        if row in BANDED and curve["low"].count():
            panel.fill_between(curve["candidates"], curve["low"], curve["high"], color=colour, alpha=0.12, linewidth=0)
    counts = figures["candidates"].unique().sort().to_list()
    panel.set_xscale("log", base=2)
    panel.set_xticks(counts, [str(count) for count in counts])
    panel.xaxis.set_minor_locator(NullLocator())
    label_ends(panel, ends)


def _nearest(place: float, places: list[float]) -> float:
    """The nearest of the other places; the place itself where there is no other."""
    return min((other for other in places if other != place), key=lambda other: abs(other - place), default=place)


def _error_arms(figures: pl.DataFrame) -> list[list[float]]:
    """[2, points] lengths of the interval below and above each figure, 0 where there is none."""
    measured = pl.col("measured")
    arms = figures.select(below=measured - pl.col("low"), above=pl.col("high") - measured)
    return [arm.fill_null(0).clip(0).to_list() for arm in arms]
