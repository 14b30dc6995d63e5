"""The steps of one trajectory as bars, from what `label` or `judge` returns; a panel per reward type.

3 + 2 = 5, so she has 5 hats.         ████████ 0.88        blue: its reward is one that the type calls right
One was counted twice: 5 - 1 = 4.   ██ 0.11                orange: it is not; at the end, the soft label
"""

from textwrap import shorten
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from cpmi_dagster.errors import ScoringError
from cpmi_dagster.reports.style import INK, OTHER_STYLE, RIGHT_STEPS, WRONG_STEPS, label_axes, new_figure, to_png
from cpmi_dagster.rewards.labelled_rows import explode_steps
from cpmi_dagster.rewards.registry import REWARD_TYPES
from cpmi_dagster.rewards.reward_type import PROBABILITY

BAR_INCHES = 0.34
AXIS_INCHES = 0.9
STEP_CHARACTERS = 60
BESIDE_BARS = 0.3
"""Room for the numbers at the bars' ends, as a share of the panel."""
MOST_COLUMNS = 3


class StepFigure(Figure):
    """A figure that a notebook shows, whether or not pyplot was imported there."""

    def _repr_png_(self) -> bytes:
        return to_png(self)


def plot_steps(steps: Any, id: str | int | None = None, id_column: str = "id") -> Figure:
    """Draw the rewards, or probabilities, of the steps of one trajectory.

    A step is blue if the reward type calls its reward right (CPMI from 0, a probability from 0.5), orange if not, and
    grey if the type has no such threshold, as a length. The number at a bar is the soft label.

    Args:
        steps: what `label`, `explode_steps` or `judge` returned.
        id: of the trajectory, or the number of its row from 0 if none has one; the first one by default.
        id_column: your column of ids, in what `label` returned.

    Returns:
        A figure of matplotlib, which a notebook shows; `savefig` writes it to a file.

    Raises:
        ScoringError: there is no such trajectory among the steps.

    Examples:
        >>> from cpmi_dagster import label, plot_steps
        >>> rows = [{"question": "1 + 1?", "steps": ["1 + 1 = 2.", "So 2."], "gold_answer": "2"}]
        >>> figure = plot_steps(label(rows, "miniature:labeler", rewards=["cpmi", "step_surprisal"]))
        >>> [panel.get_title(loc="left") for panel in figure.axes]
        ['CPMI', 'Step surprisal']
    """
    if not isinstance(steps, pl.DataFrame) or "step_index" not in steps.columns:
        steps = explode_steps(steps, id_column)
    if "probability" in steps.columns:
        steps = steps.with_columns(reward_type=pl.lit("probability"), reward="probability", soft_label="probability")
    name = steps["id"].first() if id is None else str(id)
    chosen = steps.filter(pl.col("id").eq_missing(name))
    if chosen.is_empty():
        raise ScoringError(f"there are no steps of trajectory `{name}` to draw; give an id that is among them")
    panels = chosen.partition_by("reward_type", maintain_order=True, as_dict=True)
    texts = chosen.unique("step_index").sort("step_index")["step"]
    figure, axes = new_figure(BAR_INCHES * len(texts) + AXIS_INCHES, len(panels), MOST_COLUMNS, kind=StepFigure)
    if id is None and (others := steps["id"].n_unique() - 1):
        figure.suptitle(f"{name}, the first; `id` draws one of the {others:,} others", color=INK, fontsize=9)
    for place, (axis, ((kind,), rows)) in enumerate(zip(axes, panels.items(), strict=True)):
        entry = REWARD_TYPES.get(kind)
        scale = entry.scale if entry else PROBABILITY
        right_from = scale.right_from if scale else None
        colours = [
            OTHER_STYLE[0] if right_from is None else RIGHT_STEPS if reward >= right_from else WRONG_STEPS
            for reward in rows["reward"]
        ]
        bars = axis.barh(rows["step_index"], rows["reward"], color=colours)
        axis.bar_label(bars, [f"{value:.2f}" for value in rows["soft_label"]], padding=3, color=INK, fontsize=8.5)
        axis.axvline(right_from or 0, color=INK, linewidth=0.9)
        axis.margins(x=BESIDE_BARS)
        shown = [shorten(text, STEP_CHARACTERS, placeholder="…") for text in texts] if place % MOST_COLUMNS == 0 else []
        # a dollar is a dollar
        axis.set_yticks(range(len(texts)), shown or [""] * len(texts), parse_math=False)
        axis.invert_yaxis()
        label_axes(axis, "reward" if entry else "probability", "", entry.label if entry else "Reward model")
    return figure
