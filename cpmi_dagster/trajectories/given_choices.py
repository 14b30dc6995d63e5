"""Multiple-choice rows: gold answers that are the number of a choice, and questions without their options.

{"choices": ["2", "3", "8"], "answer": 2}                            -> C      from 0, as MMLU
{"A": "2", "B": "3", "C": "8", "answer": 3}                          -> C      from 1, as KMMLU
the same, and the solution states "8"                                -> 8
"""

import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

from cpmi_dagster.answers.gold import answer_text
from cpmi_dagster.answers.options import read_options, render_choices
from cpmi_dagster.errors import MalformedRow
from cpmi_dagster.trajectories.fields import read_cell

LISTED = ("choices", "options")
LETTERS = string.ascii_uppercase
_WHOLE = re.compile(r"\d{1,2}(?:\.0)?")
_LETTER = re.compile(r"\W*(?:option\s+)?([A-Z])\b(?:\W.*)?", re.IGNORECASE | re.DOTALL)


def name_choice(row: Mapping[str, Any], gold: str | None, value: Any, final_answer: str | None) -> str | None:
    """The gold answer of a row, where it is the number of a choice: its letter, or its text if the solution states it.

    Args:
        gold: as read.
        value: as it stands in the row.
        final_answer: of the solution.

    Raises:
        MalformedRow: there is no choice of that number, or the number may also be a choice itself.
    """
    texts, first = _choices(row)
    if gold is None or not texts or not _WHOLE.fullmatch(gold):
        return gold
    number = int(float(gold)) - first
    if gold in texts and isinstance(value, str):
        if number in range(len(texts)) and texts[number] != gold:
            raise MalformedRow(f"the gold answer `{gold}` may be a choice or the number of one; write its letter")
        return gold
    if number not in range(len(texts)):
        if gold in texts:
            return gold
        last = first + len(texts) - 1
        raise MalformedRow(f"the gold answer {gold} is not the number of a choice, {first} to {last}; write its letter")
    is_text = final_answer is not None and not _is_letter(final_answer, len(texts))
    return texts[number] if is_text else LETTERS[number]


def with_options(row: Mapping[str, Any], question: str) -> str:
    """The question with the choices of its row under it, if it lists no options and does not name all of them."""
    texts, _ = _choices(row)
    is_listed = not texts or read_options(question) or all(text in question for text in texts)
    return question if is_listed else render_choices(question, texts)


def _choices(row: Mapping[str, Any]) -> tuple[list[str], int]:
    """The texts of the choices, and the number of the first."""
    for name in LISTED:
        listed = read_cell(row.get(name), "[")
        if isinstance(listed, Mapping):  # by letter, or columns of texts and labels
            listed = listed.get("text", list(listed.values()))
        if isinstance(listed, Sequence) and not isinstance(listed, str) and 1 < len(listed) <= len(LETTERS):
            return [str(answer_text(each)).strip() for each in listed], 0
    columns = [row[letter] for letter in LETTERS if row.get(letter) is not None]
    named = len(columns) > 1 and all(row.get(letter) is not None for letter in LETTERS[: len(columns)])
    return ([str(answer_text(each)).strip() for each in columns], 1) if named else ([], 0)


def _is_letter(answer: str, count: int) -> bool:
    letter = _LETTER.fullmatch(answer)
    return letter is not None and letter[1].upper() in LETTERS[:count]
