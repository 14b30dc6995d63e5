"""The console of all commands: control characters of data are shown and not obeyed, frames are tables, CSV or JSON.

show_frame(OUT, frame, "table")     a table; long texts are cut
show_frame(OUT, frame, "json")      [{"trajectory_id": "t000000017", …}, …], lists and structs as they are
"""

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from cpmi_dagster.errors import CpmiError
from cpmi_dagster.files.text import cut, printable

if TYPE_CHECKING:
    import polars as pl

MAX_CELL, UNBROKEN = 100, 12


class SafeConsole(Console):
    """Rich's console for text that comes from data, files and servers."""

    def __init__(self, **options: Any) -> None:
        # `:100:` in a text is not an emoji
        super().__init__(emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Render a line, cell or title with its control characters written out."""
        return super().render_str(printable(text), **options)

    def warn(self, message: str) -> None:
        """Print a message as it is: `[red]` in it is text."""
        self.print(message, highlight=False, markup=False, soft_wrap=True)

    def complain(self, message: str) -> None:
        """Print the error that ends a command."""
        self.print(f"[red]error:[/red] {escape(message)}", highlight=False, soft_wrap=True)

    def write(self, text: str) -> None:
        """Write text unchanged for a program that reads it, and printable on a terminal."""
        self.file.write(printable(text) if self.is_terminal else text)


def show_frame(console: SafeConsole, frame: "pl.DataFrame", form: str) -> None:
    """Print a frame as `table`, `csv` or `json`."""
    if form == "csv":
        console.write(_flat(frame).write_csv())
    elif form == "json":
        console.write(_json_text([dict(zip(frame.columns, row, strict=True)) for row in _rows(frame)]) + "\n")
    else:
        console.print(table_of(frame))


def table_of(frame: "pl.DataFrame", title: str | None = None) -> Table:
    """A frame as a rich table."""
    table = new_table(title)
    rows = [[_text(_cell(value)) for value in row] for row in _rows(frame)]
    for index, (name, dtype) in enumerate(frame.schema.items()):
        justify = "right" if dtype.is_numeric() else "left"
        widest = max((len(row[index]) for row in rows), default=0)
        # a long text may wrap, a number may not
        least = widest if widest <= UNBROKEN else None
        table.add_column(_text(name), justify=justify, overflow="fold", no_wrap=not index, min_width=least)
    for row in rows:
        table.add_row(*row)
    return table


def new_table(title: str | None, **options: Any) -> Table:
    """An empty table in the style of all commands."""
    return Table(title=title and _text(title), title_justify="left", header_style="bold", box=box.SIMPLE, **options)


def facts_table(title: str, facts: Mapping[str, Any]) -> Table:
    """A table of names and values, without missing ones; each item of a list has a line."""
    table = new_table(title, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in facts.items():
        if value is None or value == "":
            continue
        lines = value if isinstance(value, list) else [value]
        table.add_row(name, _text("\n".join(str(line) for line in lines)))
    return table


def _text(text: str) -> Text:
    """A text as it is: neither markup nor control characters of it act."""
    return Text(printable(text))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return cut(f"{value:.4f}" if isinstance(value, float) else str(value), MAX_CELL)


def _flat(frame: "pl.DataFrame") -> "pl.DataFrame":
    """The frame with lists and structs as JSON text and bytes in hexadecimal, for CSV."""
    import polars as pl
    import polars.selectors as cs

    nested = [name for name, dtype in frame.schema.items() if dtype.is_nested()]
    texts = {name: [None if value is None else _json_text(value) for value in _values(frame[name])] for name in nested}
    flat = frame.with_columns(**{name: pl.Series(values, dtype=pl.String) for name, values in texts.items()})
    return flat.with_columns(cs.binary().bin.encode("hex"))


def _rows(frame: "pl.DataFrame") -> Iterator[tuple[Any, ...]]:
    return zip(*(_values(frame[name]) for name in frame.columns), strict=True)


def _values(column: "pl.Series") -> list[Any]:
    """The values of a column.

    Raises:
        CpmiError: a value is a map whose keys are lists or structs.
    """
    try:
        return column.to_list()
    except TypeError as error:
        name = column.name
        raise CpmiError(
            f'the column `{name}` contains a map that cannot be shown; cast it, as in `"{name}"::varchar`'
        ) from error


def _json_text(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """The value in types of JSON; DuckDB returns sums of integers as decimals."""
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float):
        return value if isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return value.hex() if isinstance(value, bytes) else str(value)
