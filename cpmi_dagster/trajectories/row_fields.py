"""What rows of every form share: the raw row that each becomes, and the types of its fields.

gold_answer  5, "5", null, ""        ->  "5", "5", None, None
labels       [true, 0, "+"]          ->  ["+", "-", "+"]
steps        "['2 + 3 = 5.']"        ->  ["2 + 3 = 5."]       a list that a cell of CSV holds as text
"""

import ast
import json
from collections.abc import Sequence
from io import StringIO
from itertools import pairwise
from math import isfinite
from token import NL, STRING
from tokenize import generate_tokens
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import AfterValidator, BeforeValidator

from cpmi_dagster.answers.extraction import announced_answer, extract_answer
from cpmi_dagster.files.bounded_reading import BoundedList
from cpmi_dagster.files.text import Text, encodable, number_text
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


def answer_text(value: Any) -> str | None:
    """A gold answer as text; a number is an answer too, a blank text is none.

    Raises:
        ValueError: it is neither, as a truth value, a list, or what is not a finite number.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return clean(encodable(value)) or None
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or (isinstance(value, float) and not isfinite(value))
    ):
        raise ValueError(f"a gold answer of the wrong kind, {type(value).__name__}; write text or a number")
    return number_text(value)


def given_answer(solution: str | None, answer: str | None) -> str | None:
    """The gold answer of a problem that has a solution, an answer, or both; None where neither states one.

    An `answer` beside a `solution` is the answer as it is. Alone, one of a single line is what it announces or the
    answer itself; any other text is a solution, and the answer what that ends in.
    """
    if solution is not None:
        return answer or extract_answer(solution)
    if answer is None:
        return None
    return extract_answer(answer) if "\n" in answer else announced_answer(answer) or answer


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


Answer = Annotated[str | None, BeforeValidator(answer_text)]
Filled = Annotated[Text, AfterValidator(require_filled)]
Mark = Annotated[str, BeforeValidator(_mark)]
Listed = Annotated[BoundedList[Item], BeforeValidator(listed)]
