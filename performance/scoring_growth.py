"""How the cost of a trajectory grows when one thing about the workload grows and the rest stays.

    axis                       values            from the real trajectories by
    steps                      2 4 8 16          repeating or leaving out steps
    negatives                  1 2 4 8           more edits of the gold answer
    templates                  1 2 3 4           fewer of the four wordings
    trajectories a question    1 2 4 8           attempts that go their own way
    step length                1/4 1/2 1 2 4     cutting or repeating a step's text

Tokens of tree and cached prefix are counted while a tiny model runs, those of the others follow from the lengths of
their batches; seconds are those of tree and released on the model given.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from scoring_cached import cached_prefix
from scoring_comparison import CLOCKS
from scoring_contestants import RELEASED_BATCH, harness_tokens, released, released_tokens, tree
from scoring_meter import ForwardMeter
from scoring_sequences import distinct_tokens, pieces_of, requests_of
from scoring_workload import negatives_of, several_a_question, with_step_count, with_step_length

from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.scoring.settings import Scoring

NEGATIVES = 4
STEPS = (2, 4, 8, 16)
COUNTS = (1, 2, 4, 8)
TEMPLATE_COUNTS = (1, 2, 3, 4)
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
TREE, CACHED, HARNESS, RELEASED, DISTINCT = "tree", "cached prefix", "harness", "released", "distinct tokens"
QUANTITIES = ("tokens", "seconds")
COLOURS = {TREE: "#0b6e4f", CACHED: "#b5651d", HARNESS: "#6a4c93", RELEASED: "#c1292e", DISTINCT: "#888888"}
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Variation:
    """The workload with one thing changed."""

    axis: str
    value: float
    trajectories: pl.DataFrame
    negatives: int = NEGATIVES
    templates: int = 4


@dataclass(frozen=True)
class GrowthPoint:
    """Tokens and seconds per trajectory by contestant."""

    axis: str
    value: float
    tokens: dict[str, float]
    seconds: dict[str, float]


def variations(trajectories: pl.DataFrame, seed: int) -> Iterator[Variation]:
    """The workload along each axis."""
    for count in STEPS:
        yield Variation("steps", count, with_step_count(trajectories, count))
    for count in COUNTS:
        yield Variation("negatives", count, trajectories, negatives=count)
    for count in TEMPLATE_COUNTS:
        yield Variation("templates", count, trajectories, templates=count)
    for count in COUNTS:
        yield Variation("trajectories a question", count, several_a_question(trajectories, count, seed))
    for factor in FACTORS:
        yield Variation("step length (x real)", factor, with_step_length(trajectories, factor))


def growth(
    trajectories: pl.DataFrame, counter: LoadedModel, model: LoadedModel, clock: str, seed: int
) -> list[GrowthPoint]:
    """Measure every variation, after a run of each model that is not counted.

    Args:
        trajectories: few; every variation is made of them.
        counter: a tiny model, for counting tokens.
        model: the model that is timed, with the same tokenizer.
        clock: key of `CLOCKS`.
        seed: of negatives and attempts.
    """
    for one in (counter, model):
        tree(one, trajectories, negatives_of(trajectories, NEGATIVES, seed), Scoring())
    points = []
    for variation in variations(trajectories, seed):
        points.append(_measure(variation, counter, model, clock, seed))
        tokens = ", ".join(f"{name} {value:,.0f}" for name, value in points[-1].tokens.items())
        logger.info("  %s %g: tokens a trajectory: %s", variation.axis, variation.value, tokens)
    return points


def _measure(variation: Variation, counter: LoadedModel, model: LoadedModel, clock: str, seed: int) -> GrowthPoint:
    trajectories = variation.trajectories
    negatives = negatives_of(trajectories, variation.negatives, seed)
    scoring = Scoring(templates=variation.templates)
    pieces = pieces_of(trajectories, negatives, model.tokenizer, variation.templates, scoring.conditionings)
    requests = requests_of(pieces)
    tokens: dict[str, float] = {
        RELEASED: released_tokens(requests),
        HARNESS: harness_tokens(requests, RELEASED_BATCH),
        DISTINCT: distinct_tokens(requests),
    }
    with ForwardMeter(counter.model) as meter:
        tree(counter, trajectories, negatives, scoring)
    tokens[TREE] = meter.tokens
    with ForwardMeter(counter.model) as meter:
        cached_prefix(counter, pieces, contexts_a_batch=1)
    tokens[CACHED] = meter.tokens
    now = CLOCKS[clock]
    began = now()
    tree(model, trajectories, negatives, scoring)
    middle = now()
    released(model, requests)
    seconds = {TREE: middle - began, RELEASED: now() - middle}
    count = trajectories.height
    return GrowthPoint(
        variation.axis,
        variation.value,
        {name: value / count for name, value in tokens.items()},
        {name: value / count for name, value in seconds.items()},
    )


def plot(points: Sequence[GrowthPoint], path: Path, title: str) -> None:
    """Small multiples: tokens above, seconds below, an axis of growth a column; both axes are logarithmic.

    Args:
        points: of `growth`.
        path: PNG or SVG.
        title: stands above it.
    """
    from matplotlib.figure import Figure

    axes = list(dict.fromkeys(point.axis for point in points))
    figure = Figure(figsize=(3.4 * len(axes), 7.6), layout="constrained")
    panels = figure.subplots(len(QUANTITIES), len(axes), sharey="row", squeeze=False)
    for row, quantity in enumerate(QUANTITIES):
        panels[row][0].set_ylabel(f"{quantity} a trajectory", fontsize=12)
        for panel, axis in zip(panels[row], axes, strict=True):
            _draw(panel, [point for point in points if point.axis == axis], quantity)
    for panel, axis in zip(panels[0], axes, strict=True):
        panel.set_title(axis, fontsize=13)
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=12)
    figure.suptitle(title, fontsize=14)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _draw(panel: Any, points: Sequence[GrowthPoint], quantity: str) -> None:
    values = [point.value for point in points]
    for name, colour in COLOURS.items():
        heights = [getattr(point, quantity).get(name) for point in points]
        if None not in heights:
            style = {"linestyle": ":"} if name == DISTINCT else {"marker": "o", "markersize": 4}
            panel.plot(values, heights, color=colour, label=name, linewidth=2, **style)
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.set_xticks(values, [f"{value:g}" for value in values], fontsize=11)
    panel.tick_params(axis="y", labelsize=11)
    panel.minorticks_off()
    panel.grid(alpha=0.3)
