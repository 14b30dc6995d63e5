"""The headline: one row per reward type, from the artifacts' figures, then what they are to be measured by.

    reward                        label_auc  processbench_f1  prm_score  best_of_8  time_ratio  token_ratio
    MC                                0.812             31.4       44.0       62.5        1.00         1.00
    CPMI                              0.747             28.9       47.1       63.8        0.21         0.02
    Step surprisal                    0.770                –          –          –           –            –
    Best free label                   0.661                –          –          –           –            –
    Majority vote                         –                –          –       64.0           –            –
    Chance                            0.500             19.8       41.0       58.1           –            –
    Ceiling                           1.000            100.0      100.0       80.0           –            –

Step surprisal takes the labeler, but no gold answer. Chance is uniform random scores, and a blind pick among steps or
candidates (Pass@1); the ceiling of best of 8 is Pass@8. The best free label may be another one in each column. Every
value has its interval in `<column>_low` and `<column>_high`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from cpmi_dagster.benchmarks.step_distribution import CHANCE_AUC
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.reports.html_tables import TableCell, format_figure, format_interval
from cpmi_dagster.reports.labels import BLIND, FOUND, LABEL_AUC, WITHOUT_LAST
from cpmi_dagster.reports.paper import COMPARISON_SCHEMA, OFFICIAL
from cpmi_dagster.reports.question_sets import BOUNDS
from cpmi_dagster.reports.reward_rows import CHANCE_ROW, FREE_ROWS, GOLDLESS_ROWS, MAIN_ROWS, main_rows
from cpmi_dagster.rewards.registry import CORPUS_LABELS, REWARD_TYPES, reward_label

NOTHING = pl.DataFrame(schema=COMPARISON_SCHEMA)
OTHERS_ARE_IN = ("label_quality", "efficiency")


@dataclass(frozen=True)
class HeadlineColumn:
    """One column of the headline and the column of an artifact it comes from.

    Attributes:
        artifact: artifact that has the figure.
        column: column of that artifact.
        suffix: of the artifact's rows, for a protocol.
        ceiling: the best there is; None for costs, and where a row of the artifact has it.
    """

    name: str
    title: str
    artifact: str
    column: str
    decimals: int
    suffix: str = ""
    ceiling: float | None = None


HEADLINE_COLUMNS: tuple[HeadlineColumn, ...] = (
    HeadlineColumn("label_auc", "Label AUC (true steps)", "label_quality", LABEL_AUC, 3, ceiling=1.0),
    HeadlineColumn("label_auc_inner", "… without last steps", "label_quality", WITHOUT_LAST, 3, ceiling=1.0),
    HeadlineColumn("first_error_found", "First wrong step found", "label_within", FOUND, 2, ceiling=1.0),
    HeadlineColumn("processbench_f1", "ProcessBench F1", "processbench", "Average", 1, OFFICIAL, 100.0),
    HeadlineColumn("prm_score", "PRMScore", "prmbench", "Total", 1, ceiling=100.0),
    HeadlineColumn("best_of_8", "MATH500 best of 8 (%)", "best_of_n", "MATH500 N=8", 1),
    HeadlineColumn("token_ratio", "Tokens (MC = 1)", "efficiency", "Token", 2),
    HeadlineColumn("time_ratio", "Time (MC = 1)", "efficiency", "Time", 2),
)
LABEL_ARTIFACTS = ("label_quality", "label_within")
BEST_FREE, CEILING = "Best free label", "Ceiling"
MAJORITY = BOUNDS["majority"]
BOUND_ROWS = {
    "best_of_n": {BOUNDS["pass_at_1"]: CHANCE_ROW, BOUNDS["pass_at_n"]: CEILING},
    "label_within": {BLIND: CHANCE_ROW},
}
"""Rows of an artifact that are its chance and its ceiling."""


def headline_table(frames: Mapping[str, pl.DataFrame], recipes: Sequence[Recipe] = ()) -> pl.DataFrame:
    """One row per main reward type: label quality, reward-model quality, cost; then what needs no reward model.

    Args:
        frames: comparison frames (`tables.PaperComparison`) by artifact name; absent ones leave nulls.
        recipes: the profile's reward models; those that differ in more than their labels have no row here.

    Returns:
        Columns `reward`, then each of `HEADLINE_COLUMNS` with `_low` and `_high`; only rows with any figure, and none
        where no label or reward model has one.
    """
    labels = [*(recipe.row for recipe in MAIN_ROWS), *_other_labels(frames, recipes)]
    table = pl.DataFrame({"reward": [*labels, *GOLDLESS_ROWS, BEST_FREE, MAJORITY, CHANCE_ROW, CEILING]})
    for column in HEADLINE_COLUMNS:
        table = table.join(_figures(frames, column), on="reward", how="left", maintain_order="left")
    measured = table.filter(pl.any_horizontal(pl.col(column.name).is_not_null() for column in HEADLINE_COLUMNS))
    return measured if measured["reward"].is_in(labels).any() else measured.clear()


def best_control(comparison: pl.DataFrame, column: str) -> str | None:
    """The row of the free control that is best in a column of a comparison frame; None where there is none."""
    if comparison.is_empty():
        return None
    figures = comparison.filter(pl.col("row").is_in(FREE_ROWS), pl.col("column") == column).drop_nulls("measured")
    return figures.sort("measured")["row"][-1] if figures.height else None


def shown_columns(table: pl.DataFrame) -> list[HeadlineColumn]:
    """The columns of a headline that have a figure."""
    return [column for column in HEADLINE_COLUMNS if table[column.name].count()]


def format_headline(table: pl.DataFrame) -> pl.DataFrame:
    """The headline as strings for people, `0.747 [0.702, 0.790]`, under readable headings; `–` where not measured."""
    rows, columns = [], shown_columns(table)
    for row in table.iter_rows(named=True):
        cells = {column.title: headline_cell(row, column) for column in columns}
        texts = {title: f"{cell.ours} {cell.interval}".strip() or "–" for title, cell in cells.items()}
        rows.append({"Reward": row["reward"], **texts})
    return pl.DataFrame(rows, schema=dict.fromkeys(["Reward", *(column.title for column in columns)], pl.String()))


def measures_labels(headline: pl.DataFrame) -> bool:
    """Whether a headline, as `format_headline` gives it, says how good labels are: their steps' truth is known."""
    titles = {column.title for column in HEADLINE_COLUMNS if column.artifact in LABEL_ARTIFACTS}
    return not titles.isdisjoint(headline.columns)


def headline_cell(row: Mapping[str, Any], column: HeadlineColumn) -> TableCell:
    """One figure of a headline row with its interval, formatted."""
    return TableCell(
        format_figure(row[column.name], column.decimals),
        format_interval(row[f"{column.name}_low"], row[f"{column.name}_high"], column.decimals),
    )


def _other_labels(frames: Mapping[str, pl.DataFrame], recipes: Sequence[Recipe]) -> list[str]:
    """Rows of labels that come with the data: Math-Shepherd's where a model learned from them, and the user's own."""
    rows = {artifact: frames[artifact]["row"].to_list() for artifact in OTHERS_ARE_IN if artifact in frames}
    corpus = [row for row in rows.get("efficiency", []) if row == reward_label(CORPUS_LABELS)]
    of_recipes = {row.row for row in main_rows(recipes) if row.recipe}
    others = of_recipes | {entry.label for entry in REWARD_TYPES.values()} | {CHANCE_ROW}
    own = [row for labels in rows.values() for row in labels if row not in others]
    return list(dict.fromkeys([*corpus, *own]))


def _figures(frames: Mapping[str, pl.DataFrame], column: HeadlineColumn) -> pl.DataFrame:
    """reward, and the column's figure with its interval; with floors and ceiling where the table has any figure."""
    figures = frames.get(column.artifact, NOTHING).filter(column=column.column).drop_nulls("measured")
    own = figures.filter(pl.col("row").str.ends_with(column.suffix)).with_columns(
        pl.col("row").str.strip_suffix(column.suffix)
    )
    control = best_control(own, column.column)
    free = own.filter(row=control).with_columns(row=pl.lit(BEST_FREE)) if control else own.clear()
    own = own.with_columns(pl.col("row").replace(BOUND_ROWS.get(column.artifact, {})))
    fixed = {CEILING: column.ceiling} | ({CHANCE_ROW: CHANCE_AUC} if column.artifact == "label_quality" else {})
    added = [(row, value) for row, value in fixed.items() if value is not None and own.height]
    floors = pl.DataFrame(added, schema={"row": pl.String, "measured": pl.Float64}, orient="row")
    names = {"row": "reward", "measured": column.name, "low": f"{column.name}_low", "high": f"{column.name}_high"}
    every = pl.concat([pl.concat([own, free]).select("row", "measured", "low", "high"), floors], how="diagonal")
    return every.unique("row", keep="first", maintain_order=True).rename(names)
