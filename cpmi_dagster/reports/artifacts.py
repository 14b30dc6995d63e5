"""Every table and figure of the report: what it needs, how our figures are measured, how the paper's are joined.

ARTIFACTS["processbench"].needs    ->  ("sources/benchmark_problems", "benchmarks/processbench_predictions", …)
build_artifact(ARTIFACTS["processbench"], inputs, "miniature")

artifact      row   column  paper  measured  low   high   n    units  unit      profile
processbench  CPMI  Math    39.6   41.2      36.0  46.1   120  96     question  miniature
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import polars as pl

from cpmi_dagster.benchmarks.registry import PRMBENCH
from cpmi_dagster.benchmarks.step_distribution import DISTRIBUTION_SUBSET
from cpmi_dagster.contracts import keys
from cpmi_dagster.contracts.registries import by_name
from cpmi_dagster.reports import (
    differences,
    efficiency,
    evidence,
    label_and_model,
    label_increment,
    label_trust,
    labels,
    process_level,
    quality,
)
from cpmi_dagster.reports import reward_rows as rows
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.paper import COMPARISON_SCHEMA, PaperTable, load_paper_tables, paper_figures

PROCESS_LEVEL = (keys.PROBLEMS, keys.PROCESSBENCH, keys.JUDGES)
STEP_LEVEL = (keys.PROBLEMS, keys.PRMBENCH_PREDICTIONS, keys.JUDGES)
QUALITY = (keys.PROBLEMS, keys.PROCESSBENCH, keys.PRMBENCH_PREDICTIONS, keys.CHOICES)
LABELS = (keys.STEP_REWARDS, keys.TRAJECTORIES, keys.TRUTH)
Rows = tuple[rows.RecipeRow, ...]
READ_BY_SHARD = (keys.LOGPROBS,)
"""Tables too large to be in memory whole: they are in `ReportInputs.shards`."""


@dataclass(frozen=True)
class Artifact:
    """A table or figure of the report.

    Attributes:
        name: of its asset, and in `paper.yaml`.
        needs: keys of the tables that our figures are measured from.
        measure: returns our figures as `measured_frame` has them.
        rows: rows of a reward type or a reward model, or what gives those of a profile; none where every profile has
            all rows.
        tested: what the figures of a column rest on; None where labels alone are enough.
    """

    name: str
    needs: tuple[str, ...]
    measure: Callable[[ReportInputs], pl.DataFrame]
    rows: "Rows | Callable[[ReportInputs], Rows]" = ()
    tested: Callable[[str], quality.Tested | None] = quality.tested_by_measures

    @property
    def paper(self) -> PaperTable:
        """The paper's figures and text; without rows where the paper has no such table."""
        return load_paper_tables()[self.name]

    def row_named(self, row: str, inputs: ReportInputs) -> "rows.RecipeRow | None":
        """What feeds a row in a profile; None where nothing does, as for rows that the paper quotes."""
        own = self.rows(inputs) if callable(self.rows) else self.rows
        return next((each for each in own if each.row == row), None)


def _on_math(_column: str) -> quality.Tested:
    return quality.Tested((DISTRIBUTION_SUBSET,))


def _on_prmbench(_column: str) -> quality.Tested:
    return quality.Tested((PRMBENCH,))


def _negatives_rows(inputs: ReportInputs) -> Rows:
    return rows.negatives_rows(inputs.negatives)


ARTIFACTS: dict[str, Artifact] = by_name(
    (
        Artifact("label_evidence", (*LABELS, keys.LOGPROBS), evidence.measure_evidence),
        Artifact("label_quality", LABELS, labels.measure_label_quality, rows.LABEL_ROWS),
        Artifact("label_increment", LABELS, label_increment.measure_label_increment),
        Artifact("label_auc", (*LABELS, keys.LOGPROBS), evidence.measure_label_auc),
        Artifact("label_within", LABELS, labels.measure_label_within),
        Artifact("label_trust", (*LABELS, keys.LOGPROBS), label_trust.measure_label_trust),
        Artifact("jeffreys", (keys.STEP_REWARDS, keys.TRAJECTORIES, keys.LOGPROBS), evidence.measure_jeffreys),
        Artifact("templates", (*LABELS, keys.SCORES), evidence.measure_templates),
        Artifact("reward_distribution", LABELS, labels.measure_reward_distribution),
        Artifact("efficiency", (*QUALITY, keys.COSTS), efficiency.measure_efficiency, rows.MAIN_ROWS),
        Artifact("contrast", QUALITY, quality.measure_contrast, rows.CONTRAST_ROWS),
        Artifact("distribution", PROCESS_LEVEL, process_level.measure_distribution, rows.MAIN_ROWS, _on_math),
        Artifact("distribution_figure", PROCESS_LEVEL, process_level.measure_score_means, rows.MAIN_ROWS, _on_math),
        Artifact(
            "processbench",
            PROCESS_LEVEL,
            process_level.measure_processbench,
            rows.MAIN_ROWS,
            process_level.tested_on_subsets,
        ),
        Artifact(
            "prmbench",
            STEP_LEVEL,
            partial(process_level.measure_prmbench, level="group"),
            rows.MAIN_ROWS,
            _on_prmbench,
        ),
        Artifact("best_of_n", (keys.CHOICES,), quality.measure_best_of_n, rows.MAIN_ROWS, quality.tested_on_questions),
        Artifact("dataset_statistics_table", (keys.STATISTICS,), labels.measure_dataset_statistics),
        Artifact(
            "processbench_detailed",
            PROCESS_LEVEL,
            process_level.measure_processbench_detailed,
            rows.MAIN_ROWS,
            process_level.tested_on_subsets,
        ),
        Artifact("prmbench_detailed", STEP_LEVEL, process_level.measure_prmbench, rows.MAIN_ROWS, _on_prmbench),
        Artifact("labelers", (*QUALITY, keys.COSTS), efficiency.measure_labelers, efficiency.labeler_rows),
        Artifact("logic", (keys.CHOICES,), quality.measure_logic, quality.LOGIC_ROWS, quality.tested_on_questions),
        Artifact("objectives", QUALITY, quality.measure_objectives, rows.OBJECTIVE_ROWS),
        Artifact(
            "negatives_ablation",
            (*QUALITY, *LABELS, keys.NEGATIVES),
            quality.measure_negatives_ablation,
            _negatives_rows,
        ),
        Artifact(
            "merge_points",
            (*QUALITY, keys.COSTS, keys.STEP_REWARDS),
            efficiency.measure_merge_points,
            rows.MERGE_POINT_ROWS,
        ),
        Artifact(
            "pav_merges",
            (*QUALITY, keys.COSTS),
            partial(efficiency.measure_efficiency, own_rows=rows.PAV_MERGE_ROWS, baseline="pav"),
            rows.PAV_MERGE_ROWS,
        ),
        Artifact("differences", QUALITY, differences.measure_differences),
        Artifact("training_seeds", QUALITY, differences.measure_seeds),
        Artifact(
            "label_and_model_quality",
            (*LABELS, keys.PROBLEMS, keys.PROCESSBENCH),
            label_and_model.measure_label_and_model_quality,
        ),
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
    figures = paper_figures(artifact.name, profile).select("artifact", "row", "column", "paper", "profile")
    printed = figures.join(ours, on=["row", "column"], how="left", maintain_order="left")
    unprinted = ours.join(figures, on=["row", "column"], how="anti", maintain_order="left").with_columns(
        artifact=pl.lit(artifact.name), paper=pl.lit(None, pl.Float64), profile=pl.lit(profile)
    )
    return pl.concat([frame.select(list(COMPARISON_SCHEMA)) for frame in (printed, unprinted)])
