"""A user's rows, given back in their type with columns of ours beside their own.

beside({"id": 7, "reason": "mine"}, ["2 + 3 = 5."], {"reason": None})
                                                        {"id": 7, "input_reason": "mine", "steps": […], "reason": None}
free_name("reason", {"reason": "mine"}, ["reason"])     input_reason
plain({"score": nan, "text": "a\ud800"})                {"score": None, "text": "a�"}
as_cells([{"meta": {"n": 1}, "kept": [true, false]}])   [{"meta": '{"n": 1}', "kept": [true, false]}]
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import polars as pl

from cpmi_dagster.errors import UsageError
from cpmi_dagster.files.text import encodable
from cpmi_dagster.files.whole_files import whole_file

STEPS = "steps"
"""The column of ours that takes the place of one of the same name."""
FORMATS = (".jsonl", ".parquet")

MOST_OF_AN_INTEGER, MOST_OF_A_FLOAT = 63, 53
"""Bits."""


def beside(row: Mapping[str, Any], steps: Sequence[str] | None, ours: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its steps and columns of ours behind its own; one of theirs with such a name becomes `input_…`.

    Args:
        steps: as split; None if the row was not read, and then its own stay, or stand in `input_steps` if they are
            none.
    """
    own = {free_name(column, row, ours): value for column, value in row.items()}
    if steps is None and STEPS in row:
        if _are_steps(row[STEPS]):
            steps = row[STEPS]
        else:  # as they came, they fit no column of steps
            own = {free_name(STEPS, row, [STEPS, *ours]): row[STEPS]} | own
    return own | {STEPS: steps, **ours}


def _are_steps(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(step, str) for step in value)


def give_back(table: Any, rows: list[dict[str, Any]], ours: Mapping[str, pl.DataType | type[pl.DataType]]) -> Any:
    """Rows in the type of the table they came in: a list of dicts, a pandas frame, a Dataset, or else a polars frame.

    Args:
        table: as for `given_rows.table_rows`.
        rows: of `beside`, one for each row of the table.
        ours: the types of our columns but `steps`.
    """
    if isinstance(table, list | tuple):
        return rows
    is_pandas, is_dataset = hasattr(table, "notna"), hasattr(table, "to_polars")
    own: Any = table if is_pandas or is_dataset else pl.DataFrame(table)
    columns = dict.fromkeys(own.column_names if is_dataset else own.columns)
    names = {name: free_name(name, columns, ours) for name in columns}
    schema = {STEPS: pl.List(pl.String), **ours}
    added = {name: [row[name] for row in rows] for name in schema}
    if is_pandas:
        return own.rename(columns=names).assign(**added)
    frame = pl.DataFrame(added, schema, strict=False)
    if not is_dataset:
        return own.rename(names).with_columns(frame.get_columns())
    from datasets import Dataset, concatenate_datasets

    if not rows:  # datasets drops empty tables when it joins them
        return Dataset.from_polars(own.to_polars().rename(names).with_columns(frame.get_columns()))
    own = own.rename_columns(names).remove_columns([name for name in columns if name == STEPS])
    return concatenate_datasets([own, Dataset.from_polars(frame)], axis=1)


def check_format(output: Path, what: str) -> None:
    """Refuse a file whose name has no ending of `FORMATS`, by a `UsageError`."""
    if output.suffix not in FORMATS:
        raise UsageError(f"--output {output}: {what} are written as {' or '.join(FORMATS)}; give it such an ending")


def write_rows(output: Path, rows: Iterable[Mapping[str, Any]], ours: Collection[str]) -> None:
    """Write rows of plain values as JSON Lines or Parquet; the file appears whole or not at all.

    Args:
        ours: columns whose values are of one type; in Parquet the others are as of `as_cells`.
    """
    with whole_file(output) as unfinished:
        if output.suffix == ".parquet":
            given = list(rows)
            own = as_cells([{name: value for name, value in row.items() if name not in ours} for row in given])
            added = ({name: row[name] for name in ours} for row in given)
            whole = [columns | of_ours for columns, of_ours in zip(own, added, strict=True)]
            pl.DataFrame(whole, infer_schema_length=None, strict=False).write_parquet(unfinished)
        else:
            with unfinished.open("w", encoding="utf-8") as file:
                file.writelines(f"{json.dumps(row, ensure_ascii=False, default=str)}\n" for row in rows)


def free_name(name: str, row: Mapping[str, Any], ours: Collection[str]) -> str:
    """The name of a column of a row beside ours: `input_…` if we have one of its name."""
    free = name
    while free in ours or (free != name and free in row):
        free = f"input_{free}"
    return free


def plain(value: Any) -> Any:
    """A value as JSON can hold it: no lone surrogates, and null for NaN and infinity."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def as_cells(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of plain values as columns of Parquet can hold them.

    A column of truth values, of numbers or of texts, or of lists of one of these, stays one. Elsewhere all but texts
    are JSON text: objects, values of several kinds, and numbers that a column of them would round.
    """
    columns: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    whole = {name for name, values in columns.items() if _is_of_one_kind(values)}
    return [{name: value if name in whole else _as_text(value) for name, value in row.items()} for row in rows]


def _is_of_one_kind(values: Sequence[Any]) -> bool:
    known = [value for value in values if value is not None]
    lists = [value for value in known if isinstance(value, list)]
    if lists:
        items = [item for value in lists for item in value if item is not None]
        return len(lists) == len(known) and bool(items) and _are_alike(items)
    return _are_alike(known)


def _are_alike(values: Sequence[Any]) -> bool:
    kinds = {type(value) for value in values}
    if kinds <= {int, float}:
        exact = MOST_OF_A_FLOAT if float in kinds else MOST_OF_AN_INTEGER
        return all(value.bit_length() <= exact for value in values if isinstance(value, int))
    return kinds <= {bool} or kinds <= {str}


def _as_text(value: Any) -> Any:
    is_kept = value is None or isinstance(value, str)
    return value if is_kept else json.dumps(value, ensure_ascii=False, default=str)
