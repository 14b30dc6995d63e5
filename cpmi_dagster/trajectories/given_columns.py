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

MOST_BITS = 63


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

    A column of lists of truth values, of numbers or of texts stays one. Elsewhere objects and lists are JSON text, since
    another row may hold something else, and so are integers of over 64 bits.
    """
    kept = dict.fromkeys(name for row in rows for name in row)
    lists = {name for name in kept if _is_of_lists([row[name] for row in rows if row.get(name) is not None])}
    return [{name: value if name in lists else _as_cell(value) for name, value in row.items()} for row in rows]


def _is_of_lists(values: Sequence[Any]) -> bool:
    kinds = {type(item) for value in values if isinstance(value, list) for item in value} - {type(None)}
    is_plain = bool(kinds) and any(kinds <= same for same in ({bool}, {int, float}, {str}))
    return is_plain and all(isinstance(value, list) and not any(map(_is_long, value)) for value in values)


def _is_long(value: Any) -> bool:
    return isinstance(value, int) and value.bit_length() > MOST_BITS


def _as_cell(value: Any) -> Any:
    is_text = _is_long(value) or isinstance(value, dict | list)
    return json.dumps(value, ensure_ascii=False, default=str) if is_text else value
