"""Every table and figure of the report: its inputs, and its figures beside the paper's.

ARTIFACTS["processbench"].needs    ->  ("sources/benchmark_problems", "benchmarks/processbench_predictions", …)
build_artifact(ARTIFACTS["processbench"], inputs, "miniature")

artifact      row   column  paper  measured  low   high   n    units  unit      profile
processbench  CPMI  Math    39.6   41.2      36.0  46.1   120  96     question  miniature
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import polars as pl

from cpmi_dagster.contracts import keys
from cpmi_dagster.contracts.registries import by_name
from cpmi_dagster.reports import differences, efficiency, label_trust, labels, process_level, quality, reward_models
from cpmi_dagster.reports import reward_rows as rows
from cpmi_dagster.reports.inputs import Figure, ReportInputs, figure_frame
from cpmi_dagster.reports.paper import COMPARISON_SCHEMA, PaperTable, load_paper_tables, paper_figures

PROCESS_LEVEL = (keys.PROBLEMS, keys.PROCESSBENCH, keys.JUDGES)
STEP_LEVEL = (keys.PROBLEMS, keys.PRMBENCH_PREDICTIONS, keys.JUDGES)
QUALITY = (keys.PROBLEMS, keys.PROCESSBENCH, keys.PRMBENCH_PREDICTIONS, keys.CHOICES)
LABELS = (keys.STEP_REWARDS, keys.TRAJECTORIES, keys.TRUTH)
READ_BY_SHARD = (keys.LOGPROBS,)
"""Tables too large to be in memory whole: they are in `ReportInputs.shards`."""


@dataclass(frozen=True)
class Artifact:
    """A table or figure of the report.

    Attributes:
        name: of its asset, and in `paper.yaml`.
        needs: keys of the tables that our figures are measured from.
        measure: makes our figures, one row of the table after another.
    """

    name: str
    needs: tuple[str, ...]
    measure: Callable[[ReportInputs], Iterator[Figure]]

    @property
    def paper(self) -> PaperTable:
        """The paper's figures and text; without rows if the paper has no such table."""
        return load_paper_tables()[self.name]


ARTIFACTS: dict[str, Artifact] = by_name(
    (
        Artifact("label_quality", (*LABELS, keys.LOGPROBS), labels.measure_label_quality),
        Artifact("label_trust", (*LABELS, keys.LOGPROBS), label_trust.measure_label_trust),
        Artifact("efficiency", (*QUALITY, keys.COSTS), efficiency.measure_efficiency),
        Artifact("contrast", QUALITY, quality.measure_contrast),
        Artifact("distribution", PROCESS_LEVEL, process_level.measure_distribution),
        Artifact("distribution_figure", PROCESS_LEVEL, process_level.measure_score_means),
        Artifact("processbench", PROCESS_LEVEL, process_level.measure_processbench),
        Artifact("prmbench", STEP_LEVEL, partial(process_level.measure_prmbench, level="group")),
        Artifact("best_of_n", (keys.CHOICES,), quality.measure_best_of_n),
        Artifact("dataset_statistics_table", (keys.STATISTICS,), labels.measure_dataset_statistics),
        Artifact("processbench_detailed", PROCESS_LEVEL, partial(process_level.measure_processbench, detailed=True)),
        Artifact("prmbench_detailed", STEP_LEVEL, process_level.measure_prmbench),
        Artifact("labelers", (*QUALITY, keys.COSTS), efficiency.measure_labelers),
        Artifact("logic", (keys.CHOICES,), quality.measure_logic),
        Artifact("objectives", QUALITY, quality.measure_objectives),
        Artifact("negatives_ablation", (*QUALITY, *LABELS, keys.NEGATIVES), quality.measure_negatives_ablation),
        Artifact("merge_points", (*QUALITY, keys.COSTS, keys.STEP_REWARDS), efficiency.measure_merge_points),
        Artifact(
            "pav_merges",
            (*QUALITY, keys.COSTS),
            partial(efficiency.measure_efficiency, own_rows=rows.PAV_MERGE_ROWS, baseline="pav"),
        ),
        Artifact("reward_models", (*LABELS, keys.MODELS), reward_models.measure_reward_models),
        Artifact("differences", QUALITY, differences.measure_differences),
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
    ours = figure_frame(artifact.measure(inputs))
    figures = paper_figures(artifact.name, profile).select("artifact", "row", "column", "paper", "profile")
    printed = figures.join(ours, on=["row", "column"], how="left", maintain_order="left")
    unprinted = ours.join(figures, on=["row", "column"], how="anti", maintain_order="left").with_columns(
        artifact=pl.lit(artifact.name), paper=pl.lit(None, pl.Float64), profile=pl.lit(profile)
    )
    return pl.concat([frame.select(list(COMPARISON_SCHEMA)) for frame in (printed, unprinted)])
