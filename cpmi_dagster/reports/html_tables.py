"""Frames as tables to read: a comparison with the paper's figures, or any other frame.

row "CPMI", column "GSM8K"  ->  TableCell(ours="41.2", interval="[36.0, 46.1]", paper="49.4")
column "share", 0.0653      ->  PlainCell("6.5 %", number=True)

A comparison with more than `WIDEST` columns and fewer rows is transposed, so that it fits the page.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

import polars as pl

from cpmi_dagster.reports.paper import PaperTable, without_protocol

WIDEST = 8
LONGEST = 90
"""Characters of a text in a plain table."""
SHARES = ("share", "similarity", "match_score")
"""Columns in [0, 1] that plain tables show in percent."""
SIGNIFICANT = 0.05
P_VALUE = " p"
"""Ends the name of a column of p-values."""
ADJUSTED_P_VALUE = " p (Holm)"
"""Ends the name of a column of p-values that are adjusted for the number of tests."""
DIFFERENCE = " − "
"""Is in the label of a row or column that is one figure minus another."""
DIFFERENCE_COLUMN = "Difference"
"""Begins the name of a column of differences."""
HEADINGS = {"AUC": "Step AUC", "ROC-AUC": "Step AUC", "RelEff AUC": "RelEff Step AUC"}
"""The paper's AUC is the reward model's, on steps; the report names it so, as labels have an AUC too."""


class TableCell(NamedTuple):
    """The texts of one cell; empty strings where there is nothing.

    `within_noise` marks a difference whose interval contains 0, and its p-value.
    """

    ours: str = ""
    interval: str = ""
    paper: str = ""
    within_noise: bool = False


EMPTY = TableCell()


class TableRow(NamedTuple):
    """A row label and its cells, in the order of the table's columns."""

    label: str
    cells: tuple[TableCell, ...]


class ColumnGroup(NamedTuple):
    """Neighbouring columns under one heading; `name` is empty for a single column."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class ComparisonTable:
    """One artifact as a table.

    Attributes:
        caption: sample size; empty where nothing is measured.
        folded: a second table with rows shown only on request.
    """

    caption: str
    groups: tuple[ColumnGroup, ...]
    rows: tuple[TableRow, ...]
    folded: "ComparisonTable | None" = None

    @property
    def grouped(self) -> bool:
        """Whether the head needs a second line."""
        return any(group.name for group in self.groups)


class PlainCell(NamedTuple):
    """The text of one cell; `whole` is the full text where it is cut, `number` aligns it to the right."""

    text: str
    whole: str = ""
    number: bool = False


class PlainTable(NamedTuple):
    """Headings and rows of cells."""

    columns: tuple[str, ...]
    rows: tuple[tuple[PlainCell, ...], ...]


def comparison_table(table: PaperTable, comparison: pl.DataFrame, folded_rows: Collection[str] = ()) -> ComparisonTable:
    """Arrange `tables.PaperComparison` rows by row and column, as the paper prints them.

    Args:
        table: the paper's table, for column order and decimals.
        comparison: of its artifact; the result is without rows if it is empty.
        folded_rows: labels of rows of the second table.
    """
    columns = order_columns(list(table.columns), comparison["column"].unique(maintain_order=True).to_list())
    rows = comparison["row"].unique(maintain_order=True).to_list()
    folded = [row for row in rows if row in folded_rows]
    shown = _arrange(table, comparison, [row for row in rows if row not in folded_rows], columns)
    return replace(shown, folded=_arrange(table, comparison, folded, columns) if folded else None)


def plain_table(frame: pl.DataFrame) -> PlainTable:
    """A frame as text: shares in percent, thousands separated by commas, long texts cut."""
    rows = (zip(frame.columns, row, strict=True) for row in frame.iter_rows())
    return PlainTable(
        tuple(column.replace("_", " ") for column in frame.columns),
        tuple(tuple(_plain_cell(value, column in SHARES) for column, value in row) for row in rows),
    )


def order_columns(printed: Sequence[str], present: Sequence[str]) -> list[str]:
    """The paper's columns in its order, then ours; columns of other protocols follow their namesake."""
    extra = [column for column in present if column not in printed]
    own = [column for column in extra if without_protocol(column) not in printed]
    ordered = []
    for column in (*(column for column in printed if column in present), *own):
        ordered.append(column)
        ordered += [other for other in extra if other not in own and without_protocol(other) == column]
    return ordered


def group_columns(columns: Sequence[str]) -> tuple[ColumnGroup, ...]:
    """Put neighbouring columns that share their first word under one heading: `GSM8K Err`, `GSM8K F1` under GSM8K."""
    groups = []
    for (word, _), run in groupby(columns, key=lambda column: (column.split(" ", 1)[0], " " in column)):
        members = tuple(run)
        shared = f"{word} " if len(members) > 1 else ""
        groups.append(ColumnGroup(shared.strip(), tuple(_heading(member.removeprefix(shared)) for member in members)))
    return tuple(groups)


def format_figure(figure: float | None, decimals: int | None = None) -> str:
    """A figure with fixed decimals, or with three significant digits; empty for null."""
    if figure is None:
        return ""
    if decimals is None:
        decimals = 0 if abs(figure) >= 100 else 1 if abs(figure) >= 10 else 2 if abs(figure) >= 1 else 3
    return f"{round(figure, decimals) + 0.0:,.{decimals}f}".replace("-", "−")  # + 0.0: no minus before a zero


def format_interval(low: float | None, high: float | None, decimals: int | None = None) -> str:
    """`[low, high]`, or nothing where there is no interval."""
    if low is None or high is None:
        return ""
    return f"[{format_figure(low, decimals)}, {format_figure(high, decimals)}]"


def _arrange(table: PaperTable, comparison: pl.DataFrame, rows: list[str], columns: list[str]) -> ComparisonTable:
    """Some rows of a comparison, without columns that have no figure of ours, and rows that are then empty;
    the paper's columns where nothing has."""
    figures = comparison.filter(pl.col("row").is_in(rows))
    ours = figures.drop_nulls("measured")
    columns = [column for column in columns if column in set((ours if ours.height else figures)["column"])]
    cells = {(figure["row"], figure["column"]): _cell(figure, table) for figure in figures.iter_rows(named=True)}
    rows = [row for row in rows if any(cells.get((row, column), EMPTY) != EMPTY for column in columns)]
    if len(columns) > max(WIDEST, len(rows)):
        groups = tuple(ColumnGroup("", (row,)) for row in rows)
        places = [(_heading(column), [(row, column) for row in rows]) for column in columns]
    else:
        groups = group_columns(columns)
        places = [(row, [(row, column) for column in columns]) for row in rows]
    lines = tuple(TableRow(label, tuple(cells.get(place, EMPTY) for place in line)) for label, line in places)
    return ComparisonTable(_caption(figures), groups, lines)


def _heading(column: str) -> str:
    return HEADINGS.get(column, column)


def _cell(figure: dict, table: PaperTable) -> TableCell:
    printed = table.decimals(figure["column"])
    measured = printed if printed is None or printed else _decimals_of_ours(figure["measured"])
    return TableCell(
        ours=format_figure(figure["measured"], measured),
        interval=format_interval(figure["low"], figure["high"], measured),
        paper=format_figure(figure["paper"], printed),
        within_noise=_is_difference(figure) and _is_noise(figure),
    )


def _is_difference(figure: dict) -> bool:
    return DIFFERENCE in figure["row"] + figure["column"] or figure["column"].startswith(DIFFERENCE_COLUMN)


def _is_noise(figure: dict) -> bool:
    """Whether a difference is within noise, by its interval or its p-value."""
    if figure["column"].endswith((P_VALUE, ADJUSTED_P_VALUE)):
        return figure["measured"] > SIGNIFICANT
    return figure["low"] is not None and figure["low"] <= 0 <= figure["high"]


def _decimals_of_ours(figure: float | None) -> int:
    """In columns that the paper prints as whole numbers, small measured figures keep one digit."""
    return 0 if figure is None or abs(figure) >= 10 or float(figure).is_integer() else 1


def _caption(comparison: pl.DataFrame) -> str:
    sizes = comparison["n"].drop_nulls()
    counts = [f"{size:,}" for size in dict.fromkeys((sizes.min(), sizes.max()))] if len(sizes) else []
    return f"Ours: n = {' to '.join(counts)}." if counts else ""


def _plain_cell(value: object, share: bool) -> PlainCell:
    if value is None or value == "":
        return PlainCell("–")
    if isinstance(value, float):
        return PlainCell(f"{100 * value:.1f} %" if share else f"{value:.3f}", number=True)
    if isinstance(value, int):
        return PlainCell(f"{value:,}", number=True)
    text = str(value)
    return PlainCell(text) if len(text) <= LONGEST else PlainCell(f"{text[:LONGEST].rstrip()} …", text)
