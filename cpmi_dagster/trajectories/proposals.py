r"""Which fields of a file may be those that are wanted, by their names and by what they hold.

    {"instruction": "2 + 3?", "system": "You are …", "output": "I add.\n\nSo 5.", "meta": {"gold": 5}}
    -> {"question": "instruction", "solution": "output", "gold_answer": "meta.gold"}

No proposal is better than a wrong one, which would be followed: a name alone is never enough, and neither is a value.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from cpmi_dagster.answers.extraction import announced_answer
from cpmi_dagster.trajectories.chats import ASSISTANT, USER, is_chat, one_text
from cpmi_dagster.trajectories.fields import read_cell

DEEPEST, LEAST_CHARACTERS_OF_QUESTION = 3, 20
MOST_WORDS_OF_ANSWER, LEAST_WORDS_OF_SOLUTION, LEAST_WORDS_OF_WORKED_ANSWER = 12, 3, 8
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
ANY = ".+"
QUESTIONS = ("question", "problem", "prompt", "query", "instruction", "exercise", "input")
SOLUTIONS = ("solution", "response", "completion", "output", "generation", "generated", "reasoning", "cot", "rationale")
GOLD = ("gold", "truth", "answer", "expected", "target")
IDS = ("id", "uid", "uuid", "guid", "qid", "idx", "index")
NO_TEXT = (
    f"{'|'.join(IDS)}|system|role|type|kind|source|format|category|level|lang|language|url|path|file|name|title|date|"
    "time|hash|count|num|number|length|len|tokens|score|is|has|correct|wrong|negative|rejected|original|modified|template"
)
NO_GOLD = f"{NO_TEXT}|model|student|pred|predicted|prediction|extracted|generated|response|output"


class Field(NamedTuple):
    """How a field of ours may be called by others.

    Attributes:
        ours: its name here.
        words: of its names, the likelier first.
        others: the words of names that are of other fields.
        holds: whether some values of a field, one or more, may be of it.
    """

    ours: str
    words: Sequence[str]
    others: str
    holds: Callable[[Sequence[Any]], bool]


def _text(values: Sequence[Any], role: str) -> str:
    try:
        text = one_text(values[0], role)
    except ValueError:
        return ""
    return text.strip() if isinstance(text, str) else ""


def _are_questions(values: Sequence[Any]) -> bool:
    text = _text(values, USER)
    return " " in text or text.endswith(("?", "？")) or len(text) >= LEAST_CHARACTERS_OF_QUESTION


def _are_solutions(values: Sequence[Any]) -> bool:
    return len(_text(values, ASSISTANT).split()) >= LEAST_WORDS_OF_SOLUTION


def _are_worked(values: Sequence[Any]) -> bool:
    text = _text(values, ASSISTANT)
    return "\n" in text or len(text.split()) >= LEAST_WORDS_OF_WORKED_ANSWER


def _are_answers(values: Sequence[Any]) -> bool:
    first = values[0]
    if isinstance(first, str):
        is_short = "\n" not in first.strip() and len(first.split()) <= MOST_WORDS_OF_ANSWER
        return bool(first.strip()) and (is_short or announced_answer(first) is not None)
    return isinstance(first, int | float) and not isinstance(first, bool) and isfinite(first)


def _are_ids(values: Sequence[Any]) -> bool:
    are_scalars = all(isinstance(value, int | str) and not isinstance(value, bool) for value in values)
    return are_scalars and len(set(map(str, values))) == len(values)


def _are_chats(values: Sequence[Any]) -> bool:
    try:
        return is_chat(read_cell(values[0], "["))
    except ValueError:
        return False


FIELDS = (
    Field("messages", (ANY,), "", _are_chats),
    Field("question", QUESTIONS, NO_TEXT, _are_questions),
    Field("solution", SOLUTIONS, NO_TEXT, _are_solutions),
    Field("solution", ("answer",), NO_TEXT, _are_worked),
    Field("gold_answer", GOLD, NO_GOLD, _are_answers),
    Field("id", IDS, "|".join(GOLD), _are_ids),
)


def proposed_fields(
    rows: Sequence[Mapping[str, Any]], wanted: Collection[str], followed: Collection[str] = ()
) -> dict[str, str]:
    """The fields that may be meant by those that are wanted, `a.b` for one within another.

    Args:
        rows: some, with the fields that may be proposed.
        wanted: of `FIELDS`.
        followed: fields that are not proposed, since they are read already.
    """
    columns: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in _leaves(row):
            columns.setdefault(name, []).append(value)
    found: dict[str, str] = {}
    for field in FIELDS:
        if field.ours in wanted and field.ours not in found:
            taken = {*followed, *found.values()}
            fitting = [name for name, values in columns.items() if name not in taken and field.holds(values)]
            if (name := _likeliest(field, fitting)) is not None:
                found[field.ours] = name
    return found


def _leaves(row: Mapping[str, Any], outer: str = "", depth: int = 1) -> Iterator[tuple[str, Any]]:
    """The values of a row that are there, also those within others, with their names."""
    for name, value in row.items():
        if isinstance(value, Mapping) and depth < DEEPEST:
            yield from _leaves(value, f"{outer}{name}.", depth + 1)
        elif value is not None:
            yield f"{outer}{name}", value


def _likeliest(field: Field, names: Sequence[str]) -> str | None:
    words = {name: [word.lower() for word in WORD.findall(name.rpartition(".")[2])] for name in names}
    own = [name for name in names if not any(re.fullmatch(field.others, word) for word in words[name])]
    return next((name for word in field.words for name in own if any(re.fullmatch(word, w) for w in words[name])), None)
