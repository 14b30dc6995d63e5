"""The report's plots, by the section they are in; a plot is only drawn if it has data.

    report_plots(inputs, comparisons)  ->  {"label_quality": Figure, "best_of_n": Figure, …}

Training curves are also shown beside the assets of models.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.label_quality import calibration_points, with_truth_so_far
from cpmi_dagster.benchmarks.metrics import CHANCE_AUC
from cpmi_dagster.benchmarks.resampling import FEWEST_UNITS, Estimate
from cpmi_dagster.contracts.keys import MODELS, STEP_REWARDS
from cpmi_dagster.reports.benchmark_tables import BOUNDS, distribution_models
from cpmi_dagster.reports.best_label import best_free
from cpmi_dagster.reports.figures import ReportInputs, distribution_steps, figures_by_column
from cpmi_dagster.reports.label_trust import BY_FINAL_ANSWER, without_last_steps
from cpmi_dagster.reports.labels import (
    LABEL_AUC,
    SO_FAR,
    TRUE_LABELS,
    WITHOUT_LAST,
    final_answers,
    in_order,
    steps_with_truth,
)
from cpmi_dagster.reports.paper import COMPARISON_SCHEMA, CONTROL_ROWS, main_rows
from cpmi_dagster.reports.style import (
    INK,
    OTHER_STYLE,
    REWARD_STYLES,
    RIGHT_STEPS,
    WRONG_STEPS,
    add_legend,
    label_axes,
    line_styles,
    new_figure,
)
from cpmi_dagster.rewards.registry import reward_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNAIDED_STYLES = {BOUNDS["pass_at_n"]: ":", BOUNDS["majority"]: "--", BOUNDS["pass_at_1"]: "-."}
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
    # as everywhere, no figure of too few questions
    is_shown = (pl.col("units").fill_null(FEWEST_UNITS) >= FEWEST_UNITS) & pl.col("measured").is_not_null()
    labels, choices = (comparisons.get(name, nothing).filter(is_shown) for name in ("label_quality", "best_of_n"))
    models = inputs.table(MODELS).filter(pl.col("training_curve").list.len() > 0)
    figures = {
        "label_quality": _draw_label_quality(labels),
        "calibration": _draw_calibration(steps_with_truth(inputs, SO_FAR)),
        "best_of_n": _draw_best_of_n(choices, [row.row for row in main_rows(inputs.recipes)]),
        "distribution_figure": _draw_histograms(
            {row: distribution_steps(inputs, model) for row, model in distribution_models(inputs).items()}
        ),
        "objectives": draw_training_curves(models) if models.height else None,
    }
    return {section: figure for section, figure in figures.items() if figure is not None}


def _draw_best_of_n(measured: pl.DataFrame, rows: Sequence[str]) -> "Figure | None":
    """Accuracy against the number of candidates, a panel per question set; thin lines need no reward model."""
    measured = measured.filter(pl.col("row").is_in([*rows, *UNAIDED_STYLES])).with_columns(
        pl.col("column").str.extract(r"^(.*) N=\d+$").alias("set"),
        pl.col("column").str.extract(r" N=(\d+)$").cast(pl.Int64).alias("candidates"),
    )
    sets = measured["set"].drop_nulls().unique(maintain_order=True).to_list()
    if not sets:
        return None
    figure, panels = new_figure(3.1, len(sets), columns=2)
    styles = line_styles([row for row in rows if row in set(measured["row"])])
    for panel, name in zip(panels, sets, strict=True):
        figures = measured.filter(set=name)
        for row in (*rows, *UNAIDED_STYLES):
            if (curve := figures.filter(row=row).sort("candidates")).is_empty():
                continue
            colour, line = styles.get(row, (INK, UNAIDED_STYLES.get(row, "-")))
            marker = "" if row in UNAIDED_STYLES else REWARD_STYLES.get(row, OTHER_STYLE)[1]
            style = {"linewidth": 1.0 if row in UNAIDED_STYLES else 1.8, "linestyle": line}
            panel.plot(
                curve["candidates"], curve["measured"], marker=marker, markersize=5, color=colour, label=row, **style
            )
            if row in BANDED and curve["low"].count():
                band = (curve["candidates"], curve["low"], curve["high"])
                panel.fill_between(*band, color=colour, alpha=0.12, linewidth=0)
        counts = figures["candidates"].unique().sort().to_list()
        panel.set_xscale("log", base=2)
        panel.set_xticks(counts, [str(count) for count in counts])
        panel.minorticks_off()
        label_axes(panel, "candidates N", "accuracy (%)", name)
    add_legend(figure, panels)
    return figure


def _draw_label_quality(measured: pl.DataFrame) -> "Figure | None":
    """ROC-AUC of each label type against the true step labels, best at the top; chance and the best control marked."""
    ranked = measured.filter(column=WITHOUT_LAST).sort("measured")
    if ranked.is_empty():
        return None
    figure, (panel,) = new_figure(0.27 * ranked.height + 0.9)
    places = {row: place for place, row in enumerate(ranked["row"])}
    for row, auc, low, high in ranked.select("row", "measured", "low", "high").iter_rows():
        arms = None if low is None else [[max(0, auc - low)], [max(0, high - auc)]]
        colour = OTHER_STYLE[0] if row in CONTROL_ROWS else RIGHT_STEPS
        panel.errorbar(auc, places[row], xerr=arms, color=colour, fmt="o", markersize=6, elinewidth=1.4, capsize=3)
    others = measured.filter(pl.col("column") == LABEL_AUC, pl.col("row").is_in(list(places)))
    panel.plot(others["measured"], others["row"].replace_strict(places), "o", markersize=5, mfc="none", color=INK)
    columns, chance = figures_by_column(measured), Estimate(CHANCE_AUC)
    best = best_free(columns[WITHOUT_LAST]) or ""
    free, over_all = (columns[column].get(best) for column in (WITHOUT_LAST, LABEL_AUC))
    marks = ((chance, "chance", 0.0), (over_all, "best free, hollow", 0.8), (free, "best free control", 0.0))
    for mark, words, raised in marks:
        if mark:
            panel.axvline(mark.value, **LINE)
            panel.text(mark.value, ranked.height - 0.4 + raised, f" {words}", color=INK, fontsize=8.5, va="bottom")
    panel.set_yticks(range(ranked.height), ranked["row"].to_list())
    panel.set_ylim(-0.6, ranked.height - 0.2)
    label_axes(panel, "label AUC without last steps, with 95 % interval")
    return figure


def _draw_calibration(steps: pl.DataFrame) -> "Figure | None":
    """How many steps with a probability that all is right so far are: on the diagonal, as many as it says."""
    steps = with_truth_so_far(steps.filter(pl.col("reward_type").is_in(SO_FAR))) if steps.height else steps
    if steps.is_empty():
        return None
    points = calibration_points(steps).filter(pl.col("solutions") >= FEWEST_UNITS)
    if points.is_empty():
        return None
    figure, (panel,) = new_figure(3.0)
    panel.plot([0, 1], [0, 1], **LINE)
    panel.plot(points["reward"], points["correct"], "o-", color=RIGHT_STEPS, markersize=6)
    for x, y, n in points.select("reward", "correct", "n").iter_rows():
        panel.annotate(f"{n:,}", (x, y), (6, -12), textcoords="offset points", fontsize=8, color=INK)
    panel.set_xlim(0, 1.02)
    panel.set_ylim(0, 1.02)
    label_axes(panel, "right so far, as the label says", "share that is right so far")
    return figure


def _draw_histograms(models: Mapping[str, pl.DataFrame | None]) -> "Figure | None":
    """Densities of the scores of right and of wrong steps, a panel per row of `scored_steps`."""
    if not models:
        return None
    figure, panels = new_figure(2.4, len(models), columns=3)
    edges = np.linspace(0, 1, BINS + 1).tolist()
    for panel, (row, steps) in zip(panels, models.items(), strict=True):
        assert steps is not None
        for correct, colour, label in ((True, RIGHT_STEPS, "right steps"), (False, WRONG_STEPS, "wrong steps")):
            chosen = steps.filter(correct=correct)["probability"].to_numpy()
            if len(chosen):
                panel.hist(chosen, edges, density=True, color=colour, alpha=0.55, label=label)
        panel.set_xlim(0, 1)
        label_axes(panel, "score of the step", "density", row)
    add_legend(figure, panels[:1])
    return figure


def draw_label_histograms(inputs: ReportInputs) -> "Figure | None":
    """Densities of each label over steps but last ones, by the final answer of their solution, a panel per label.

    The outermost bars hold the hundredth of the steps beyond them; without any final answer, all steps are together.
    """
    rewards = inputs.table(STEP_REWARDS).filter(~pl.col("reward_type").is_in([*TRUE_LABELS, *BY_FINAL_ANSWER]))
    answers = final_answers(inputs).select("trajectory_id", "correct")
    steps = without_last_steps(inputs, rewards).join(answers, on="trajectory_id", how="left")
    kinds = [(True, RIGHT_STEPS, "right final answer"), (False, WRONG_STEPS, "wrong final answer")]
    if steps["correct"].is_null().all():
        kinds = [(None, OTHER_STYLE[0], "all steps")]
    names = in_order(steps["reward_type"].unique())
    if not names:
        return None
    figure, panels = new_figure(2.2, len(names), columns=2 if len(names) == 4 else 3)
    for panel, name in zip(panels, names, strict=True):
        of_label = steps.filter(reward_type=name)
        low, high = np.quantile(of_label["reward"].to_numpy(), [0.01, 0.99]).tolist()
        edges = np.linspace(low, high if high > low else low + 1, BINS + 1).tolist()
        for correct, colour, words in kinds:
            chosen = of_label.filter(pl.col("correct").eq_missing(correct))["reward"].clip(low, high)
            if len(chosen):
                panel.hist(chosen.to_numpy(), edges, density=True, color=colour, alpha=0.55, label=words)
        label_axes(panel, "reward", "density", reward_label(name))
    add_legend(figure, panels)
    return figure


def draw_training_curves(models: pl.DataFrame) -> "Figure":
    """Loss by epoch, a panel per objective: validation solid; training dotted, if the panel has few models.

    Args:
        models: rows of `models.process_reward_models`; those of one reward type share a colour and a name in the
            legend.
    """
    objectives = models["objective"].unique(maintain_order=True).to_list()
    figure, panels = new_figure(3.3, len(objectives), columns=len(objectives))
    styles = line_styles([reward_label(name) for name in models["reward_type"].unique(maintain_order=True)])
    for panel, objective in zip(panels, objectives, strict=True):
        trained = models.filter(objective=objective)
        for reward_type, curve in trained.select("reward_type", "training_curve").iter_rows():
            row, losses = reward_label(reward_type), pl.DataFrame(curve).sort("step", maintain_order=True)
            (colour, line), named = styles[row], panel.get_legend_handles_labels()[1]
            validation, training = (losses.filter(split=split) for split in ("validation", "train"))
            if trained.height <= FEW_CURVES:
                panel.plot(training["epoch"], training["loss"], ":", linewidth=1.1, alpha=0.8, color=colour)
            solid, label = validation if validation.height else training, None if row in named else row
            panel.plot(solid["epoch"], solid["loss"], line, linewidth=1.6, color=colour, label=label)
        label_axes(panel, "epoch", f"{objective.upper()} loss", objective.upper())
    add_legend(figure, panels)
    return figure
