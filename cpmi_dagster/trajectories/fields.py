"""Read the fields of a row of any form; a `MalformedRow` names a field that cannot be read.

gold_answer  5, "$5$.", null, ""     ->  "5", "5", None, None        (see `answers.gold`)
labels       [true, 0, "+"]          ->  [True, False, True]
steps        "['2 + 3 = 5.']"        ->  ["2 + 3 = 5."]              a list as text in a CSV cell
steps        ["2 + 3 = 5.", 7]       ->  MalformedRow("`steps.1`: it must be text")
"""

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from itertools import pairwise
from sys import float_info
from token import NL, STRING
from tokenize import generate_tokens
from typing import Any, TypeVar

from cpmi_dagster.answers.extraction import extract_answer
from cpmi_dagster.answers.gold import read_gold_answer
from cpmi_dagster.errors import MalformedRow
from cpmi_dagster.files.bounded_reading import MOST_ITEMS
from cpmi_dagster.files.text import encodable
from cpmi_dagster.trajectories.steps import clean

# 1 and 1.0 are True, 0 and 0.0 are False
LABELS = {True: True, False: False, "+": True, "-": False, "1": True, "0": False, "true": True, "false": False}
NO_LABEL = "a label is true, false, 1, 0, `+` or `-`; give soft ones as `sources.step_labels`"
NO_ERROR = -1
"""The first wrong step of a solution without any."""
_WHOLE_NUMBER = re.compile(r"-?\d{1,9}(?:\.0+)?")
Row = Mapping[str, Any]
Value = TypeVar("Value")


def read_field(row: Row, names: str, read: Callable[[Any], Value]) -> Value:
    """Read a field that has one of several names (`a|b`): the first one with a value, else null.

    Raises:
        MalformedRow: `read` raises a ValueError.
    """
    name = name_in(row, names)
    return _read(name, row.get(name), read)


def read_optional(row: Row, name: str, read: Callable[[Any], Value]) -> Value | None:
    """Read a field; None if it is missing or null. Raises as `read_field`."""
    return None if row.get(name) is None else _read(name, row[name], read)


def read_list(row: Row, names: str, read: Callable[[Any], Value], least: int = 1) -> list[Value]:
    """Read a list of at least `least` items. Raises as `read_field`, for the first wrong item."""
    name = name_in(row, names)
    items = _read(name, row.get(name), _read_items)
    if len(items) < least:
        raise MalformedRow(f"`{name}`: it is empty")
    return [_read(f"{name}.{place}", item, read) for place, item in enumerate(items)]


def name_in(row: Row, names: str) -> str:
    """The name of a field in a row: the first name of `a|b` with a value, else the first that is present."""
    either = names.split("|")
    there = [name for name in either if name in row] or either
    return next((name for name in there if row.get(name) is not None), there[0])


def _read(name: str, value: Any, read: Callable[[Any], Value]) -> Value:
    try:
        return read(value)
    except ValueError as error:
        raise MalformedRow(f"`{name}`: {error}") from error


def _read_items(value: Any) -> Sequence[Any]:
    items = read_cell(value, "[")
    if not isinstance(items, list | tuple):
        raise ValueError("it must be a list")
    if len(items) > MOST_ITEMS:
        raise ValueError(f"it must have at most {MOST_ITEMS:,} items, not {len(items):,}")
    return items


def read_text(value: Any) -> str:
    """Read a text; lone surrogates are replaced."""
    if not isinstance(value, str):
        raise ValueError("it must be text")
    return encodable(value)


def read_filled_text(value: Any) -> str:
    """Read a text that is not blank."""
    if not clean(read_text(value)):
        raise ValueError("it is empty")
    return read_text(value)


def read_identifier(value: Any) -> str | None:
    """Read a text or a whole number as text; None for a blank text. A column of pandas with a gap holds 1 as 1.0."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("it must be text or a whole number")
    return clean(encodable(str(value))) or None


def read_label(value: Any) -> bool:
    """Read a step label."""
    key = value.strip().lower() if isinstance(value, str) else value
    if not isinstance(key, bool | int | float | str) or key not in LABELS:
        raise ValueError(NO_LABEL)
    return LABELS[key]


def read_sure_label(value: Any) -> bool:
    """Read a step label in a field that may hold estimates: a float, even 1.0, is refused."""
    if isinstance(value, float):
        raise ValueError(NO_LABEL)
    return read_label(value)


def read_whole_number(value: Any) -> int:
    """Read a whole number; CSV writes it as text, pandas with missing values as 1.0."""
    number = int(float(value)) if isinstance(value, str | float) and _WHOLE_NUMBER.fullmatch(str(value)) else value
    if isinstance(number, bool) or not isinstance(number, int) or number < NO_ERROR:
        raise ValueError("it must be a whole number from -1")
    return number


def read_number(value: Any) -> float:
    """Read a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= float_info.max:
        raise ValueError("it must be a finite number")
    return float(value)


def read_object(value: Any) -> Row:
    """Read an object."""
    if not isinstance(value, Mapping):
        raise ValueError("it must be an object")
    return value


def given_answer(solution: Any, answer: Any) -> str | None:
    """The gold answer of a problem with a solution, an answer, or both; None if neither states one.

    An `answer` without a solution may itself be a solution; its final answer is read.

    Raises:
        MalformedRow: a field is of the wrong kind, or an `answer` beside a solution holds no answer.
    """
    if solution is not None and not isinstance(solution, str):
        raise MalformedRow("`solution`: it must be text")
    try:
        gold = read_gold_answer(answer)
    except ValueError as error:
        gold = extract_answer(answer) if isinstance(answer, str) and solution is None else None
        if gold is None:
            raise MalformedRow(f"`answer`: {error}") from error
    return gold or (extract_answer(solution) if solution else None)


def read_cell(value: Any, opening: str) -> Any:
    """Parse a CSV cell that holds JSON or a Python literal; other values are returned unchanged.

    Args:
        opening: first character of such a cell, `[` or `{`.

    Raises:
        ValueError: two texts have no comma between them, so Python would join them.
    """
    if isinstance(value, str) and value.lstrip().startswith(opening):
        for read in (json.loads, ast.literal_eval):
            try:
                cell = read(value.strip())
            except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
                continue
            if read is ast.literal_eval and _joins_texts(value.strip()):
                raise ValueError("a list without commas, as numpy writes it; write lists as JSON")
            return cell
    return value


def _joins_texts(expression: str) -> bool:
    """Whether a Python expression has two adjacent string literals."""
    kinds = [token.type for token in generate_tokens(StringIO(expression).readline) if token.type != NL]
    return (STRING, STRING) in pairwise(kinds)
