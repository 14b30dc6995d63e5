"""The report's plots, by the section they are in; a plot is only drawn where it has data.

    report_plots(inputs, comparisons)  ->  {"label_quality": Figure, "best_of_n": Figure, …}

Training curves are also shown beside the assets of models.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.step_distribution import CHANCE_AUC, scored_steps
from cpmi_dagster.contracts.keys import MODELS, PROBLEMS
from cpmi_dagster.reports.figure_style import (
    INK,
    OTHER_STYLE,
    RIGHT_STEPS,
    WRONG_STEPS,
    add_legend,
    colour_of,
    label_axes,
    label_ends,
    marker_of,
    new_figure,
)
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.labels import LABEL_AUC, WITHOUT_LAST
from cpmi_dagster.reports.paper import COMPARISON_SCHEMA
from cpmi_dagster.reports.process_level import distribution_predictions
from cpmi_dagster.reports.quality import BOUNDS
from cpmi_dagster.reports.reward_rows import CONTROL_ROWS, FREE_ROWS, main_rows
from cpmi_dagster.rewards.registry import reward_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNAIDED_STYLES = {BOUNDS["pass_at_n"]: ":", BOUNDS["majority"]: "--", BOUNDS["pass_at_1"]: "-."}
POINTS: dict[str, Any] = {"fmt": "o", "markersize": 6, "elinewidth": 1.4, "capsize": 3}
LINE: dict[str, Any] = {"color": INK, "linewidth": 0.9, "linestyle": ":"}
BANDED = ("MC", "CPMI")
"""Rows whose intervals are drawn; the tables hold the others."""
BINS = 25
FEW_CURVES = 6
"""Models in a panel beyond which their training losses, which jump, would hide everything."""


def report_plots(inputs: ReportInputs, comparisons: Mapping[str, pl.DataFrame]) -> dict[str, "Figure"]:
    """The plot of every artifact that has one and data for it.

    Args:
        comparisons: `tables.PaperComparison` rows by artifact.
    """
    nothing = pl.DataFrame(schema=COMPARISON_SCHEMA)
    labels, best_of_n = (
        comparisons.get(name, nothing).drop_nulls("measured") for name in ("label_quality", "best_of_n")
    )
    models = inputs.table(MODELS).filter(pl.col("training_curve").list.len() > 0)
    figures = {
        "label_quality": _draw_label_quality(labels),
        "best_of_n": _draw_best_of_n(best_of_n, [row.row for row in main_rows(inputs.recipes)]),
        "distribution_figure": _draw_histograms(distribution_predictions(inputs), inputs.table(PROBLEMS)),
        "objectives": draw_training_curves(models) if models.height else None,
    }
    return {section: figure for section, figure in figures.items() if figure is not None}


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


def _draw_histograms(models: Mapping[str, pl.DataFrame], problems: pl.DataFrame) -> "Figure | None":
    """Densities of the scores of right and of wrong steps, a panel per row."""
    if not models:
        return None
    figure, panels = new_figure(2.2, len(models), columns=3, margin=0.5)
    edges = np.linspace(0, 1, BINS + 1).tolist()
    for panel, (row, predictions) in zip(panels, models.items(), strict=True):
        steps = scored_steps(predictions, problems)
        for correct, colour, label in ((True, RIGHT_STEPS, "right steps"), (False, WRONG_STEPS, "wrong steps")):
            chosen = steps.filter(correct=correct)["probability"].to_numpy()
            if len(chosen):
                panel.hist(chosen, edges, density=True, color=colour, alpha=0.55, label=label)
        panel.set_xlim(0, 1)
        label_axes(panel, "score of the step", "density", row)
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
