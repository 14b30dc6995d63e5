"""What rows of every form share: the raw row that each becomes, and the types of its fields.

gold_answer  5, "$5$.", null, ""     ->  "5", "5", None, None        (see `answers.gold`)
labels       [true, 0, "+"]          ->  ["+", "-", "+"]
steps        "['2 + 3 = 5.']"        ->  ["2 + 3 = 5."]       a list that a cell of CSV holds as text
"""

import ast
import json
from collections.abc import Sequence
from io import StringIO
from itertools import pairwise
from token import NL, STRING
from tokenize import generate_tokens
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import AfterValidator, BeforeValidator

from cpmi_dagster.answers.extraction import extract_answer
from cpmi_dagster.answers.gold import read_gold_answer
from cpmi_dagster.files.bounded_reading import BoundedList
from cpmi_dagster.files.text import Text, encodable
from cpmi_dagster.trajectories.step_segments import clean

# 1 and 1.0 are True, 0 and 0.0 are False
MARKS = {True: "+", False: "-", "+": "+", "-": "-", "1": "+", "0": "-", "true": "+", "false": "-"}
NO_MARK = "a label is true, false, 1, 0, `+` or `-`; give soft ones as `sources.step_labels`"
Item = TypeVar("Item")


class RawRow(NamedTuple):
    """A row as `sources.math_shepherd` holds it; `defect` says why it cannot become a trajectory, if that is known.

    `question` and `steps` are of rows that have them apart; those of Math-Shepherd and TRL have them in `input` alone.
    """

    input: str
    label: str = ""
    task: str = ""
    value: Sequence[str] | None = None
    defect: str | None = None
    source_id: str | None = None
    question: str | None = None
    steps: Sequence[str] | None = None
    gold_answer: str | None = None
    split: str | None = None


def given_answer(solution: Any, answer: Any) -> str | None:
    """The gold answer of a problem that has a solution, an answer, or both; None where neither states one.

    Beside a solution, `answer` is read as a gold answer. Alone it may be a solution: it is what that ends in.

    Raises:
        ValueError: a field is of the wrong kind, or an `answer` beside a solution holds no answer.
    """
    if solution is not None and not isinstance(solution, str):
        raise ValueError("`solution`: it must be text")
    try:
        gold = read_gold_answer(answer)
    except ValueError as error:
        gold = extract_answer(answer) if isinstance(answer, str) and solution is None else None
        if gold is None:
            raise ValueError(f"`answer`: {error}") from error
    return gold or (extract_answer(solution) if solution else None)


def id_text(value: Any) -> str | None:
    """The id of a row, as text; None for none, and for what is not an id."""
    is_id = isinstance(value, str | int) and not isinstance(value, bool)
    return (clean(encodable(str(value))) or None) if is_id else None


def listed(value: Any) -> Any:
    """A list that a cell holds as text, as JSON or Python writes it; anything else as it is.

    Raises:
        ValueError: it has texts without a comma between them, which Python would join.
    """
    return from_cell(value, "[")


def from_cell(value: Any, opening: str) -> Any:
    """The value that a cell holds as text, where that begins so; raises as `listed`."""
    if isinstance(value, str) and value.lstrip().startswith(opening):
        for read in (json.loads, ast.literal_eval):
            try:
                found = read(value.strip())
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
            if read is ast.literal_eval and _joins(value.strip()):
                raise ValueError("a list without commas, as numpy writes it; write lists as JSON")
            return found
    return value


def _joins(text: str) -> bool:
    """Whether a Python expression has two texts with nothing but white space between them."""
    kinds = [token.type for token in generate_tokens(StringIO(text).readline) if token.type != NL]
    return (STRING, STRING) in pairwise(kinds)


def _mark(value: Any) -> Any:
    key = value.strip().lower() if isinstance(value, str) else value
    if not isinstance(key, bool | int | float | str) or key not in MARKS:
        raise ValueError(NO_MARK)
    return MARKS[key]


def require_filled(text: str) -> str:
    """The text; raises a ValueError where it is blank."""
    if not clean(text):
        raise ValueError("it is empty")
    return text


Answer = Annotated[str | None, BeforeValidator(read_gold_answer)]
Filled = Annotated[Text, AfterValidator(require_filled)]
Mark = Annotated[str, BeforeValidator(_mark)]
Listed = Annotated[BoundedList[Item], BeforeValidator(listed)]
