"""The headline table: one row per reward type, then what they are to be measured by.

    reward                        Label AUC  ProcessBench F1  PRMScore  best of 8  Tokens  Time
    MC                                0.812             31.4      44.0       62.5    1.00  1.00
    CPMI                              0.747             28.9      47.1       63.8    0.02  0.21
    Step surprisal                    0.770                –         –          –       –     –
    Best free label: Position         0.661                –         –          –       –     –
    Majority vote                         –                –         –       64.0       –     –
    Trained on true steps                 –             41.2      58.3       64.1       –     –
    Trained on uniform labels             –             18.5      40.2       57.9       –     –
    Chance                            0.500             19.8      41.0       58.1       –     –
    Ceiling                           1.000            100.0     100.0       80.0       –     –

Step surprisal takes the labeler, but no gold answer. Models trained on true steps and on uniform labels say whether
reward models can be compared at all. Chance is uniform random scores, and a blind pick among steps or candidates
(Pass@1); the ceiling of best of 8 is Pass@8. The best free label is the one with the highest label AUC.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import polars as pl

from cpmi_dagster.benchmarks.metrics import CHANCE_AUC
from cpmi_dagster.benchmarks.resampling import Estimate
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.reports.best_label import best_free
from cpmi_dagster.reports.figures import figures_by_column
from cpmi_dagster.reports.labels import FOUND, LABEL_AUC, WITHOUT_LAST
from cpmi_dagster.reports.paper import OFFICIAL, format_estimate
from cpmi_dagster.reports.quality import BOUNDS
from cpmi_dagster.reports.reward_rows import (
    CEILING_ROW,
    CHANCE_ROW,
    FLOOR_ROW,
    GOLDLESS_ROWS,
    MAIN_ROWS,
    TOGETHER_ROWS,
    main_rows,
)
from cpmi_dagster.rewards.controls import CORPUS_LABELS
from cpmi_dagster.rewards.registry import REWARD_TYPES, reward_label

Headline = Mapping[str, Mapping[str, Estimate]]
"""By row, then by title of a column."""


class HeadlineColumn(NamedTuple):
    """One column of the headline and the column of an artifact it comes from.

    Attributes:
        artifact: artifact that has the figure.
        column: column of that artifact.
        limits: figures of rows of the headline that no row of the artifact has: the chance, the best there is.
        renamed: rows of the artifact that are rows of the headline under another name.
        suffix: of the artifact's rows, for a protocol.
        is_detail: a narrow terminal leaves it out.
    """

    title: str
    artifact: str
    column: str
    decimals: int
    limits: Mapping[str, float] = {}
    renamed: Mapping[str, str] = {}
    suffix: str = ""
    is_detail: bool = False


UNMEASURED = "–"
BEST_FREE, MAJORITY, CEILING = "Best free label", BOUNDS["majority"], "Ceiling"
PERCENT, SHARE, AUC = {CEILING: 100.0}, {CEILING: 1.0}, {CEILING: 1.0, CHANCE_ROW: CHANCE_AUC}
PICKS = {BOUNDS["pass_at_1"]: CHANCE_ROW, BOUNDS["pass_at_n"]: CEILING}
HEADLINE_COLUMNS = (
    HeadlineColumn("Label AUC without last steps", "label_quality", WITHOUT_LAST, 3, AUC),
    HeadlineColumn("… over all steps", "label_quality", LABEL_AUC, 3, AUC, is_detail=True),
    HeadlineColumn("First wrong step found", "label_quality", FOUND, 2, SHARE, is_detail=True),
    HeadlineColumn("ProcessBench F1", "processbench", "Average", 1, PERCENT, suffix=OFFICIAL),
    HeadlineColumn("PRMScore", "prmbench", "Total", 1, PERCENT),
    HeadlineColumn("MATH500 best of 8 (%)", "best_of_n", "MATH500 N=8", 1, renamed=PICKS),
    HeadlineColumn("Tokens (MC = 1)", "efficiency", "Token", 2),
    HeadlineColumn("Time (MC = 1)", "efficiency", "Time", 2),
)


def headline_table(frames: Mapping[str, pl.DataFrame], recipes: Sequence[Recipe] = ()) -> Headline:
    """One row per main reward type: label quality, reward-model quality, cost; then what needs no reward model.

    Args:
        frames: comparison frames (`tables.PaperComparison`) by artifact name; absent ones have no figures.
        recipes: the profile's reward models; those that differ in more than their labels have no row here.

    Returns:
        Only rows with any figure, and none if no label or reward model has one.
    """
    quality, costs = (
        frames[name]["row"].to_list() if name in frames else [] for name in ("label_quality", "efficiency")
    )
    of_recipes = {row.row for row in main_rows(recipes) if row.recipe}
    known = of_recipes | {entry.label for entry in REWARD_TYPES.values()} | {CHANCE_ROW, CEILING_ROW, FLOOR_ROW}
    # labels that come with the data: Math-Shepherd's if a model learned from them, and the user's own
    corpus = [row for row in costs if row == reward_label(CORPUS_LABELS)]
    with_data = dict.fromkeys([*corpus, *(row for row in (*quality, *costs) if row not in known)])
    labels = [*(recipe.row for recipe in MAIN_ROWS), *with_data]
    columns = {column.title: _column(column, frames.get(column.artifact)) for column in HEADLINE_COLUMNS}
    # one label in all columns: one that finds steps and another that ranks solutions cannot both be used
    free = next((name for figures in columns.values() if (name := best_free(figures))), None)
    best = f"{BEST_FREE}: {free}"
    columns = {title: each | ({best: each[free]} if free in each else {}) for title, each in columns.items()}
    table = {
        row: {title: figures[row] for title, figures in columns.items() if row in figures}
        for row in (
            *labels,
            *TOGETHER_ROWS,
            *GOLDLESS_ROWS,
            best,
            MAJORITY,
            CEILING_ROW,
            FLOOR_ROW,
            CHANCE_ROW,
            CEILING,
        )
    }
    return {row: figures for row, figures in table.items() if figures} if any(table[row] for row in labels) else {}


def _column(column: HeadlineColumn, comparison: pl.DataFrame | None) -> dict[str, Estimate]:
    """The figures of a column by row of the headline; nothing if the artifact has none."""
    figures = {
        column.renamed.get(name := row.removesuffix(column.suffix), name): figure
        for row, figure in figures_by_column(comparison)[column.column].items()
        if row.endswith(column.suffix)
    }
    limits = {row: Estimate(value) for row, value in column.limits.items()} if figures else {}
    return limits | figures


def format_headline(table: Headline) -> pl.DataFrame:
    """The headline as strings for people, `0.747 [0.702, 0.790; n=96]`, under readable headings; `–`: not measured."""
    measured = {title for figures in table.values() for title in figures}
    decimals = {column.title: column.decimals for column in HEADLINE_COLUMNS if column.title in measured}
    texts = [
        {title: format_estimate(figures[title], places) for title, places in decimals.items() if title in figures}
        for figures in table.values()
    ]
    schema = dict.fromkeys(["Reward", *decimals], pl.String())
    rows = [{"Reward": row} | each for row, each in zip(table, texts, strict=True)]
    return pl.DataFrame(rows, schema).fill_null(UNMEASURED)


def measures_labels(headline: pl.DataFrame) -> bool:
    """Whether a headline, as `format_headline` gives it, says how good labels are: their steps' truth is known."""
    titles = {column.title for column in HEADLINE_COLUMNS if column.artifact == "label_quality"}
    return not titles.isdisjoint(headline.columns)
