"""Every table and figure of the report: what it needs, how our figures are measured, how the paper's are joined.

ARTIFACTS["processbench"].needs    ->  ("sources/benchmark_problems", "benchmarks/processbench_predictions", …)
build_artifact(ARTIFACTS["processbench"], inputs, "miniature")

artifact      row   column  paper  measured  low   high   n    profile
processbench  CPMI  Math    39.6   41.2      36.0  46.1   120  miniature
"""

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from cpmi_dagster.reports import efficiency, labels, process_level, question_sets
from cpmi_dagster.reports.comparisons import measure_contrast, measure_negatives_ablation, measure_objectives
from cpmi_dagster.reports.cost_ratios import COSTS
from cpmi_dagster.reports.inputs import JUDGES, ReportInputs
from cpmi_dagster.reports.pairs import measure_differences
from cpmi_dagster.reports.paper import COMPARISON_SCHEMA, PaperTable, load_paper_tables, paper_figures
from cpmi_dagster.reports.quality import CHOICES, PRMBENCH_PREDICTIONS, PROBLEMS, PROCESSBENCH
from cpmi_dagster.reports.reward_rows import (
    CONTRAST_ROWS,
    MAIN_ROWS,
    MERGE_POINT_ROWS,
    NEGATIVES_ROWS,
    OBJECTIVE_ROWS,
    PAV_MERGE_ROWS,
    RecipeRow,
)
from cpmi_dagster.reports.seeds import measure_seeds

Tables = tuple[str, ...]
Rows = tuple[RecipeRow, ...]

PROCESS_LEVEL = (PROBLEMS, PROCESSBENCH, JUDGES)
STEP_LEVEL = (PROBLEMS, PRMBENCH_PREDICTIONS, JUDGES)
QUALITY = (PROBLEMS, PROCESSBENCH, PRMBENCH_PREDICTIONS, CHOICES)
LABELS = (labels.REWARDS, labels.TRAJECTORIES, labels.TRUTH)

_SPECIFICATIONS: dict[str, tuple[Tables, Callable[[ReportInputs], pl.DataFrame], Rows]] = {
    "label_quality": (LABELS, labels.measure_label_quality, ()),
    "efficiency": ((*QUALITY, COSTS), efficiency.measure_efficiency, MAIN_ROWS),
    "contrast": (QUALITY, measure_contrast, CONTRAST_ROWS),
    "distribution": (PROCESS_LEVEL, process_level.measure_distribution, MAIN_ROWS),
    "distribution_figure": (PROCESS_LEVEL, process_level.measure_score_means, MAIN_ROWS),
    "processbench": (PROCESS_LEVEL, process_level.measure_processbench, MAIN_ROWS),
    "prmbench": (STEP_LEVEL, process_level.measure_prmbench, MAIN_ROWS),
    "best_of_n": ((CHOICES,), question_sets.measure_best_of_n, MAIN_ROWS),
    "dataset_statistics_table": ((labels.STATISTICS,), labels.measure_dataset_statistics, ()),
    "processbench_detailed": (PROCESS_LEVEL, process_level.measure_processbench_detailed, MAIN_ROWS),
    "prmbench_detailed": (STEP_LEVEL, process_level.measure_prmbench_detailed, MAIN_ROWS),
    "labelers": ((*QUALITY, COSTS), efficiency.measure_labelers, ()),
    "logic": ((CHOICES,), question_sets.measure_logic, question_sets.LOGIC_ROWS),
    "objectives": (QUALITY, measure_objectives, OBJECTIVE_ROWS),
    "negatives_ablation": ((*QUALITY, *LABELS), measure_negatives_ablation, NEGATIVES_ROWS),
    "merge_points": ((*QUALITY, COSTS, labels.REWARDS), efficiency.measure_merge_points, MERGE_POINT_ROWS),
    "pav_merges": ((*QUALITY, COSTS), efficiency.measure_pav_merges, PAV_MERGE_ROWS),
    "differences": (QUALITY, measure_differences, ()),
    "training_seeds": (QUALITY, measure_seeds, ()),
}
"""By artifact: the tables it needs, its measure, and its rows that take a reward model."""


@dataclass(frozen=True)
class Artifact:
    """A table or figure of the report.

    Attributes:
        paper: the paper's figures and text; without rows where the paper has no such table.
        needs: keys of the tables that our figures are measured from.
        measure: returns our figures as columns row, column, measured, low, high, n.
        rows: rows that each need a reward model.
    """

    paper: PaperTable
    needs: Tables
    measure: Callable[[ReportInputs], pl.DataFrame]
    rows: Rows

    @property
    def name(self) -> str:
        """Asset name, e.g. `processbench`."""
        return self.paper.artifact

    @property
    def title(self) -> str:
        """What it shows."""
        return self.paper.title

    @property
    def label(self) -> str | None:
        """LaTeX label in the paper; None where the paper has no such table."""
        return self.paper.label

    def untrained(self, inputs: ReportInputs) -> list[str]:
        """Rows whose reward model is not among the profile's recipes."""
        return [row.row for row in self.rows if inputs.recipe_of(row) is None]


_PAPER_TABLES = load_paper_tables()
ARTIFACTS: dict[str, Artifact] = {
    name: Artifact(_PAPER_TABLES[name], needs, measure, rows)
    for name, (needs, measure, rows) in _SPECIFICATIONS.items()
}
"""All artifacts by name, in the order in which the report shows them."""


def build_artifact(artifact: Artifact, inputs: ReportInputs, profile: str) -> pl.DataFrame:
    """The paper's figures next to ours: an outer join by row and column.

    Args:
        artifact: what to build.
        inputs: frames of `artifact.needs`, recipes and bootstrap settings.
        profile: name of the profile that was measured.

    Returns:
        `tables.PaperComparison` rows: the paper's in its order, then those that only we measure.

    Raises:
        BenchmarkError: predictions do not fit their problems.
    """
    ours = artifact.measure(inputs)
    figures = paper_figures(artifact.paper, profile).drop("measured", "low", "high", "n")
    printed = figures.join(ours, on=["row", "column"], how="left", maintain_order="left")
    unprinted = ours.join(figures, on=["row", "column"], how="anti", maintain_order="left").with_columns(
        artifact=pl.lit(artifact.name), paper=pl.lit(None, pl.Float64), profile=pl.lit(profile)
    )
    return pl.concat([frame.select(list(COMPARISON_SCHEMA)) for frame in (printed, unprinted)])
