"""Columns of a user's rows, given back beside ours.

free_name("reason", {"reason": "mine"}, ["reason"])     input_reason
plain({"score": nan, "text": "a\ud800"})                {"score": None, "text": "a�"}
as_cell({"model": "x"})                                 '{"model": "x"}', since another row may hold something else
"""

import json
from collections.abc import Collection, Mapping
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


def as_cell(value: Any) -> Any:
    """A plain value as a column of Parquet can hold it: objects, lists and integers of over 64 bits as JSON text."""
    is_long = isinstance(value, int) and value.bit_length() > MOST_BITS
    return json.dumps(value, ensure_ascii=False, default=str) if is_long or isinstance(value, dict | list) else value
