"""Names of figures, as `cpmi trace --figure` takes them: a table of the report, its row and its column.

label_quality                           all figures of the table
label_quality/CPMI                      those of a row
label_quality/CPMI/Label AUC            the one of a row and column
differences/CPMI − MC/PB (official) p   labels are as in `reports.figures`, slashes included
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple

import polars as pl

from cpmi_dagster.errors import CpmiError
from cpmi_dagster.reports.artifacts import ARTIFACTS, Artifact

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
