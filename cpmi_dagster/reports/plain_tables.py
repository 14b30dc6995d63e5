"""Any frame as a table to read, its figures rounded and its long texts cut.

rows   share    question                          rows    share    question
1204   0.0653   A train of 300 characters …  ->   1,204   6.5 %    A train of … (the whole text on hover)
"""

from dataclasses import dataclass

import polars as pl

SHARES = ("share", "similarity", "match_score")
"""Columns in [0, 1] that are shown in percent."""
LONGEST = 90


@dataclass(frozen=True)
class PlainCell:
    """The text of one cell; `whole` is the full text where it is cut, `number` aligns it to the right."""

    text: str
    whole: str = ""
    number: bool = False


@dataclass(frozen=True)
class PlainTable:
    """Headings and rows of cells."""

    columns: tuple[str, ...]
    rows: tuple[tuple[PlainCell, ...], ...]


def plain_table(frame: pl.DataFrame) -> PlainTable:
    """A frame as text: shares in percent, thousands separated by commas, long texts cut."""
    return PlainTable(
        tuple(column.replace("_", " ") for column in frame.columns),
        tuple(
            tuple(_cell(value, column in SHARES) for column, value in zip(frame.columns, row, strict=True))
            for row in frame.iter_rows()
        ),
    )


def _cell(value: object, share: bool) -> PlainCell:
    if value is None or value == "":
        return PlainCell("–")
    if isinstance(value, float):
        return PlainCell(f"{100 * value:.1f} %" if share else f"{value:.3f}", number=True)
    if isinstance(value, int):
        return PlainCell(f"{value:,}", number=True)
    text = str(value)
    return PlainCell(text) if len(text) <= LONGEST else PlainCell(f"{text[:LONGEST].rstrip()} …", text)
