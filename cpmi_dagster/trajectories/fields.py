"""Readers of a row's fields, whatever its form; what is wrong is a `MalformedRow` that names the field.

gold_answer  5, "$5$.", null, ""     ->  "5", "5", None, None        (see `answers.gold`)
labels       [true, 0, "+"]          ->  [True, False, True]
steps        "['2 + 3 = 5.']"        ->  ["2 + 3 = 5."]              a list that a cell of CSV holds as text
steps        ["2 + 3 = 5.", 7]       ->  MalformedRow("`steps.1`: it must be text")
"""

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from itertools import pairwise
from token import NL, STRING
from tokenize import generate_tokens
from typing import Any, TypeVar

from cpmi_dagster.answers.extraction import extract_answer
from cpmi_dagster.answers.gold import read_gold_answer
from cpmi_dagster.errors import MalformedRow
from cpmi_dagster.files.bounded_reading import MOST_ITEMS
from cpmi_dagster.files.text import encodable
from cpmi_dagster.trajectories.math_shepherd import clean

# 1 and 1.0 are True, 0 and 0.0 are False
LABELS = {True: True, False: False, "+": True, "-": False, "1": True, "0": False, "true": True, "false": False}
NO_LABEL = "a label is true, false, 1, 0, `+` or `-`; give soft ones as `sources.step_labels`"
Value = TypeVar("Value")


def read_field(row: Mapping[str, Any], names: str, read: Callable[[Any], Value]) -> Value:
    """A field, which may have one of several names (`a|b`): the first with a value, else null is read.

    Raises:
        MalformedRow: `read` raises a ValueError.
    """
    name = name_in(row, names)
    return _read(name, row.get(name), read)


def read_optional(row: Mapping[str, Any], name: str, read: Callable[[Any], Value]) -> Value | None:
    """A field, or None where it is missing or null; raises as `read_field`."""
    return None if row.get(name) is None else _read(name, row[name], read)


def read_list(row: Mapping[str, Any], names: str, read: Callable[[Any], Value], least: int = 1) -> list[Value]:
    """The items of a list of at least so many; raises as `read_field`, of the first wrong item."""
    name = name_in(row, names)
    items = _read(name, row.get(name), _read_items)
    if len(items) < least:
        raise MalformedRow(f"`{name}`: it is empty")
    return [_read(f"{name}.{place}", item, read) for place, item in enumerate(items)]


def name_in(row: Mapping[str, Any], names: str) -> str:
    """The name that a field has in a row: of `a|b` the first with a value, else the first that is there."""
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
    """A text, lone surrogates replaced."""
    if not isinstance(value, str):
        raise ValueError("it must be text")
    return encodable(value)


def read_filled_text(value: Any) -> str:
    """A text that is not blank."""
    if not clean(read_text(value)):
        raise ValueError("it is empty")
    return read_text(value)


def read_identifier(value: Any) -> str | None:
    """A text or a whole number as text; None for a blank one."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("it must be text or a whole number")
    return clean(encodable(str(value))) or None


def read_label(value: Any) -> bool:
    """Whether a step is right."""
    key = value.strip().lower() if isinstance(value, str) else value
    if not isinstance(key, bool | int | float | str) or key not in LABELS:
        raise ValueError(NO_LABEL)
    return LABELS[key]


def read_sure_label(value: Any) -> bool:
    """A label where others may be estimates such as 0.75: then 1.0 is one too, and no label."""
    if isinstance(value, float):
        raise ValueError(NO_LABEL)
    return read_label(value)


def given_answer(solution: Any, answer: Any) -> str | None:
    """The gold answer of a problem that has a solution, an answer, or both; None where neither states one.

    Beside a solution, `answer` is read as a gold answer. Alone it may be a solution: it is what that ends in.

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
    """The value that a cell holds as text, as JSON or Python writes it; one that begins otherwise, as it is.

    Args:
        opening: `[` or `{`.

    Raises:
        ValueError: it has texts without a comma between them, which Python would join.
    """
    if isinstance(value, str) and value.lstrip().startswith(opening):
        for read in (json.loads, ast.literal_eval):
            try:
                found = read(value.strip())
            except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
                continue
            if read is ast.literal_eval and _joins_texts(value.strip()):
                raise ValueError("a list without commas, as numpy writes it; write lists as JSON")
            return found
    return value


def _joins_texts(expression: str) -> bool:
    """Whether a Python expression has two texts with nothing but white space between them."""
    kinds = [token.type for token in generate_tokens(StringIO(expression).readline) if token.type != NL]
    return (STRING, STRING) in pairwise(kinds)
