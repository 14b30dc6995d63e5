"""The headline table: one row per reward type, then what they are to be measured by.

    reward                        label_auc  processbench_f1  prm_score  best_of_8  time_ratio  token_ratio
    MC                                0.812             31.4       44.0       62.5        1.00         1.00
    CPMI                              0.747             28.9       47.1       63.8        0.21         0.02
    Step surprisal                    0.770                –          –          –           –            –
    Best free label                   0.661                –          –          –           –            –
    Majority vote                         –                –          –       64.0           –            –
    Trained on true steps                 –             41.2       58.3       64.1           –            –
    Trained on uniform labels             –             18.5       40.2       57.9           –            –
    Chance                            0.500             19.8       41.0       58.1           –            –
    Ceiling                           1.000            100.0      100.0       80.0           –            –

Step surprisal takes the labeler, but no gold answer. Models trained on true steps and on uniform labels say whether
reward models can be compared at all. Chance is uniform random scores, and a blind pick among steps or candidates
(Pass@1); the ceiling of best of 8 is Pass@8. The best free label may be another one in each column. Every value has its
interval in `<column>_low` and `<column>_high`, and what is resampled for it in `<column>_units` and `<column>_unit`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import polars as pl

from cpmi_dagster.benchmarks.step_distribution import CHANCE_AUC
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.reports.labels import FOUND, LABEL_AUC, WITHOUT_LAST
from cpmi_dagster.reports.paper import (
    COMPARISON_SCHEMA,
    OFFICIAL,
    format_figure,
    format_interval,
)
from cpmi_dagster.reports.quality import BOUNDS
from cpmi_dagster.reports.reward_rows import (
    CEILING_ROW,
    CHANCE_ROW,
    FLOOR_ROW,
    FREE_ROWS,
    GOLDLESS_ROWS,
    MAIN_ROWS,
    main_rows,
)
from cpmi_dagster.rewards.registry import CORPUS_LABELS, REWARD_TYPES, reward_label

NOTHING = pl.DataFrame(schema=COMPARISON_SCHEMA)
OF_INTERVALS = ("low", "high", "units", "unit")


@dataclass(frozen=True)
class HeadlineColumn:
    """One column of the headline and the column of an artifact it comes from.

    Attributes:
        artifact: artifact that has the figure.
        column: column of that artifact.
        suffix: of the artifact's rows, for a protocol.
        fixed: figures of rows of the headline that no row of the artifact has: the chance, the best there is.
        renamed: rows of the artifact that are rows of the headline under another name.
    """

    name: str
    title: str
    artifact: str
    column: str
    decimals: int
    fixed: Mapping[str, float]
    renamed: Mapping[str, str]
    suffix: str = ""


BEST_FREE, MAJORITY, CEILING = "Best free label", BOUNDS["majority"], "Ceiling"
PERCENT, SHARE, AUC = {CEILING: 100.0}, {CEILING: 1.0}, {CEILING: 1.0, CHANCE_ROW: CHANCE_AUC}
PICKS = {BOUNDS["pass_at_1"]: CHANCE_ROW, BOUNDS["pass_at_n"]: CEILING}
HEADLINE_COLUMNS = (
    HeadlineColumn("label_auc", "Label AUC (true steps)", "label_quality", LABEL_AUC, 3, AUC, {}),
    HeadlineColumn("label_auc_inner", "… without last steps", "label_quality", WITHOUT_LAST, 3, AUC, {}),
    HeadlineColumn("first_error_found", "First wrong step found", "label_quality", FOUND, 2, SHARE, {}),
    HeadlineColumn("processbench_f1", "ProcessBench F1", "processbench", "Average", 1, PERCENT, {}, OFFICIAL),
    HeadlineColumn("prm_score", "PRMScore", "prmbench", "Total", 1, PERCENT, {}),
    HeadlineColumn("best_of_8", "MATH500 best of 8 (%)", "best_of_n", "MATH500 N=8", 1, {}, PICKS),
    HeadlineColumn("token_ratio", "Tokens (MC = 1)", "efficiency", "Token", 2, {}, {}),
    HeadlineColumn("time_ratio", "Time (MC = 1)", "efficiency", "Time", 2, {}, {}),
)


def headline_table(frames: Mapping[str, pl.DataFrame], recipes: Sequence[Recipe] = ()) -> pl.DataFrame:
    """One row per main reward type: label quality, reward-model quality, cost; then what needs no reward model.

    Args:
        frames: comparison frames (`tables.PaperComparison`) by artifact name; absent ones leave nulls.
        recipes: the profile's reward models; those that differ in more than their labels have no row here.

    Returns:
        Columns `reward`, then each of `HEADLINE_COLUMNS` with `_low`, `_high`, `_units` and `_unit`; only rows with any
        figure, and none where no label or reward model has one.
    """
    quality, costs = (frames.get(name, NOTHING)["row"].to_list() for name in ("label_quality", "efficiency"))
    of_recipes = {row.row for row in main_rows(recipes) if row.recipe}
    known = of_recipes | {entry.label for entry in REWARD_TYPES.values()} | {CHANCE_ROW, CEILING_ROW, FLOOR_ROW}
    # labels that come with the data: Math-Shepherd's where a model learned from them, and the user's own
    corpus = [row for row in costs if row == reward_label(CORPUS_LABELS)]
    with_data = dict.fromkeys([*corpus, *(row for row in (*quality, *costs) if row not in known)])
    labels = [*(recipe.row for recipe in MAIN_ROWS), *with_data]
    table = pl.DataFrame(
        {"reward": [*labels, *GOLDLESS_ROWS, BEST_FREE, MAJORITY, CEILING_ROW, FLOOR_ROW, CHANCE_ROW, CEILING]}
    )
    for name, _, artifact, own_column, _, fixed, renamed, suffix in map(astuple, HEADLINE_COLUMNS):
        figures = frames.get(artifact, NOTHING).filter(pl.col("row").str.ends_with(suffix), column=own_column)
        figures = figures.with_columns(pl.col("row").str.strip_suffix(suffix).replace(renamed))
        own = figures.drop_nulls("measured").select("row", "measured", *OF_INTERVALS)
        free = own.filter(pl.col("row") == (best_free(figures, own_column) or "")).with_columns(row=pl.lit(BEST_FREE))
        floors = list(fixed.items()) if own.height else []
        limits = pl.DataFrame(floors, schema={"row": pl.String, "measured": pl.Float64}, orient="row")
        every = pl.concat([own, free, limits], how="diagonal").unique("row", keep="first", maintain_order=True)
        shown = every.rename({"row": "reward", "measured": name, **{each: f"{name}_{each}" for each in OF_INTERVALS}})
        table = table.join(shown, on="reward", how="left", maintain_order="left")
    measured = table.filter(pl.any_horizontal(pl.col(column.name).is_not_null() for column in HEADLINE_COLUMNS))
    return measured if measured["reward"].is_in(labels).any() else measured.clear()


def best_free(comparison: pl.DataFrame, column: str) -> str | None:
    """The row of the free control that is best in a column of a comparison frame; None where there is none."""
    figures = comparison.filter(pl.col("row").is_in(FREE_ROWS), pl.col("column") == column)
    ranked = figures.drop_nulls("measured").sort("measured")["row"].to_list()
    return ranked[-1] if ranked else None


def shown_columns(table: pl.DataFrame) -> list[HeadlineColumn]:
    """The columns of a headline that have a figure."""
    return [column for column in HEADLINE_COLUMNS if table[column.name].count()]


def headline_texts(row: Mapping[str, Any], column: HeadlineColumn) -> tuple[str, str]:
    """One figure of a headline row and its interval, as text; empty where not measured."""
    return (
        format_figure(row[column.name], column.decimals),
        format_interval(row, column.decimals, f"{column.name}_"),
    )


def format_headline(table: pl.DataFrame) -> pl.DataFrame:
    """The headline as strings for people, `0.747 [0.702, 0.790; n=96]`, under readable headings; `–`: not measured."""
    rows, columns = [], shown_columns(table)
    for row in table.iter_rows(named=True):
        texts = {column.title: " ".join(headline_texts(row, column)).strip() or "–" for column in columns}
        rows.append({"Reward": row["reward"], **texts})
    return pl.DataFrame(rows, schema=dict.fromkeys(["Reward", *(column.title for column in columns)], pl.String()))


def measures_labels(headline: pl.DataFrame) -> bool:
    """Whether a headline, as `format_headline` gives it, says how good labels are: their steps' truth is known."""
    titles = {column.title for column in HEADLINE_COLUMNS if column.artifact == "label_quality"}
    return not titles.isdisjoint(headline.columns)
