"""The report's plots: which there are, what each shows, and which section it is in.

    for plot in report_plots(inputs, comparisons):
        Path(plot.name + ".png").write_bytes(plot.png)

A plot is only drawn where it has data.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from cpmi_dagster.benchmarks.step_distribution import CHANCE_AUC
from cpmi_dagster.contracts.keys import COSTS, MODELS
from cpmi_dagster.reports.figure_style import (
    INK,
    colour_of,
    label_axes,
    label_ends,
    marker_of,
    new_figure,
    to_png,
    to_svg,
)
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.labels import LABEL_AUC, WITHOUT_LAST, reward_histogram_steps
from cpmi_dagster.reports.paper import COMPARISON_SCHEMA, OFFICIAL
from cpmi_dagster.reports.process_level import score_histogram_steps
from cpmi_dagster.reports.reward_rows import CHANCE_ROW, CONTROL_ROWS, FREE_ROWS, NEGATIVES_ROWS, RecipeRow, main_rows
from cpmi_dagster.reports.table_plots import (
    draw_labeling_costs,
    draw_reward_histograms,
    draw_score_histograms,
    draw_training_curves,
    shared_costs,
)

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


@dataclass(frozen=True, eq=False)
class Plot:
    """A drawn plot.

    Attributes:
        name: unique in the report.
        artifact: section it is in.
        caption: what it shows, one or two sentences.
    """

    name: str
    artifact: str
    caption: str
    figure: "Figure"

    @property
    def svg(self) -> str:
        """An `<svg>` element for an HTML page."""
        return to_svg(self.figure, self.name)

    @property
    def png(self) -> bytes:
        """PNG on white."""
        return to_png(self.figure)


def report_plots(inputs: ReportInputs, comparisons: Mapping[str, pl.DataFrame]) -> list[Plot]:
    """Every plot that has data, from the inputs and from `tables.PaperComparison` rows by artifact."""
    return [*_plots_of_comparisons(comparisons, main_rows(inputs.recipes)), *_plots_of_tables(inputs)]


def _plots_of_comparisons(comparisons: Mapping[str, pl.DataFrame], rows: tuple[RecipeRow, ...]) -> Iterator[Plot]:
    drawings: dict[str, tuple[Callable[[pl.DataFrame], Figure], str]] = {
        "label_quality": (
            _draw_label_quality,
            "How well each label type ranks true right steps above wrong ones, best at the top; filled: all steps, "
            "hollow: without last steps. Controls are grey; a label is worth its cost if it is right of the best one.",
        ),
        "best_of_n": (
            partial(_draw_best_of_n, rows=[row.row for row in rows]),
            "Accuracy of the candidate with the highest mean step reward against the number of candidates; bands are "
            "the 95 % intervals of MC and CPMI; the table has the others. Thin lines need no reward model: "
            "Pass@1 is a blind pick, Pass@N the best that any pick could be.",
        ),
        "negatives_ablation": (
            _draw_ablation,
            "The two terms of CPMI alone, and both with M hard negatives, in every measure that at least two of them "
            "have, with 95 % intervals.",
        ),
        "efficiency": (
            _draw_quality_against_cost,
            "ProcessBench F1 of the reward model against the labeling time of its labels, with 95 % intervals of F1.",
        ),
    }
    if (drawn := _draw_first_picture(comparisons)) is not None:
        caption = (
            "Quality of labels, and of the reward models trained on them if there are any, against the generated "
            "tokens that the labels cost. Dotted: chance, and the best label that costs nothing."
        )
        yield Plot("plot-headline", "headline", caption, drawn)
    for artifact, (draw, caption) in drawings.items():
        measured = comparisons[artifact].drop_nulls("measured") if artifact in comparisons else pl.DataFrame()
        if _drawable(artifact, measured):
            yield Plot(f"plot-{artifact.replace('_', '-')}", artifact, caption, draw(measured))


def _drawable(artifact: str, measured: pl.DataFrame) -> bool:
    """Whether there is a point to draw; quality against cost needs both coordinates, an ablation two points."""
    if measured.is_empty():
        return False
    if artifact == "negatives_ablation":
        return measured["column"].is_duplicated().any()
    return artifact != "efficiency" or {"PB", "Time"} <= set(measured["column"])


def _plots_of_tables(inputs: ReportInputs) -> Iterator[Plot]:
    costs = inputs.table(COSTS).filter(pl.col("trajectories") > 0)
    if costs.height:
        caption = "What labeling one trajectory costs, by method: time, tokens sampled, and tokens read or sampled."
        shared = "".join(
            f" {first} shares one pass, and so its cost, with {rest}." for first, rest in shared_costs(costs)
        )
        yield Plot("plot-costs", "efficiency", caption + shared, draw_labeling_costs(costs))
    rewards = reward_histogram_steps(inputs)
    if rewards:
        caption = (
            "Raw rewards as densities, of right and of wrong steps where the truth is known; the tails are cut at 1 %."
        )
        yield Plot("plot-rewards", "reward_distribution", caption, draw_reward_histograms(rewards))
    histograms = score_histogram_steps(inputs)
    if histograms:
        caption = "Scores that the reward models give to right and to wrong steps of ProcessBench-Math, as densities."
        yield Plot("plot-scores", "distribution_figure", caption, draw_score_histograms(histograms))
    models = inputs.table(MODELS)
    if models.height and models["training_curve"].list.len().sum():
        caption = (
            "Loss by epoch: validation solid; training dotted, where few models share a panel. Losses of different "
            "objectives, or against different labels, cannot be compared."
        )
        yield Plot("plot-training", "objectives", caption, draw_training_curves(models))


def _draw_first_picture(comparisons: Mapping[str, pl.DataFrame]) -> "Figure | None":
    """Label AUC without last steps and ProcessBench F1 against generated tokens; None where neither has two points."""
    nothing = pl.DataFrame(schema=COMPARISON_SCHEMA)
    costs = comparisons.get("efficiency", nothing).filter(column="Token").drop_nulls("measured")
    tokens = costs.select("row", tokens="measured")
    quality, models = (
        comparisons.get(name, nothing).drop_nulls("measured") for name in ("label_quality", "processbench")
    )
    labels = quality.filter(pl.col("column") == WITHOUT_LAST)
    official = models.filter(pl.col("column") == "Average", pl.col("row").str.ends_with(OFFICIAL))
    official = official.with_columns(pl.col("row").str.strip_suffix(OFFICIAL))
    free = labels.filter(pl.col("row").is_in(FREE_ROWS))["measured"].to_list()
    lines: list[dict[str, float]] = [{"chance": CHANCE_AUC}, {}]
    if free:
        lines[0]["best free label"] = max(free)
    lines[1] |= dict(official.filter(pl.col("row") == CHANCE_ROW).select(pl.lit("chance"), "measured").iter_rows())
    panels_of = [
        (points, marks, title)
        for points, marks, title in zip(
            (
                labels.join(tokens, on="row", maintain_order="left"),
                official.join(tokens, on="row", maintain_order="left"),
            ),
            lines,
            ("Label AUC without last steps", "ProcessBench F1 (%), one threshold"),
            strict=True,
        )
        if points.height > 1
    ]
    if not panels_of:
        return None
    figure, panels = new_figure(2.7, len(panels_of), columns=2)
    for panel, (points, marks, title) in zip(panels, panels_of, strict=True):
        _draw_against_cost(panel, points, marks)
        label_axes(panel, "generated tokens, relative to MC", "", title)
    return figure


def _draw_against_cost(panel: "Axes", points: pl.DataFrame, marks: Mapping[str, float]) -> None:
    """Points with intervals and their names at the right of the panel, and horizontal lines with theirs at the left."""
    ends = []
    for point, low, high in zip(points.iter_rows(named=True), *_error_arms(points), strict=True):
        colour = colour_of(point["row"])
        panel.errorbar(
            point["tokens"], point["measured"], yerr=[[low], [high]], fmt=marker_of(point["row"]), markersize=7,
            color=colour, ecolor=colour, elinewidth=1.2, capsize=3,
        )  # fmt: skip
        ends.append((point["measured"], point["row"], colour))
    for name, height in marks.items():
        panel.axhline(height, color=INK, linewidth=0.9, linestyle=":")
        ends.append((height, name, INK))
    panel.margins(x=0.08, y=0.12)
    panel.set_xlim(left=-0.05)
    label_ends(panel, ends)


def _draw_best_of_n(measured: pl.DataFrame, rows: Sequence[str]) -> "Figure":
    """Accuracy against the number of candidates, a panel per question set; thin lines need no reward model."""
    measured = measured.with_columns(
        pl.col("column").str.extract(r"^(.*) N=\d+$").alias("set"),
        pl.col("column").str.extract(r" N=(\d+)$").cast(pl.Int64).alias("candidates"),
    )
    sets = measured["set"].drop_nulls().unique(maintain_order=True).to_list()
    figure, panels = new_figure(2.9, len(sets), columns=2, margin=0.5)
    for panel, name in zip(panels, sets, strict=True):
        _draw_curves(panel, measured.filter(pl.col("set") == name), rows)
        label_axes(panel, "candidates N", "accuracy (%)", name)
    return figure


def _draw_ablation(measured: pl.DataFrame) -> "Figure":
    """One panel per metric with two points or more: the single terms and CPMI by number of hard negatives."""
    order = [row.row for row in NEGATIVES_ROWS]
    measured = measured.filter(pl.col("row").is_in(order))
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


def _draw_label_quality(measured: pl.DataFrame) -> "Figure":
    """ROC-AUC of each label type against the true step labels, best at the top; chance and the best control marked."""
    ranked = measured.filter(column=LABEL_AUC).sort("measured")
    figure, (panel,) = new_figure(0.27 * ranked.height + 0.9)
    places = {row: place for place, row in enumerate(ranked["row"])}
    for is_control, colour in ((False, "#0072b2"), (True, "#8c8c8c")):
        own = ranked.filter(pl.col("row").is_in(CONTROL_ROWS) == is_control)
        panel.errorbar(
            own["measured"], own["row"].replace_strict(places), xerr=_error_arms(own), color=colour, **POINTS
        )
    others = measured.filter(pl.col("column") == WITHOUT_LAST, pl.col("row").is_in(list(places)))
    panel.plot(others["measured"], others["row"].replace_strict(places), "o", markersize=5, mfc="none", color=INK)
    free = ranked.filter(pl.col("row").is_in(FREE_ROWS))["measured"].to_list()
    for place, words in ((CHANCE_AUC, "chance"), *((best, "best free control") for best in free[-1:])):
        panel.axvline(place, color=INK, linewidth=0.9, linestyle=":")
        panel.text(place, ranked.height - 0.4, f" {words}", color=INK, fontsize=8.5, va="bottom")
    panel.set_yticks(range(ranked.height), ranked["row"].to_list())
    panel.set_ylim(-0.6, ranked.height - 0.2)
    label_axes(panel, "label AUC with 95 % interval")
    return figure


def _draw_quality_against_cost(measured: pl.DataFrame) -> "Figure":
    """ProcessBench F1 against labeling time relative to MC, one point per method with its interval."""
    time = measured.filter(column="Time").select("row", time="measured")
    quality = measured.filter(column="PB").join(time, on="row", maintain_order="left")
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


def _draw_curves(panel: "Axes", figures: pl.DataFrame, rows: Sequence[str]) -> None:
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
