"""The report's plots: which there are, what each shows, and which section it is in.

    for plot in report_plots(inputs, comparisons):
        Path(plot.name + ".png").write_bytes(plot.png)

A plot is only drawn where it has data.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from cpmi_dagster.reports.artifact_plots import (
    draw_ablation,
    draw_best_of_n,
    draw_label_quality,
    draw_quality_against_cost,
)
from cpmi_dagster.reports.cost_ratios import COSTS
from cpmi_dagster.reports.figure_style import to_png, to_svg
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.process_level import score_histogram_steps
from cpmi_dagster.reports.reward_rows import NEGATIVES_ROWS, RecipeRow, main_rows
from cpmi_dagster.reports.table_plots import (
    draw_labeling_costs,
    draw_score_histograms,
    draw_training_curves,
    shared_costs,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODELS = "models/process_reward_models"


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
    drawings: tuple[tuple[str, str, Callable[[pl.DataFrame], Figure]], ...] = (
        (
            "label_quality",
            "How well each label type ranks true right steps above wrong ones, best at the top; chance is 0.5.",
            draw_label_quality,
        ),
        (
            "best_of_n",
            "Accuracy of the candidate with the highest mean step reward against the number of candidates; bands are "
            "the 95 % intervals of MC and CPMI, the table holds the others. Thin lines need no reward model: "
            "Pass@1 is a blind pick, Pass@N the best that any pick could be.",
            lambda frame: draw_best_of_n(frame, tuple(row.row for row in rows)),
        ),
        (
            "negatives_ablation",
            "The two terms of CPMI alone, and both with M hard negatives, in every measure that two of them have, with "
            "95 % intervals.",
            lambda frame: draw_ablation(frame, tuple(row.row for row in NEGATIVES_ROWS)),
        ),
        (
            "efficiency",
            "ProcessBench F1 of the reward model against the labeling time of its labels, with 95 % intervals of F1.",
            draw_quality_against_cost,
        ),
    )
    for artifact, caption, draw in drawings:
        comparison = comparisons.get(artifact)
        if comparison is not None and _drawable(artifact, comparison):
            yield Plot(f"plot-{artifact.replace('_', '-')}", artifact, caption, draw(comparison))


def _drawable(artifact: str, comparison: pl.DataFrame) -> bool:
    """Whether there is a point to draw; quality against cost needs both coordinates, an ablation two points."""
    measured = comparison.filter(pl.col("measured").is_not_null())
    if artifact == "negatives_ablation":
        return measured["column"].is_duplicated().any()
    needed = {"PB", "Time"} if artifact == "efficiency" else set()
    return measured.height > 0 and needed <= set(measured["column"])


def _plots_of_tables(inputs: ReportInputs) -> Iterator[Plot]:
    costs = inputs.table(COSTS).filter(pl.col("trajectories") > 0)
    if costs.height:
        caption = "What labeling one trajectory costs, by method: time, tokens sampled, and tokens read or sampled."
        shared = "".join(
            f" {first} shares one pass, and so its cost, with {rest}." for first, rest in shared_costs(costs)
        )
        yield Plot("plot-costs", "efficiency", caption + shared, draw_labeling_costs(costs))
    histograms = score_histogram_steps(inputs)
    if histograms:
        caption = "Scores that the reward models give to right and to wrong steps of ProcessBench-Math, as densities."
        yield Plot("plot-scores", "distribution_figure", caption, draw_score_histograms(histograms))
    models = inputs.table(MODELS)
    if models.height and models["training_curve"].list.len().sum():
        caption = (
            "Loss by epoch: validation solid; training dotted, where few models share a panel. Losses of different "
            "objectives, or against different labels, do not compare."
        )
        yield Plot("plot-training", "objectives", caption, draw_training_curves(models))
