"""Multiple-choice questions: how their options are shown, and how an answer to one is graded.

Two kinds occur. Lettered options are listed under the question and the gold answer is a letter:

    Which is prime?
    (A) 4
    (B) 7                      gold B; `B`, `(b)`, `B.`, `(B) 7`, `\\text{B}` and `7` are right

Worded options are a closed set of verdicts and the gold answer is one of them:

    … Answer with True, False or Uncertain.      gold Uncertain; `uncertain` and `Unknown` are right
"""

import re
import string
from collections.abc import Sequence

from cpmi_dagster.answers import is_equivalent

WORDING = re.compile(r"\\(?:text|textbf|mathrm|mathbf|boxed)\s*|[$*{}\\]")
LETTER = re.compile(r"^(?:option|choice|answer)?\s*\(?([A-Za-z])(?:\)|[.:](?=\s|$)|$)", re.IGNORECASE)
VERDICTS = {
    "unknown": "uncertain",
    "yes": "true",
    "no": "false",
    "entailed": "entailment",
    "contradicted": "contradiction",
}


def render_choices(question: str, choices: Sequence[str]) -> str:
    """The question with its options under it, one a line, lettered from `(A)`."""
    lines = [f"({letter}) {choice}" for letter, choice in zip(string.ascii_uppercase, choices, strict=False)]
    return "\n".join([question.strip(), *lines])


def grade_answer(gold: str, answer: str | None, choices: Sequence[str] | None = None) -> bool:
    """Whether an answer is right: the same option where there are options, else mathematically equivalent.

    Args:
        gold: gold answer; with lettered options their letter.
        answer: extracted final answer; None is wrong.
        choices: the options, or None for an open question.
    """
    if answer is None:
        return False
    if not choices:
        return is_equivalent(gold, answer)
    return _option(answer, choices, _is_letter(gold, choices)) == _option(gold, choices, _is_letter(gold, choices))


def _is_letter(gold: str, choices: Sequence[str]) -> bool:
    return gold in string.ascii_uppercase[: len(choices)] and gold not in choices


def _option(answer: str, choices: Sequence[str], lettered: bool) -> int | str:
    """Number of the option meant, or the normalised text where it is none of them."""
    plain = WORDING.sub("", answer).strip()
    letter = LETTER.match(plain) if lettered else None
    if letter and (number := string.ascii_uppercase.index(letter[1].upper())) < len(choices):
        return number
    wording = [_normalised(choice) for choice in choices]
    text = _normalised(plain)
    return wording.index(text) if text in wording else text


def _normalised(text: str) -> str:
    words = re.sub(r"[\W_]+", " ", WORDING.sub("", text).lower()).strip()
    return VERDICTS.get(words, words)
