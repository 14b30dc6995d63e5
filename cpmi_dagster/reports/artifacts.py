"""Every table and figure of the report: its inputs, and its figures beside the paper's.

ARTIFACTS["processbench"].needs    ->  ("sources/benchmark_problems", "benchmarks/processbench_predictions", …)
ARTIFACTS["merge_points"].rows     ->  RecipeRow("CPMI_Merge1", "cpmi_merge1"), …
build_artifact(ARTIFACTS["processbench"], inputs, "miniature")      a layout of measures that are computed once

artifact      row   column  paper  measured  low   high   n    units  unit      profile
processbench  CPMI  Math    39.6   41.2      36.0  46.1   120  96     question  miniature
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import polars as pl

from cpmi_dagster.contracts import keys
from cpmi_dagster.contracts.registries import by_name
from cpmi_dagster.contracts.report_tables import OF_LABELS, TOPIC_OF, TOPICS
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.reports import costs, label_trust, labels, models, process_level, quality
from cpmi_dagster.reports.best_label import FREE_LABELS
from cpmi_dagster.reports.figures import Figure, ReportInputs, figure_frame
from cpmi_dagster.reports.paper import COMPARISON_SCHEMA, PaperTable, load_paper_tables, paper_figures
from cpmi_dagster.reports.reward_rows import (
    BASELINE_TYPE,
    CONTRAST_ROWS,
    MERGE_POINT_ROWS,
    PAV_MERGE_ROWS,
    RecipeRow,
    main_rows,
    negatives_rows,
    objective_rows,
)

PROCESS_LEVEL = (keys.PROBLEMS, keys.PROCESSBENCH, keys.JUDGES)
STEP_LEVEL = (keys.PROBLEMS, keys.PRMBENCH_PREDICTIONS, keys.JUDGES)
QUALITY = (keys.PROBLEMS, keys.PROCESSBENCH, keys.PRMBENCH_PREDICTIONS, keys.CHOICES)
LABELS = (keys.STEP_REWARDS, keys.TRAJECTORIES, keys.TRUTH)
READ_BY_SHARD = (keys.LOGPROBS,)
"""Tables too large to be in memory whole: they are in `ReportInputs.shards`."""
RATIOS = ("Time", "Token", "RelEff")
"""The beginnings of columns relative to a baseline."""
TO_MC, TO_PAV = (BASELINE_TYPE,), ("pav",)


def _main_rows(inputs: ReportInputs) -> tuple[RecipeRow, ...]:
    return main_rows(inputs.recipes)


@dataclass(frozen=True)
class Artifact:
    """A table or figure of the report.

    Attributes:
        name: of its asset, and in `paper.yaml`.
        needs: keys of the tables that our figures are measured from.
        measure: makes our figures, one row of the table after another.
        rows: the reward types and recipes behind its rows; a row of chance, or of a judge, is not among them.
        compared: reward types that a figure is compared with, by the beginning of its column.
    """

    name: str
    needs: tuple[str, ...]
    measure: Callable[[ReportInputs], Iterator[Figure]]
    rows: Callable[[ReportInputs], Iterable[RecipeRow]] = _main_rows
    compared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def has_models(self) -> bool:
        """Whether reward models are behind its figures."""
        return any(TABLES[key].partitioning == "recipe" for key in self.needs)

    @property
    def topic(self) -> str:
        """The partition of `reports/figures` that has it."""
        return TOPIC_OF[self.name]

    @property
    def paper(self) -> PaperTable:
        """The paper's figures and text; without rows if the paper has no such table."""
        return load_paper_tables()[self.name]


ARTIFACTS: dict[str, Artifact] = by_name(
    (
        Artifact(
            "label_quality",
            (*LABELS, keys.LOGPROBS),
            labels.measure_label_quality,
            labels.label_rows,
            {labels.TO_BASELINE: TO_MC, labels.TO_CONTROL: FREE_LABELS},
        ),
        Artifact("label_trust", (*LABELS, keys.LOGPROBS), label_trust.measure_label_trust, labels.label_rows),
        Artifact("efficiency", (*QUALITY, keys.COSTS), costs.measure_efficiency, compared=dict.fromkeys(RATIOS, TO_MC)),
        Artifact("contrast", QUALITY, quality.measure_contrast, lambda _: CONTRAST_ROWS),
        Artifact("distribution", PROCESS_LEVEL, process_level.measure_distribution),
        Artifact("distribution_figure", PROCESS_LEVEL, process_level.measure_score_means),
        Artifact("processbench", PROCESS_LEVEL, process_level.measure_processbench),
        Artifact("prmbench", STEP_LEVEL, partial(process_level.measure_prmbench, level="group")),
        Artifact("best_of_n", (keys.CHOICES,), quality.measure_best_of_n),
        Artifact("dataset_statistics_table", (keys.STATISTICS,), labels.measure_dataset_statistics, lambda _: ()),
        Artifact("processbench_detailed", PROCESS_LEVEL, partial(process_level.measure_processbench, detailed=True)),
        Artifact("prmbench_detailed", STEP_LEVEL, process_level.measure_prmbench),
        Artifact(
            "labelers",
            (*QUALITY, keys.COSTS),
            costs.measure_labelers,
            costs.labeler_rows,
            dict.fromkeys(RATIOS, TO_MC),
        ),
        Artifact("logic", (keys.CHOICES,), quality.measure_logic),
        Artifact("objectives", QUALITY, quality.measure_objectives, lambda inputs: objective_rows(inputs.recipes)),
        Artifact(
            "negatives_ablation",
            (*QUALITY, *LABELS, keys.NEGATIVES),
            quality.measure_negatives_ablation,
            lambda inputs: negatives_rows(inputs.negatives),
        ),
        Artifact(
            "merge_points",
            (*QUALITY, keys.COSTS, keys.STEP_REWARDS),
            costs.measure_merge_points,
            lambda _: MERGE_POINT_ROWS,
            dict.fromkeys(("ratio", "RelEff"), TO_MC),
        ),
        Artifact(
            "pav_merges",
            (*QUALITY, keys.COSTS),
            partial(costs.measure_efficiency, own_rows=PAV_MERGE_ROWS, baseline="pav"),
            lambda _: PAV_MERGE_ROWS,
            dict.fromkeys(RATIOS, TO_PAV),
        ),
        Artifact(
            "reward_models",
            (*QUALITY, *LABELS, keys.MODELS),
            models.measure_reward_models,
            models.model_rows,
        ),
        Artifact("differences", QUALITY, models.measure_differences, models.compared_rows),
    )
)
"""All artifacts by name, in the order in which the report shows them; those of a topic share inputs."""


def needs_of(topic: str) -> list[str]:
    """Keys of the tables that the artifacts of a topic are measured from."""
    return sorted({key for name in TOPICS[topic] for key in ARTIFACTS[name].needs})


def by_artifact(figures: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Rows of `reports/figures` by artifact; without those that have none."""
    return {str(name): rows for (name,), rows in figures.partition_by("artifact", as_dict=True).items()}


def build_artifact(artifact: Artifact, inputs: ReportInputs, profile: str, is_own: bool = False) -> pl.DataFrame:
    """The paper's figures next to ours: an outer join by row and column.

    Args:
        is_own: the data are the user's, beside which no figure stands that the paper has of labels themselves.

    Returns:
        `tables.PaperComparison` rows: the paper's in its order, then those that only we measure.

    Raises:
        BenchmarkError: predictions do not fit their problems.
    """
    ours = figure_frame(artifact.measure(inputs))
    figures = paper_figures(artifact.name, profile).select("artifact", "row", "column", "paper", "profile")
    if is_own and artifact.name in OF_LABELS:
        figures = figures.clear()
    printed = figures.join(ours, on=["row", "column"], how="left", maintain_order="left")
    unprinted = ours.join(figures, on=["row", "column"], how="anti", maintain_order="left").with_columns(
        artifact=pl.lit(artifact.name), paper=pl.lit(None, pl.Float64), profile=pl.lit(profile)
    )
    return pl.concat([frame.select(list(COMPARISON_SCHEMA)) for frame in (printed, unprinted)])
