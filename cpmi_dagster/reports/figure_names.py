"""Names of figures, as `cpmi trace --figure` takes them: a table of the report, its row and its column.

label_quality                           all figures of the table
label_quality/CPMI                      those of a row
label_quality/CPMI/Label AUC            the one of a row and column
differences/CPMI − MC/PB (official) p   labels are as in `reports.figures`, slashes included

A figure leads to the reward types and recipes of its row, and to those that its column compares it with:

artifact       row                 column            sources
label_quality  CPMI                                  cpmi
label_quality  CPMI                Difference to MC  cpmi, mc
label_trust    Agreement: CPMI     Step surprisal    cpmi, step_surprisal
processbench   CPMI (official)                       cpmi with its recipe cpmi_bce
best_of_n      CPMI, min                             cpmi with its recipe cpmi_bce
differences    Primary: CPMI − MC                    cpmi with cpmi_bce, mc with mc_bce
efficiency     CPMI                Time              cpmi with cpmi_bce, mc with mc_bce
processbench   Chance                                none
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import NamedTuple

import polars as pl

from cpmi_dagster.errors import CpmiError
from cpmi_dagster.reports.artifacts import ARTIFACTS, Artifact
from cpmi_dagster.reports.figures import ReportInputs
from cpmi_dagster.reports.paper import DIFFERENCE, without_protocol
from cpmi_dagster.reports.reward_rows import RecipeRow

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
