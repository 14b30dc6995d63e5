"""Every table and figure of the report: its inputs, its figures beside the paper's, and the names of figures.

ARTIFACTS["processbench"].needs    ->  ("sources/benchmark_problems", "benchmarks/processbench_predictions", …)
ARTIFACTS["merge_points"].rows     ->  RecipeRow("CPMI_Merge1", "cpmi_merge1"), …
build_artifact(ARTIFACTS["processbench"], inputs, "miniature")      a layout of measures that are computed once

artifact      row   column  paper  measured  low   high   n    units  unit      profile
processbench  CPMI  Math    39.6   41.2      36.0  46.1   120  96     question  miniature

A name, as `cpmi trace --figure` takes it, is that of a table, its row and its column, slashes of labels included. A
figure leads to the reward types and recipes of its row, and to those that its column compares it with:

label_quality                           all figures of the table
label_quality/CPMI                      those of a row                cpmi
label_quality/CPMI/Difference to MC     the one of a row and column   cpmi, mc
label_trust/Agreement: CPMI/Step surprisal                            cpmi, step_surprisal
best_of_n/CPMI, min                                                   cpmi with its recipe cpmi_bce
differences/Primary: CPMI − MC                                        cpmi with cpmi_bce, mc with mc_bce
processbench/Chance                                                   none
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from typing import NamedTuple

import polars as pl

from cpmi_dagster.contracts import keys
from cpmi_dagster.contracts.registries import by_name
from cpmi_dagster.contracts.report_tables import OF_LABELS, TOPIC_OF, TOPICS
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import CpmiError
from cpmi_dagster.reports import benchmark_tables, costs, label_trust, labels, models
from cpmi_dagster.reports.best_label import FREE_LABELS
from cpmi_dagster.reports.figures import Figure, ReportInputs, figure_frame
from cpmi_dagster.reports.paper import (
    BASELINE_TYPE,
    COMPARISON_SCHEMA,
    CONTRAST_ROWS,
    DIFFERENCE,
    MERGE_POINT_ROWS,
    PAV_MERGE_ROWS,
    PaperTable,
    RecipeRow,
    load_paper_tables,
    main_rows,
    negatives_rows,
    objective_rows,
    paper_figures,
    without_protocol,
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
    rows: Callable[[ReportInputs], Iterable[RecipeRow]] = lambda inputs: main_rows(inputs.recipes)
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
        Artifact("contrast", QUALITY, costs.measure_contrast, lambda _: CONTRAST_ROWS),
        Artifact("distribution", PROCESS_LEVEL, benchmark_tables.measure_distribution),
        Artifact("distribution_figure", PROCESS_LEVEL, benchmark_tables.measure_score_means),
        Artifact("processbench", PROCESS_LEVEL, benchmark_tables.measure_processbench),
        Artifact("prmbench", STEP_LEVEL, partial(benchmark_tables.measure_prmbench, level="group")),
        Artifact("best_of_n", (keys.CHOICES,), benchmark_tables.measure_best_of_n),
        Artifact("dataset_statistics_table", (keys.STATISTICS,), labels.measure_dataset_statistics, lambda _: ()),
        Artifact("processbench_detailed", PROCESS_LEVEL, partial(benchmark_tables.measure_processbench, detailed=True)),
        Artifact("prmbench_detailed", STEP_LEVEL, benchmark_tables.measure_prmbench),
        Artifact(
            "labelers",
            (*QUALITY, keys.COSTS),
            costs.measure_labelers,
            costs.labeler_rows,
            dict.fromkeys(RATIOS, TO_MC),
        ),
        Artifact("logic", (keys.CHOICES,), costs.measure_logic),
        Artifact("objectives", QUALITY, costs.measure_objectives, lambda inputs: objective_rows(inputs.recipes)),
        Artifact(
            "negatives_ablation",
            (*QUALITY, *LABELS, keys.NEGATIVES),
            costs.measure_negatives_ablation,
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


IS_OURS = pl.col("measured").is_not_null() | pl.col("units").is_not_null()
"""Whether a figure is ours: it is measured, or says of how few units it would be."""
MOST_NEAR = 5
NEAR = 0.4
"""Likeness of names from which one is suggested, in [0, 1]."""


class FigureName(NamedTuple):
    """All figures of an artifact, those of its row, or the one of its row and column."""

    artifact: str
    row: str | None = None
    column: str | None = None


def find_artifact(name: str) -> Artifact:
    """The artifact that the name of a figure begins with.

    Raises:
        CpmiError: there is none; the message has the nearest names.
    """
    artifact = name.partition("/")[0]
    if artifact not in ARTIFACTS:
        raise CpmiError(f"the report has no table `{artifact}`; {_nearest(artifact, ARTIFACTS)}")
    return ARTIFACTS[artifact]


def find_figures(artifact: Artifact, name: str, figures: pl.DataFrame) -> tuple[FigureName, pl.DataFrame]:
    """The name of figures in its parts, and their rows; of several labels that fit, the longest counts.

    Args:
        name: as `find_artifact` takes it.
        figures: all of the artifact.

    Raises:
        CpmiError: there is no such row or column; the message has the nearest names.
    """
    label, row = name.partition("/")[2], pl.col("row")
    if not label:
        return FigureName(artifact.name), figures
    rows = figures["row"].unique(maintain_order=True).to_list()
    begun = sorted((each for each in rows if f"{label}/".startswith(f"{each}/")), key=len, reverse=True)
    for each in begun:
        column, of_row = label[len(each) + 1 :], figures.filter(row == each)
        if not column:
            return FigureName(artifact.name, each), of_row
        if (of_both := of_row.filter(pl.col("column") == column)).height:
            return FigureName(artifact.name, each, column), of_both
    if not begun:
        raise CpmiError(f"reports.{artifact.name} has no row `{label}`; {_nearest(label, rows)}")
    column, columns = label[len(begun[0]) + 1 :], figures.filter(row == begun[0])["column"].to_list()
    raise CpmiError(
        f"the row `{begun[0]}` of reports.{artifact.name} has no column `{column}`; {_nearest(column, columns)}"
    )


def _nearest(name: str, names: Iterable[str]) -> str:
    """The names that contain a name or are spelled like it, else the first ones, in words."""
    written = {each.casefold(): each for each in names}
    near = [each for each in written if name.casefold() in each]
    near += get_close_matches(name.casefold(), written, MOST_NEAR, NEAR)
    shown = ", ".join(written[each] for each in list(dict.fromkeys(near or written))[:MOST_NEAR])
    return f"the nearest are {shown}" if near else f"it has {shown}{', …' if len(written) > MOST_NEAR else ''}"


class Source(NamedTuple):
    """A reward type behind a figure, and the recipe trained on it; None if no reward model is behind the figure."""

    reward_type: str
    recipe: str | None


def sources_of(
    artifact: Artifact, rows: Iterable[str], columns: Iterable[str], inputs: ReportInputs, *, with_compared: bool = True
) -> list[Source]:
    """The reward types and recipes behind figures of a table, each once, those of the rows first.

    Args:
        rows: labels of rows.
        columns: labels of columns; in a table of labels against labels, they name reward types too.
        inputs: recipes, labeler, M and, for tables on labels, the reward types in `labels/step_rewards`.
        with_compared: also what the columns compare the rows with.
    """
    listed, chosen = list(artifact.rows(inputs)), list(columns)
    by_label = {row.row: row for row in listed}
    by_type = {row.reward_type: row for row in reversed(listed)}
    parts = [part for row in rows for part in row.split(DIFFERENCE)]
    named = [found for part in parts if (found := _find_row(part, by_label))]
    if not artifact.has_models:
        named += [by_label[column] for column in chosen if column in by_label]
    for begins, types in artifact.compared.items() if with_compared else ():
        if any(column.startswith(begins) for column in chosen):
            named += [by_type[name] for name in types if name in by_type]
    sources = (Source(row.reward_type, inputs.recipe_of(row) if artifact.has_models else None) for row in named)
    return list(dict.fromkeys(sources))


def _find_row(label: str, rows: Mapping[str, RecipeRow]) -> RecipeRow | None:
    """The row that a label names, alone, with its protocol or rule behind it, or with its group before it."""
    of_group, rule, of_count = label.partition(": ")[2], label.rpartition(", ")[0], label.rpartition(", ")[2]
    names = (label, without_protocol(label), of_group, rule, of_count)
    return next((rows[name] for name in names if name in rows), None)
