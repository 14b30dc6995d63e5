"""The headline: one row per reward type, from the artifacts' figures.

    reward       label_auc  processbench_f1  prm_score  best_of_8  time_ratio  token_ratio
    MC               0.812             31.4       44.0       62.5        1.00         1.00
    CPMI             0.747             28.9       47.1       63.8        0.21         0.02
    Pass@1               –                –          –       58.1           –            –

The last rows use no reward model: Pass@1 is a blind pick. Every value has its interval in `<column>_low` and
`<column>_high`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.reports.html_tables import TableCell, format_figure, format_interval
from cpmi_dagster.reports.paper import COMPARISON_SCHEMA
from cpmi_dagster.reports.question_sets import NO_REWARD_MODEL
from cpmi_dagster.reports.reward_rows import MAIN_ROWS, main_rows
from cpmi_dagster.rewards.registry import CORPUS_LABELS, REWARD_TYPES, reward_label

BASELINE = "MC"
OTHERS_ARE_IN = ("label_quality", "efficiency")


@dataclass(frozen=True)
class HeadlineColumn:
    """One column of the headline and the column of an artifact it comes from.

    Attributes:
        phrase: how a sentence names it.
        artifact: artifact that has the figure.
        column: column of that artifact.
        quality: whether more is better; costs are not compared with a test.
    """

    name: str
    title: str
    phrase: str
    artifact: str
    column: str
    decimals: int
    quality: bool = True


HEADLINE_COLUMNS: tuple[HeadlineColumn, ...] = (
    HeadlineColumn("label_auc", "Label AUC (true steps)", "label AUC", "label_quality", "Label AUC", 3),
    HeadlineColumn("processbench_f1", "ProcessBench F1", "ProcessBench F1", "processbench", "Average", 1),
    HeadlineColumn("prm_score", "PRMScore", "PRMScore", "prmbench", "Total", 1),
    HeadlineColumn("best_of_8", "MATH500 best of 8 (%)", "best-of-8 accuracy", "best_of_n", "MATH500 N=8", 1),
    HeadlineColumn("time_ratio", "Time (MC = 1)", "time", "efficiency", "Time", 2, quality=False),
    HeadlineColumn("token_ratio", "Tokens (MC = 1)", "generated tokens", "efficiency", "Token", 2, quality=False),
)


def headline_table(frames: Mapping[str, pl.DataFrame], recipes: Sequence[Recipe] = ()) -> pl.DataFrame:
    """One row per main reward type: label quality, reward-model quality, cost; then what needs no reward model.

    Args:
        frames: comparison frames (`tables.PaperComparison`) by artifact name; absent ones leave nulls.
        recipes: the profile's reward models; those that differ in more than their labels have no row here.

    Returns:
        Columns `reward`, then each of `HEADLINE_COLUMNS` with `_low` and `_high`; only rows with any figure.
    """
    table = pl.DataFrame(
        {"reward": [*(recipe.row for recipe in MAIN_ROWS), *_other_labels(frames, recipes), *NO_REWARD_MODEL.values()]}
    )
    for column in HEADLINE_COLUMNS:
        table = table.join(_figures(frames, column), on="reward", how="left", maintain_order="left")
    return table.filter(pl.any_horizontal(pl.col(column.name).is_not_null() for column in HEADLINE_COLUMNS))


def format_headline(table: pl.DataFrame) -> pl.DataFrame:
    """The headline as strings for people, `0.747 [0.702, 0.790]`, under readable headings; `–` where not measured."""
    rows = []
    for row in table.iter_rows(named=True):
        cells = {column.title: headline_cell(row, column) for column in HEADLINE_COLUMNS}
        texts = {title: f"{cell.ours} {cell.interval}".strip() or "–" for title, cell in cells.items()}
        rows.append({"Reward": row["reward"], **texts})
    return pl.DataFrame(rows, schema=dict.fromkeys(["Reward", *(c.title for c in HEADLINE_COLUMNS)], pl.String()))


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
    others = of_recipes | {entry.label for entry in REWARD_TYPES.values()}
    own = [row for labels in rows.values() for row in labels if row not in others]
    return list(dict.fromkeys([*corpus, *own]))


def _figures(frames: Mapping[str, pl.DataFrame], column: HeadlineColumn) -> pl.DataFrame:
    names = {"row": "reward", "measured": column.name, "low": f"{column.name}_low", "high": f"{column.name}_high"}
    figures = frames.get(column.artifact, pl.DataFrame(schema=COMPARISON_SCHEMA)).filter(column=column.column)
    return figures.select(names.keys()).rename(names)
