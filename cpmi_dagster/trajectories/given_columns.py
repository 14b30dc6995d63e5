"""Columns of a user's rows, given back beside ours.

free_name("reason", {"reason": "mine"}, ["reason"])     input_reason
plain({"score": nan, "text": "a\ud800"})                {"score": None, "text": "a�"}
as_cells([{"meta": {"n": 1}, "kept": [true, false]}])   [{"meta": '{"n": 1}', "kept": [true, false]}]
"""

import json
from collections.abc import Collection, Mapping, Sequence
from math import isfinite
from typing import Any

from cpmi_dagster.files.text import encodable

MOST_OF_AN_INTEGER, MOST_OF_A_FLOAT = 63, 53
"""Bits."""


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
