"""Every table and figure of the report: what it needs, how our figures are measured, how the paper's are joined.

ARTIFACTS["processbench"].needs    ->  ("sources/benchmark_problems", "benchmarks/processbench_predictions", …)
build_artifact(ARTIFACTS["processbench"], inputs, "miniature")

artifact      row   column  paper  measured  low   high   n    profile
processbench  CPMI  Math    39.6   41.2      36.0  46.1   120  miniature
"""

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from cpmi_dagster.contracts.keys import (
    BY_PROVER,
    CHOICES,
    COSTS,
    JUDGES,
    LOGPROBS,
    PRMBENCH_PREDICTIONS,
    PROBLEMS,
    PROCESSBENCH,
    SCORES,
    STATISTICS,
    STEP_REWARDS,
    TRAJECTORIES,
    TRUTH,
)
from cpmi_dagster.contracts.registries import by_name
from cpmi_dagster.reports import efficiency, knowledge, labels, process_level, question_sets
from cpmi_dagster.reports.ablations import measure_contrast, measure_negatives_ablation, measure_objectives
from cpmi_dagster.reports.evidence import measure_evidence
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.paired_differences import measure_differences
from cpmi_dagster.reports.paper import COMPARISON_SCHEMA, PaperTable, load_paper_tables, paper_figures
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
LABELS = (STEP_REWARDS, TRAJECTORIES, TRUTH)


@dataclass(frozen=True)
class Artifact:
    """A table or figure of the report.

    Attributes:
        name: of its asset, and in `paper.yaml`.
        needs: keys of the tables that our figures are measured from.
        measure: returns our figures as columns row, column, measured, low, high, n.
        rows: rows that each need a reward model.
    """

    name: str
    needs: tuple[str, ...]
    measure: Callable[[ReportInputs], pl.DataFrame]
    rows: tuple[RecipeRow, ...] = ()

    @property
    def paper(self) -> PaperTable:
        """The paper's figures and text; without rows where the paper has no such table."""
        return load_paper_tables()[self.name]

    def untrained(self, inputs: ReportInputs) -> list[str]:
        """Rows whose reward model is not among the profile's recipes."""
        return [row.row for row in self.rows if inputs.recipe_of(row) is None]


ARTIFACTS: dict[str, Artifact] = by_name(
    (
        Artifact("label_evidence", (*LABELS, LOGPROBS), measure_evidence),
        Artifact("label_quality", LABELS, labels.measure_label_quality),
        Artifact("label_positions", LABELS, labels.measure_label_positions),
        Artifact("label_kinds", LABELS, labels.measure_label_kinds),
        Artifact("label_operations", LABELS, labels.measure_label_operations),
        Artifact("label_within", LABELS, labels.measure_label_within),
        Artifact("label_knowledge", (*LABELS, LOGPROBS), knowledge.measure_knowledge),
        Artifact(
            "labelers_knowledge",
            (*LABELS, LOGPROBS, BY_PROVER),
            knowledge.measure_labelers_knowledge,
        ),
        Artifact("jeffreys", (STEP_REWARDS, TRAJECTORIES, LOGPROBS), knowledge.measure_jeffreys),
        Artifact("templates", (*LABELS, SCORES), knowledge.measure_templates),
        Artifact("reward_distribution", LABELS, labels.measure_reward_distribution),
        Artifact("efficiency", (*QUALITY, COSTS), efficiency.measure_efficiency, MAIN_ROWS),
        Artifact("contrast", QUALITY, measure_contrast, CONTRAST_ROWS),
        Artifact("distribution", PROCESS_LEVEL, process_level.measure_distribution, MAIN_ROWS),
        Artifact("distribution_figure", PROCESS_LEVEL, process_level.measure_score_means, MAIN_ROWS),
        Artifact("processbench", PROCESS_LEVEL, process_level.measure_processbench, MAIN_ROWS),
        Artifact("prmbench", STEP_LEVEL, process_level.measure_prmbench, MAIN_ROWS),
        Artifact("best_of_n", (CHOICES,), question_sets.measure_best_of_n, MAIN_ROWS),
        Artifact("dataset_statistics_table", (STATISTICS,), labels.measure_dataset_statistics),
        Artifact("processbench_detailed", PROCESS_LEVEL, process_level.measure_processbench_detailed, MAIN_ROWS),
        Artifact("prmbench_detailed", STEP_LEVEL, process_level.measure_prmbench_detailed, MAIN_ROWS),
        Artifact("labelers", (*QUALITY, COSTS), efficiency.measure_labelers),
        Artifact("logic", (CHOICES,), question_sets.measure_logic, question_sets.LOGIC_ROWS),
        Artifact("objectives", QUALITY, measure_objectives, OBJECTIVE_ROWS),
        Artifact("negatives_ablation", (*QUALITY, *LABELS), measure_negatives_ablation, NEGATIVES_ROWS),
        Artifact("merge_points", (*QUALITY, COSTS, STEP_REWARDS), efficiency.measure_merge_points, MERGE_POINT_ROWS),
        Artifact("pav_merges", (*QUALITY, COSTS), efficiency.measure_pav_merges, PAV_MERGE_ROWS),
        Artifact("differences", QUALITY, measure_differences),
        Artifact("training_seeds", QUALITY, measure_seeds),
    )
)
"""All artifacts by name, in the order in which the report shows them."""


def build_artifact(artifact: Artifact, inputs: ReportInputs, profile: str) -> pl.DataFrame:
    """The paper's figures next to ours: an outer join by row and column.

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
