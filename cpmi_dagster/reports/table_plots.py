"""Plots drawn from tables of the lake: score histograms, labeling costs, training curves, calibration.

draw_score_histograms({"MC": scores, "CPMI": scores})   scores: columns probability, correct
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from cpmi_dagster.reports.figure_style import (
    INK,
    RIGHT_STEPS,
    WRONG_STEPS,
    add_legend,
    colour_of,
    label_axes,
    new_figure,
)
from cpmi_dagster.rewards.registry import listing_place, reward_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 25
TAILS = (0.01, 0.99)
CALIBRATION_BINS = 10
FEW_CURVES = 6
"""Models in a panel beyond which their training losses, which jump, would hide everything."""
COST_PANELS: tuple[tuple[str, str], ...] = (
    ("wall_seconds", "time (s)"),
    ("generated_tokens", "generated tokens"),
    ("forward_tokens", "forward tokens"),
)


def draw_score_histograms(scores: Mapping[str, pl.DataFrame]) -> "Figure":
    """Densities of the reward model's scores of right and of wrong steps, a panel per reward type.

    Args:
        scores: by row label, frames with `probability` in [0, 1] and `correct`.
    """
    figure, panels = new_figure(2.2, len(scores), columns=3, margin=0.5)
    edges = np.linspace(0, 1, BINS + 1).tolist()
    for panel, (row, steps) in zip(panels, scores.items(), strict=True):
        for correct, colour, label in ((True, RIGHT_STEPS, "right steps"), (False, WRONG_STEPS, "wrong steps")):
            chosen = steps.filter(pl.col("correct") == correct)["probability"].to_numpy()
            panel.hist(chosen, edges, density=len(chosen) > 0, color=colour, alpha=0.55, label=label)
        panel.set_xlim(0, 1)
        label_axes(panel, "score of the step", "density", row)
    add_legend(figure, panels[0])
    return figure


def draw_reward_histograms(rewards: Mapping[str, pl.DataFrame]) -> "Figure":
    """Densities of the raw rewards, of right and of wrong steps where that is known, a panel per reward type.

    Args:
        rewards: by row label, frames with `reward` and `correct`, which may be null.
    """
    figure, panels = new_figure(1.9, len(rewards), columns=4, margin=0.5)
    kinds = ((True, RIGHT_STEPS, "right steps"), (False, WRONG_STEPS, "wrong steps"), (None, INK, "truth not known"))
    for panel, (row, steps) in zip(panels, rewards.items(), strict=True):
        low, high = np.quantile(steps["reward"].to_numpy(), TAILS)
        edges = np.linspace(low, max(high, low + 1e-9), BINS + 1).tolist()
        for correct, colour, label in kinds:
            chosen = steps.filter(pl.col("correct").eq_missing(correct))["reward"].to_numpy()
            if len(chosen):
                panel.hist(np.clip(chosen, low, high), edges, density=True, color=colour, alpha=0.55, label=label)
        panel.locator_params(axis="x", nbins=4)
        label_axes(panel, "", "", row)
    add_legend(figure, panels[0])
    return figure


def draw_labeling_costs(costs: pl.DataFrame) -> "Figure":
    """Time and tokens per trajectory of every labeling method; methods of one pass share a bar."""
    totals = _costs_by_pass(costs).reverse()
    labels = [
        reward_label(method) + (f" and {len(alike)} alike" if alike else "") for method, *alike in totals["methods"]
    ]
    count = len(COST_PANELS)
    figure, panels = new_figure(0.27 * totals.height + 0.9, count, columns=count, share_y=True)
    for panel, (column, unit) in zip(panels, COST_PANELS, strict=True):
        values = (totals[column] / totals["trajectories"]).to_list()
        bars = panel.barh(labels, values, color=[colour_of(label) for label in labels], height=0.65)
        panel.bar_label(bars, [_short(value) for value in values], padding=3, color=INK, fontsize=8.5)
        panel.margins(x=0.28)
        panel.grid(axis="y", visible=False)
        panel.ticklabel_format(axis="x", style="plain")
        panel.locator_params(axis="x", nbins=4)
        label_axes(panel, "per trajectory", "", unit)
    return figure


def shared_costs(costs: pl.DataFrame) -> list[tuple[str, str]]:
    """Which methods have their cost in common: the first of them, and the others as one text."""
    shared = [[reward_label(method) for method in methods] for methods in _costs_by_pass(costs)["methods"]]
    return [(first, ", ".join(rest)) for first, *rest in shared if rest]


def draw_training_curves(models: pl.DataFrame) -> "Figure":
    """Loss by epoch, a panel per objective: validation solid; training dotted, where the panel has few models.

    Rows of `models.process_reward_models` with one reward type share a colour and a name in the legend.
    """
    losses = models.select("recipe", "reward_type", "objective", "training_curve").explode("training_curve")
    losses = losses.drop_nulls("training_curve").unnest("training_curve")
    objectives = losses["objective"].unique(maintain_order=True).to_list()
    count = max(1, len(objectives))
    figure, panels = new_figure(3.3, count, columns=count)
    for panel, objective in zip(panels, objectives, strict=False):
        own = losses.filter(pl.col("objective") == objective)
        few = own["recipe"].n_unique() <= FEW_CURVES
        named: set[str] = set()
        for (_, reward_type), curve in own.group_by("recipe", "reward_type", maintain_order=True):
            row = reward_label(str(reward_type))
            _draw_losses(panel, row, curve, named=row not in named, with_training=few)
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


def _draw_losses(panel: "Axes", row: str, curve: pl.DataFrame, *, named: bool, with_training: bool) -> None:
    validation = curve.filter(pl.col("split") == "validation").sort("step")
    training = curve.filter(pl.col("split") == "train").sort("step")
    if with_training:
        panel.plot(training["epoch"], training["loss"], ":", linewidth=1.1, alpha=0.8, color=colour_of(row))
    solid = validation if validation.height else training
    label = row if named else "_again"  # what begins with _ is not in the legend
    panel.plot(solid["epoch"], solid["loss"], "-", linewidth=1.6, color=colour_of(row), label=label)


def _costs_by_pass(costs: pl.DataFrame) -> pl.DataFrame:
    """methods, then the sums of trajectories and of every cost; methods in the order in which tables list them."""
    columns = ["trajectories", *(column for column, _ in COST_PANELS)]
    totals = (
        costs.group_by("method")
        .agg(pl.col(columns).sum())
        .filter(pl.col("trajectories") > 0)
        .sort(listing_place("method"), "method")
    )
    return totals.group_by(columns, maintain_order=True).agg(pl.col("method").alias("methods"))


def _short(value: float) -> str:
    """Three significant digits, thousands as k."""
    return f"{value / 1000:.3g}k" if value >= 10_000 else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
