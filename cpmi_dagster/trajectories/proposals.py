r"""Propose fields of a file for ours, by their names and values.

    {"instruction": "2 + 3?", "system": "You are …", "output": "I add.\n\nSo 5.", "meta": {"gold": 5}}
    -> {"question": "instruction", "solution": "output", "gold_answer": "meta.gold"}

A wrong proposal would be followed, so a field is proposed only if both its name and its values fit.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from cpmi_dagster.answers.extraction import announced_answer
from cpmi_dagster.trajectories.chats import ASSISTANT, USER, is_chat, unwrap_text
from cpmi_dagster.trajectories.fields import read_cell

DEEPEST, LEAST_CHARACTERS_OF_QUESTION = 3, 20
MOST_WORDS_OF_ANSWER, LEAST_WORDS_OF_SOLUTION, LEAST_WORDS_OF_WORKED_ANSWER = 12, 3, 8
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
ANY = ".+"
QUESTIONS = ("question", "problem", "prompt", "query", "instruction", "exercise", "input")
SOLUTIONS = ("solution", "response", "completion", "output", "generation", "generated", "reasoning", "cot", "rationale")
GOLD = ("gold", "truth", "answer", "expected", "target")
IDS = ("id", "uid", "uuid", "guid", "qid", "idx", "index")
STEPS = ("steps", "solutions", "solution", "process", "response", "completion", "reasoning")
REFERENCES = "gold|golden|reference|ref|truth|target|expected"
"""Words in the names of solutions that are no trajectory."""
NO_TEXT = (
    f"{'|'.join(IDS)}|system|role|type|kind|source|format|category|level|lang|language|url|path|file|name|title|date|"
    "time|hash|count|num|number|length|len|tokens|score|is|has|correct|wrong|negative|rejected|original|modified|template"
)
NO_GOLD = f"{NO_TEXT}|model|student|pred|predicted|prediction|extracted|generated|response|output"


class Field(NamedTuple):
    """Names and values that other files have for one of our fields.

    Attributes:
        ours: our name.
        words: patterns of words in their names, likely ones first.
        others: pattern of words that occur in names of other fields only.
        holds: whether a list of values fits the field.
    """

    ours: str
    words: Sequence[str]
    others: str
    holds: Callable[[Sequence[Any]], bool]


def _text(values: Sequence[Any], role: str) -> str:
    try:
        text = unwrap_text(values[0], role)
    except ValueError:
        return ""
    return text.strip() if isinstance(text, str) else ""


def _are_questions(values: Sequence[Any]) -> bool:
    text = _text(values, USER)
    return " " in text or text.endswith(("?", "？")) or len(text) >= LEAST_CHARACTERS_OF_QUESTION


def _are_solutions(values: Sequence[Any]) -> bool:
    return len(_text(values, ASSISTANT).split()) >= LEAST_WORDS_OF_SOLUTION


def _are_steps(values: Sequence[Any]) -> bool:
    try:
        listed = read_cell(values[0], "[")
    except ValueError:
        return False
    return isinstance(listed, list | tuple) and len(listed) > 1 and all(isinstance(step, str) for step in listed)


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
    Field("steps", STEPS, f"{NO_TEXT}|{REFERENCES}", _are_steps),
    Field("solution", SOLUTIONS, f"{NO_TEXT}|{REFERENCES}", _are_solutions),
    Field("solution", ("answer",), NO_TEXT, _are_worked),
    Field("gold_answer", GOLD, NO_GOLD, _are_answers),
    Field("id", IDS, "|".join(GOLD), _are_ids),
)


def propose_fields(
    rows: Sequence[Mapping[str, Any]], wanted: Collection[str], followed: Collection[str] = ()
) -> dict[str, str]:
    """Propose a field of the file (`a.b` if nested) for each wanted field of `FIELDS`.

    Args:
        rows: rows of the file.
        wanted: our names.
        followed: fields that are read already and not proposed.
    """
    columns: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in _leaves(row):
            columns.setdefault(name, []).append(value)
    proposed: dict[str, str] = {}
    for field in FIELDS:
        if field.ours in wanted and field.ours not in proposed:
            taken = {*followed, *proposed.values()}
            fitting = [name for name, values in columns.items() if name not in taken and field.holds(values)]
            if (name := _likeliest(field, fitting)) is not None:
                proposed[field.ours] = name
    return proposed


def _leaves(row: Mapping[str, Any], outer: str = "", depth: int = 1) -> Iterator[tuple[str, Any]]:
    """Names and values of the fields of a row that are not null, nested ones included."""
    for name, value in row.items():
        if isinstance(value, Mapping) and depth < DEEPEST:
            yield from _leaves(value, f"{outer}{name}.", depth + 1)
        elif value is not None:
            yield f"{outer}{name}", value


def _likeliest(field: Field, names: Sequence[str]) -> str | None:
    words = {name: [word.lower() for word in WORD.findall(name.rpartition(".")[2])] for name in names}

    def has_word(name: str, pattern: str) -> bool:
        return any(re.fullmatch(pattern, word) for word in words[name])

    candidates = [name for name in names if not has_word(name, field.others)]
    return next((name for pattern in field.words for name in candidates if has_word(name, pattern)), None)
