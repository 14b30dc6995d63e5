"""The report's plots, by the section they are in; a plot is only drawn where it has data.

    report_plots(inputs, comparisons)  ->  {"headline_labels": Figure, "label_quality": Figure, …}

Training curves and calibration are also shown beside the assets of models.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.step_distribution import CHANCE_AUC
from cpmi_dagster.contracts.keys import MODELS
from cpmi_dagster.reports.figure_style import (
    INK,
    NAME_GAP,
    OTHER_STYLE,
    REWARD_STYLES,
    RIGHT_STEPS,
    WIDTH_INCHES,
    WRONG_STEPS,
    add_legend,
    colour_of,
    label_axes,
    label_ends,
    marker_of,
    new_figure,
    spread,
)
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.label_and_model import CORRELATION, F1, INNER_AUC
from cpmi_dagster.reports.labels import LABEL_AUC, WITHOUT_LAST, reward_histogram_steps
from cpmi_dagster.reports.paper import COMPARISON_SCHEMA, OFFICIAL, format_figure, format_interval
from cpmi_dagster.reports.process_level import score_histogram_steps
from cpmi_dagster.reports.quality import BOUNDS
from cpmi_dagster.reports.reward_rows import (
    CEILING_ROW,
    CHANCE_ROW,
    CONTROL_ROWS,
    FLOOR_ROW,
    FREE_ROWS,
    GOLDLESS_ROWS,
    NEGATIVES_ROWS,
    main_rows,
)
from cpmi_dagster.rewards.registry import reward_label

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
UNAIDED_STYLES = {BOUNDS["pass_at_n"]: ":", BOUNDS["majority"]: "--", BOUNDS["pass_at_1"]: "-."}
DRAWN = ["label_quality", "processbench", "efficiency", "best_of_n", "negatives_ablation", "label_and_model_quality"]
"""Artifacts whose figures are drawn."""
POINTS: dict[str, Any] = {"fmt": "o", "markersize": 6, "elinewidth": 1.4, "capsize": 3}
LINE: dict[str, Any] = {"color": INK, "linewidth": 0.9, "linestyle": ":"}
BANDED = ("MC", "CPMI")
"""Rows whose intervals are drawn; the tables hold the others."""
BINS = 25
TAILS = (0.01, 0.99)
CALIBRATION_BINS = 10
FEW_CURVES = 6
"""Models in a panel beyond which their training losses, which jump, would hide everything."""


def report_plots(inputs: ReportInputs, comparisons: Mapping[str, pl.DataFrame]) -> dict[str, "Figure"]:
    """The plot of every section that has data: `headline_…` for the first screen, else by artifact.

    Args:
        comparisons: `tables.PaperComparison` rows by artifact.
    """
    nothing = pl.DataFrame(schema=COMPARISON_SCHEMA)
    measured = {name: comparisons.get(name, nothing).drop_nulls("measured") for name in DRAWN}
    models = inputs.table(MODELS).filter(pl.col("training_curve").list.len() > 0)
    figures = {
        **_draw_headline(measured),
        "label_quality": _draw_label_quality(measured["label_quality"]),
        "best_of_n": _draw_best_of_n(measured["best_of_n"], [row.row for row in main_rows(inputs.recipes)]),
        "negatives_ablation": _draw_ablation(measured["negatives_ablation"]),
        "reward_distribution": _draw_histograms(reward_histogram_steps(inputs), "reward"),
        "distribution_figure": _draw_histograms(score_histogram_steps(inputs), "probability"),
        "label_and_model_quality": _draw_label_and_model(measured),
        "objectives": draw_training_curves(models) if models.height else None,
    }
    return {section: figure for section, figure in figures.items() if figure is not None}


def _draw_headline(measured: Mapping[str, pl.DataFrame]) -> dict[str, "Figure"]:
    """Label AUC without last steps and ProcessBench F1 against generated tokens, each where it has two points.

    They are two figures, which a narrow page shows one below the other.
    """
    tokens = measured["efficiency"].filter(column="Token").select("row", cost="measured")
    labels = measured["label_quality"].filter(column=WITHOUT_LAST)
    official = _official(measured["processbench"])
    free = max(labels.filter(pl.col("row").is_in(FREE_ROWS))["measured"], default=None)
    bounds = {"chance": CHANCE_AUC, "best free label": free}
    figures = {}
    for name, title, costing, marks, limits in (
        ("labels", "Label AUC without last steps", labels, bounds, official.clear()),
        ("models", "ProcessBench F1 (%), one threshold", official, {}, official),
    ):
        points = costing.join(tokens, on="row", maintain_order="left")
        if points.height < 2:
            continue
        figures[f"headline_{name}"], (panel,) = new_figure(2.7, width=WIDTH_INCHES / 2)
        ends = []
        for point, low, high in zip(points.iter_rows(named=True), *_error_arms(points), strict=True):
            colour, style = colour_of(point["row"]), {**POINTS, "fmt": marker_of(point["row"])}
            panel.errorbar(point["cost"], point["measured"], yerr=[[low], [high]], color=colour, **style)
            ends.append((point["measured"], point["row"], colour))
        for words, height in (marks | _goldless(costing)).items():
            if height is not None:
                panel.axhline(height, **LINE)
                ends.append((height, words, INK))
        ends += _draw_limits(panel, limits)
        panel.margins(x=0.08, y=0.12)
        panel.set_xlim(left=-0.05)
        label_ends(panel, ends)
        label_axes(panel, "generated tokens, relative to MC", "", title)
    return figures


def _goldless(figures: pl.DataFrame) -> dict[str, float]:
    """Measured figures of the labeler's labels that take no gold answer and no generated token."""
    own = figures.filter(pl.col("row").is_in(GOLDLESS_ROWS)).drop_nulls("measured")
    return dict(own.select("row", "measured").iter_rows())


def _official(processbench: pl.DataFrame) -> pl.DataFrame:
    """ProcessBench F1 of every row by the benchmark's own protocol."""
    official = processbench.filter(pl.col("column") == "Average", pl.col("row").str.ends_with(OFFICIAL))
    return official.with_columns(pl.col("row").str.strip_suffix(OFFICIAL))


def _draw_limits(panel: "Axes", official: pl.DataFrame) -> list[tuple[float, str, str]]:
    """Lines, with the band of their interval, of the controls of reward models, and chance; their ends for names."""
    names = {CEILING_ROW: ("true steps", "--"), FLOOR_ROW: ("uniform labels", "-."), CHANCE_ROW: ("chance", ":")}
    ends = []
    for figure in official.filter(pl.col("row").is_in(list(names))).iter_rows(named=True):
        name, style = names[figure["row"]]
        colour = INK if figure["row"] == CHANCE_ROW else colour_of(figure["row"])
        panel.axhline(figure["measured"], **{**LINE, "color": colour, "linestyle": style})
        if figure["row"] != CHANCE_ROW and figure["low"] is not None:
            panel.axhspan(figure["low"], figure["high"], color=colour, alpha=0.1, linewidth=0)
        ends.append((figure["measured"], name, colour))
    return ends


def _draw_label_and_model(measured: Mapping[str, pl.DataFrame]) -> "Figure | None":
    """ProcessBench F1 of reward models against the AUC of their labels, a point per reward type; None without two."""
    figures = measured["label_and_model_quality"]
    auc, f1 = (figures.filter(column=column) for column in (INNER_AUC, F1))
    if auc.height < 2:
        return None
    figure, (panel,) = new_figure(4.2)
    points = list(zip(auc["row"], auc["measured"], f1["measured"], strict=True))
    arms = zip(*_error_arms(auc), *_error_arms(f1), strict=True)
    for (row, x, y), (left, right, below, above) in zip(points, arms, strict=True):
        marker = "X" if row in CONTROL_ROWS - REWARD_STYLES.keys() else marker_of(row)
        style = {**POINTS, "fmt": marker, "markersize": 8, "color": colour_of(row)}
        panel.errorbar(x, y, xerr=[[left], [right]], yerr=[[below], [above]], **style)
    panel.margins(x=0.15, y=0.08)
    label_ends(panel, _draw_limits(panel, _official(measured["processbench"])))
    low, high = panel.get_ylim()
    heights = spread(f1["measured"].to_list(), NAME_GAP * (high - low))
    left, right = panel.get_xlim()
    for (row, x, y), height in zip(points, heights, strict=True):
        # a name goes to the left where another point is to the right
        is_crowded = any(
            0 < other - x < (right - left) / 6 and abs(above - y) < (high - low) / 6 for _, other, above in points
        )
        side, place = ("right", -7) if is_crowded or row in CONTROL_ROWS else ("left", 7)
        backing = {"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.5}
        style = {"color": colour_of(row), "fontsize": 8.5, "ha": side, "bbox": backing}
        panel.annotate(row, (x, height), (place, 6), textcoords="offset points", **style)
    title = ""
    for found in figures.filter(row=CORRELATION).iter_rows(named=True):
        title = f"Rank correlation without true steps {format_figure(found['measured'], 2)} {format_interval(found, 2)}"
    label_axes(panel, INNER_AUC, "ProcessBench F1 (%), one threshold", title)
    return figure


def _draw_best_of_n(measured: pl.DataFrame, rows: Sequence[str]) -> "Figure | None":
    """Accuracy against the number of candidates, a panel per question set; thin lines need no reward model."""
    from matplotlib.ticker import NullLocator

    measured = measured.with_columns(
        pl.col("column").str.extract(r"^(.*) N=\d+$").alias("set"),
        pl.col("column").str.extract(r" N=(\d+)$").cast(pl.Int64).alias("candidates"),
    )
    sets = measured["set"].drop_nulls().unique(maintain_order=True).to_list()
    if not sets:
        return None
    figure, panels = new_figure(2.9, len(sets), columns=2, margin=0.5)
    for panel, name in zip(panels, sets, strict=True):
        figures, ends = measured.filter(set=name), []
        for row in (*rows, *UNAIDED_STYLES):
            curve = figures.filter(row=row).sort("candidates")
            if curve.is_empty():
                continue
            colour, marker, width = (INK, "", 1.0) if row in UNAIDED_STYLES else (colour_of(row), marker_of(row), 1.8)
            style = {"color": colour, "linewidth": width, "linestyle": UNAIDED_STYLES.get(row, "-")}
            panel.plot(curve["candidates"], curve["measured"], marker=marker, markersize=5, **style)
            ends.append((curve["measured"][-1], row, colour))
            if row in BANDED and curve["low"].count():
                band = (curve["candidates"], curve["low"], curve["high"])
                panel.fill_between(*band, color=colour, alpha=0.12, linewidth=0)
        counts = figures["candidates"].unique().sort().to_list()
        panel.set_xscale("log", base=2)
        panel.set_xticks(counts, [str(count) for count in counts])
        panel.xaxis.set_minor_locator(NullLocator())
        label_ends(panel, ends)
        label_axes(panel, "candidates N", "accuracy (%)", name)
    return figure


def _draw_ablation(measured: pl.DataFrame) -> "Figure | None":
    """One panel per metric with two points or more: the single terms and CPMI by number of hard negatives."""
    order = [row.row for row in NEGATIVES_ROWS]
    measured = measured.filter(pl.col("row").is_in(order))
    metrics = [metric for metric in METRIC_UNITS if measured["column"].to_list().count(metric) > 1]
    if not metrics:
        return None
    figure, panels = new_figure(2.5, len(metrics), columns=3, margin=0.3)
    present = [row for row in order if row in set(measured["row"])]
    for panel, metric in zip(panels, metrics, strict=True):
        figures = measured.filter(pl.col("column") == metric)
        positions = [present.index(row) for row in figures["row"]]
        panel.errorbar(positions, figures["measured"], yerr=_error_arms(figures), color=colour_of("CPMI"), **POINTS)
        panel.set_xticks(range(len(present)), [row.replace("_", "\n").replace(" = ", "=") for row in present])
        panel.set_xlim(-0.5, len(present) - 0.5)
        label_axes(panel, "", "", METRIC_UNITS[metric])
    return figure


def _draw_label_quality(measured: pl.DataFrame) -> "Figure | None":
    """ROC-AUC of each label type against the true step labels, best at the top; chance and the best control marked."""
    ranked = measured.filter(column=LABEL_AUC).sort("measured")
    if ranked.is_empty():
        return None
    figure, (panel,) = new_figure(0.27 * ranked.height + 0.9)
    places = {row: place for place, row in enumerate(ranked["row"])}
    for is_control, colour in ((False, RIGHT_STEPS), (True, OTHER_STYLE[0])):
        own = ranked.filter(pl.col("row").is_in(CONTROL_ROWS) == is_control)
        heights = own["row"].replace_strict(places)
        panel.errorbar(own["measured"], heights, xerr=_error_arms(own), color=colour, **POINTS)
    others = measured.filter(pl.col("column") == WITHOUT_LAST, pl.col("row").is_in(list(places)))
    panel.plot(others["measured"], others["row"].replace_strict(places), "o", markersize=5, mfc="none", color=INK)
    free, free_inner = (
        max(figures.filter(pl.col("row").is_in(FREE_ROWS))["measured"], default=None) for figures in (ranked, others)
    )
    marks = ((CHANCE_AUC, "chance", 0.0), (free_inner, "best free, hollow", 0.8), (free, "best free control", 0.0))
    for place, words, raised in marks:
        if place is not None:
            panel.axvline(place, **LINE)
            panel.text(place, ranked.height - 0.4 + raised, f" {words}", color=INK, fontsize=8.5, va="bottom")
    panel.set_yticks(range(ranked.height), ranked["row"].to_list())
    panel.set_ylim(-0.6, ranked.height - 0.2)
    label_axes(panel, "label AUC with 95 % interval")
    return figure


def _error_arms(figures: pl.DataFrame) -> list[list[float]]:
    """[2, points] lengths of the interval below and above each figure, 0 where there is none."""
    measured = pl.col("measured")
    arms = figures.select(below=measured - pl.col("low"), above=pl.col("high") - measured)
    return [arm.fill_null(0).clip(0).to_list() for arm in arms]


def _draw_histograms(values: Mapping[str, pl.DataFrame], column: Literal["reward", "probability"]) -> "Figure | None":
    """Densities of raw rewards, or of scores, by whether the step is right where that is known, a panel per row.

    Rewards in their tails count at the limits of the panel.
    """
    if not values:
        return None
    kinds = ((True, RIGHT_STEPS, "right steps"), (False, WRONG_STEPS, "wrong steps"), (None, INK, "truth not known"))
    is_score = column == "probability"
    height, columns = (2.2, 3) if is_score else (1.9, 4)
    figure, panels = new_figure(height, len(values), columns=columns, margin=0.5)
    for panel, (row, steps) in zip(panels, values.items(), strict=True):
        low, high = (0, 1) if is_score else np.quantile(steps[column].to_numpy(), TAILS)
        limits = (low, max(high, low + 1e-9))
        for correct, colour, label in kinds:
            chosen = steps.filter(pl.col("correct").eq_missing(correct))[column].to_numpy()
            if len(chosen):
                edges = np.linspace(*limits, BINS + 1).tolist()
                panel.hist(np.clip(chosen, *limits), edges, density=True, color=colour, alpha=0.55, label=label)
        if is_score:
            panel.set_xlim(0, 1)
            label_axes(panel, "score of the step", "density", row)
        else:
            panel.locator_params(axis="x", nbins=4)
            label_axes(panel, "", "", row)
    add_legend(figure, panels[0])
    return figure


def draw_training_curves(models: pl.DataFrame) -> "Figure":
    """Loss by epoch, a panel per objective: validation solid; training dotted, where the panel has few models.

    Rows of `models.process_reward_models` with one reward type share a colour and a name in the legend.
    """
    losses = models.select("recipe", "objective", "training_curve").explode("training_curve")
    losses = losses.drop_nulls("training_curve").unnest("training_curve").sort("step", maintain_order=True)
    objectives = models["objective"].unique(maintain_order=True).to_list()
    figure, panels = new_figure(3.3, len(objectives), columns=len(objectives))
    for panel, objective in zip(panels, objectives, strict=True):
        own = losses.filter(objective=objective)
        named: set[str] = set()
        for recipe, reward_type in models.filter(objective=objective).select("recipe", "reward_type").iter_rows():
            row, curve = reward_label(reward_type), own.filter(recipe=recipe)
            validation, training = (curve.filter(split=split) for split in ("validation", "train"))
            if own["recipe"].n_unique() <= FEW_CURVES:
                panel.plot(training["epoch"], training["loss"], ":", linewidth=1.1, alpha=0.8, color=colour_of(row))
            solid = validation if validation.height else training
            label = "_again" if row in named else row  # what begins with _ is not in the legend
            panel.plot(solid["epoch"], solid["loss"], "-", linewidth=1.6, color=colour_of(row), label=label)
            named.add(row)
        label_axes(panel, "epoch", f"{objective.upper()} loss", objective.upper())
    add_legend(figure, panels[0])
    return figure


def draw_calibration(steps: pl.DataFrame) -> "Figure":
    """The share of steps that are right by the probability a model gave them, in bins of equally many steps.

    A calibrated model lies on the dotted line.

    Args:
        steps: probability and is_right, as of `judged_steps`; at least one row.
    """
    from sklearn.calibration import calibration_curve

    right, given = steps["is_right"], steps["probability"]
    shares, means = calibration_curve(right, given, n_bins=CALIBRATION_BINS, strategy="quantile")
    figure, (panel,) = new_figure(3.3)
    panel.plot([0, 1], [0, 1], ":", linewidth=1.1, color=INK)
    panel.plot(means, shares, "-o", linewidth=1.6, markersize=4, color=RIGHT_STEPS)
    label_axes(panel, "probability that a step is right", "share that is", f"Calibration on {steps.height:,} steps")
    return figure
