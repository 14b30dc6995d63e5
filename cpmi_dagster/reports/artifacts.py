"""Every table and figure of the paper as an artifact: what it needs, how ours is measured, how the two are joined.

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

PROCESS_LEVEL = (PROBLEMS, PROCESSBENCH, JUDGES)
STEP_LEVEL = (PROBLEMS, PRMBENCH_PREDICTIONS, JUDGES)
QUALITY = (PROBLEMS, PROCESSBENCH, PRMBENCH_PREDICTIONS, CHOICES)
LABELS = (labels.REWARDS, labels.TRAJECTORIES, labels.TRUTH)

_MEASURES: dict[str, tuple[tuple[str, ...], Callable[[ReportInputs], pl.DataFrame]]] = {
    "label_quality": (LABELS, labels.measure_label_quality),
    "efficiency": ((*QUALITY, COSTS), efficiency.measure_efficiency),
    "contrast": (QUALITY, measure_contrast),
    "distribution": (PROCESS_LEVEL, process_level.measure_distribution),
    "distribution_figure": (PROCESS_LEVEL, process_level.measure_score_means),
    "processbench": (PROCESS_LEVEL, process_level.measure_processbench),
    "prmbench": (STEP_LEVEL, process_level.measure_prmbench),
    "best_of_n": ((CHOICES,), question_sets.measure_best_of_n),
    "dataset_statistics_table": ((labels.STATISTICS,), labels.measure_dataset_statistics),
    "processbench_detailed": (PROCESS_LEVEL, process_level.measure_processbench_detailed),
    "prmbench_detailed": (STEP_LEVEL, process_level.measure_prmbench_detailed),
    "labelers": ((*QUALITY, COSTS), efficiency.measure_labelers),
    "logic": ((CHOICES,), question_sets.measure_logic),
    "objectives": (QUALITY, measure_objectives),
    "negatives_ablation": ((*QUALITY, *LABELS), measure_negatives_ablation),
    "merge_points": ((*QUALITY, COSTS, labels.REWARDS), efficiency.measure_merge_points),
    "pav_merges": ((*QUALITY, COSTS), efficiency.measure_pav_merges),
    "differences": (QUALITY, measure_differences),
    "training_seeds": (QUALITY, measure_seeds),
}

_ROWS: dict[str, tuple[RecipeRow, ...]] = {
    "label_quality": (),
    "dataset_statistics_table": (),
    "labelers": (),
    "differences": (),
    "training_seeds": (),
    "logic": question_sets.LOGIC_ROWS,
    "contrast": CONTRAST_ROWS,
    "objectives": OBJECTIVE_ROWS,
    "negatives_ablation": NEGATIVES_ROWS,
    "merge_points": MERGE_POINT_ROWS,
    "pav_merges": PAV_MERGE_ROWS,
}
"""Rows that take a reward model, where they are not the main ones."""


@dataclass(frozen=True)
class Artifact:
    """A table or figure of the paper, or one of ours.

    Attributes:
        paper: the paper's figures and words; without rows where it has none.
        needs: keys of the tables that ours is measured from.
        measure: gives ours as columns row, column, measured, low, high, n.
        rows: rows that take a reward model of their own.
    """

    paper: PaperTable
    needs: tuple[str, ...]
    measure: Callable[[ReportInputs], pl.DataFrame]
    rows: tuple[RecipeRow, ...]

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
        """LaTeX label in the paper; None for ours alone."""
        return self.paper.label

    @property
    def kind(self) -> str:
        """`table` or `figure`, as the paper shows it."""
        return self.paper.kind

    def untrained(self, inputs: ReportInputs) -> list[str]:
        """Rows whose reward model is not among the profile's recipes."""
        return [row.row for row in self.rows if inputs.recipe_of(row) is None]


def _artifacts() -> dict[str, Artifact]:
    tables = load_paper_tables()
    return {
        name: Artifact(tables[name], needs, measure, _ROWS.get(name, MAIN_ROWS))
        for name, (needs, measure) in _MEASURES.items()
    }


ARTIFACTS: dict[str, Artifact] = _artifacts()
"""All artifacts by name, in the order in which the report shows them."""


def build_artifact(artifact: Artifact, inputs: ReportInputs, profile: str) -> pl.DataFrame:
    """The paper's figures beside ours: an outer join by row and column.

    Args:
        artifact: what to build.
        inputs: frames of `artifact.needs` and how the profile measures.
        profile: name of the profile that ours are measured on.

    Returns:
        `tables.PaperComparison` rows: the paper's in its order, then ours that it does not have.

    Raises:
        BenchmarkError: predictions do not fit their problems.
    """
    ours = artifact.measure(inputs)
    figures = paper_figures(artifact.paper, profile).drop("measured", "low", "high", "n")
    beside = figures.join(ours, on=["row", "column"], how="left", maintain_order="left")
    alone = ours.join(figures, on=["row", "column"], how="anti", maintain_order="left").with_columns(
        artifact=pl.lit(artifact.name), paper=pl.lit(None, pl.Float64), profile=pl.lit(profile)
    )
    return pl.concat([beside.select(list(COMPARISON_SCHEMA)), alone.select(list(COMPARISON_SCHEMA))])
