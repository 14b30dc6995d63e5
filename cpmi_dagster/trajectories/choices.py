r"""Multiple choice: the options that a question lists, and gold answers that are the number of a choice.

Which is prime?\n(A) 4\n(B) 7                                        -> {"A": "4", "B": "7"}
Which? $\textbf{(A)}\ 4 \qquad \textbf{(B)}\ 7$                      -> {"A": "4", "B": "7"}
Which?\nA. 4\nB. 7                                                  -> {"A": "4", "B": "7"}

{"choices": ["2", "3", "8"], "answer": 2}                            -> C      from 0, as MMLU
{"A": "2", "B": "3", "C": "8", "answer": 3}                          -> C      from 1, as KMMLU
{"choices": {"text": ["2", "3"], "label": ["1", "2"]}, "answer": 2}  -> B      by its name
the same, and the solution states "8"                                -> 8
"""

import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from cpmi_dagster.answers.forms import LIST, Parts, read_form
from cpmi_dagster.answers.gold import answer_text
from cpmi_dagster.answers.plain_text import plain_text
from cpmi_dagster.answers.verdicts import is_equivalent
from cpmi_dagster.errors import MalformedRow
from cpmi_dagster.trajectories.fields import Row, read_cell, read_optional

LISTED = ("choices", "options")
LETTERS = string.ascii_uppercase
_WHOLE = re.compile(r"\d{1,2}(?:\.0)?")
_STATED_LETTER = re.compile(r"\W*(?:option\s+)?([A-Z])(?:[.):](?:\s.*)?)?\W*", re.IGNORECASE | re.DOTALL)

FEWEST = 2
_MARKS = (re.compile(r"(?<![A-Za-z0-9])\(([A-Z])\)"), re.compile(r"^[ \t]*\[?([A-Z])[\].):][ \t]+", re.MULTILINE))
_AROUND = re.compile(r"\\(?:textbf|textrm|text|mathrm|mathbf|bf|rm)\s*\{?\s*$|\\q?quad|^\s*[}:.]|\\[ ,;]|~|\$")
_LETTER = re.compile(r"(?:\\[a-z]+\{)?[\W_]*(?:(?:option|choice)\s+)?[\W_]*([A-Z])[\W_]*", re.IGNORECASE)
_BEGINNING = re.compile(r"[\W_]*([A-Z])(?:[.):]\s|\s+\(.*\)$)")
_BETWEEN = {"", "or", "and"}
"""What stands between letters that are only named."""


def read_options(question: str) -> dict[str, str]:
    """The longest list of options in a question, by letter from A, of equally long ones the last; empty below two."""
    longest: dict[str, str] = {}
    for mark in _MARKS:
        marks = list(mark.finditer(question))
        for start in (number for number, match in enumerate(marks) if match[1] == "A"):
            run = marks[start : start + len(LETTERS)]
            count = next((n for n, match in enumerate(run) if match[1] != LETTERS[n]), len(run))
            texts = _texts(question, run[:count]) if count >= max(FEWEST, len(longest)) else {}
            if any(text.strip(" .,;:?!").lower() not in _BETWEEN for text in texts.values()):
                longest = texts
    return longest


def _texts(question: str, marks: Sequence[re.Match[str]]) -> dict[str, str]:
    ends = [*(match.start() for match in marks[1:]), len(question)]
    texts = (question[match.end() : end] for match, end in zip(marks, ends, strict=True))
    return {match[1]: _plain(text) for match, text in zip(marks, texts, strict=True)}


def _plain(text: str) -> str:
    """An option without the LaTeX around it; of the last one, its first line."""
    line = text.strip().split("\n")[0]
    before = None
    while before != line:
        before, line = line, _AROUND.sub(" ", line).strip().strip(",;").strip()
    return line


def is_letter(answer: str) -> bool:
    """Whether an answer is the letter of an option, as multiple choice writes it: `B`, `(B)`."""
    return answer.isupper() and letter_of(answer, dict.fromkeys(LETTERS, "")) is not None


def letter_of(answer: str, options: Mapping[str, str]) -> str | None:
    r"""The letter that an answer is: `B`, `(b)`, `\text{(B)}`, `option B`; None if it is none of the options'."""
    match = _LETTER.fullmatch(answer.strip())
    return match[1].upper() if match and match[1].upper() in options else None


def beginning_letter(answer: str, options: Mapping[str, str]) -> str | None:
    """The letter that an answer begins with, before the text of the option: `B. 7`, `(B) 7`, `B (7)`."""
    match = _BEGINNING.match(answer.strip())
    return match[1] if match and match[1] in options else None


def letter_saying(options: Mapping[str, str], answer: str, same: Callable[[str, str], bool]) -> str | None:
    """The letter of the option whose text is an answer, or else of the first that is equivalent to it.

    Of options, `True, False` and `False, True` are two, though they are one list.
    """
    alike = (letter for letter, text in options.items() if text and same(answer, text))
    return letter_with_text(options, answer) or next(alike, None)


def letter_with_text(options: Mapping[str, str], answer: str) -> str | None:
    """The letter of the first option that has an answer as its text, but for case and the marks around it."""
    said = _bare(answer)
    return next((letter for letter, text in options.items() if text and _bare(text) == said), None)


def _bare(text: str) -> str:
    return plain_text(_plain(text)).strip(" .").casefold()


def are_one_option(one: str, other: str, same: Callable[[str, str], bool]) -> bool:
    """Whether two options say the same; lists of the same items in another order do not."""
    forms = [read_form(plain_text(text)) for text in (one, other)]
    items = [form.items for form in forms if isinstance(form, Parts) and form.kind == LIST]
    return same(one, other) and (len(items) < 2 or items[0] == items[1])


def render_choices(question: str, choices: Sequence[str]) -> str:
    """The question with its options under it, one a line, lettered from `(A)`."""
    lines = [f"({letter}) {choice}" for letter, choice in zip(LETTERS, choices, strict=False)]
    return "\n".join([question.strip(), *lines])


class Choices(NamedTuple):
    """The texts of the choices of a row, and what their numbers or names are, as texts."""

    texts: list[str]
    names: list[str]


def name_choice(row: Row, gold: str | None, value: Any, final_answer: str | None) -> str | None:
    """An answer of a row, where it is the number of a choice: its letter, or its text if the solution states that.

    Args:
        gold: as read.
        value: as it stands in the row.
        final_answer: of the solution.

    Raises:
        MalformedRow: the choices cannot be read, there is none of that number, or the number may also be a choice.
    """
    if gold is None or not _WHOLE.fullmatch(gold):
        return gold
    texts, names = _choices(row)
    if not texts:
        return gold
    named = str(int(float(gold)))
    number = names.index(named) if named in names else None
    if gold in texts and isinstance(value, str):
        if number is not None and texts[number] != gold:
            raise MalformedRow(f"the gold answer `{gold}` may be a choice or the number of one; write its letter")
        return gold
    if number is None:
        if gold in texts:
            return gold
        listed = f"{names[0]} to {names[-1]}"
        raise MalformedRow(f"the gold answer {gold} is not the number of a choice, {listed}; write its letter")
    is_text = final_answer is not None and (final_answer == texts[number] or not _is_letter(final_answer, len(texts)))
    return texts[number] if is_text else LETTERS[number]


def as_options(row: Row, question: str, gold: str | None, final_answer: str | None) -> tuple[str | None, str | None]:
    """The gold and the final answer as options of a question or its row, by letter or text, as the solution states it.

    How a letter is written depends on the gold answer alone, not on the solution (`(b)`, `B (8)`): a form that only
    right solutions have would tell them apart before any step.

    Returns:
        Both as given if there are no options, or the gold answer is none.

    Raises:
        MalformedRow: the gold answer is a letter, and the row has no choice of that letter.
    """
    if gold is None:
        return None, final_answer
    listed = read_options(question)
    options = listed or _by_letter(row, gold)
    by_letter = letter_of(gold, options)
    right = by_letter or letter_saying(options, gold, is_equivalent)
    if right is None:
        if is_letter(gold) and _choices(row).texts:
            raise MalformedRow(f"the gold answer {gold} is not the letter of a choice, A to {max(options)}; correct it")
        return gold, final_answer
    text = options[right]
    if final_answer is None:
        return gold if listed or not by_letter else text or gold, None
    said = letter_of(final_answer, options) or beginning_letter(final_answer, options)
    if said is None:
        stated = letter_with_text(options, final_answer)
        if stated in (None, right) or not is_equivalent(text, final_answer):
            return text if by_letter and text else gold, final_answer
        said = stated  # another option, whose text does not tell it from the right one
    if said != right and text and text == options[said]:
        return said, said
    return with_letter(gold, right, right) if by_letter else right, said


def with_letter(answer: str, letter: str, other: str) -> str:
    r"""An answer that is a letter with another in its place: `\text{(b)}` and `C` make `\text{(C)}`."""
    place = answer.upper().rindex(letter)
    return answer[:place] + other + answer[place + 1 :]


def _by_letter(row: Row, gold: str) -> dict[str, str]:
    """The choices of a row by letter; none if they cannot be read, which matters for a letter alone."""
    try:
        texts = _choices(row).texts
    except MalformedRow:
        if is_letter(gold):
            raise
        return {}
    if not texts and is_letter(gold):
        for field in LISTED:
            if read_optional(row, field, _read_list):
                raise MalformedRow(
                    f"the gold answer {gold} is a letter, and `{field}` is no list of {FEWEST} to {len(LETTERS)} texts"
                )
    return dict(zip(LETTERS, texts, strict=False))


def with_options(row: Row, question: str) -> str:
    """The question with the choices of its row under it, if it lists no options and does not name all of them."""
    try:
        texts = _choices(row).texts
    except MalformedRow:  # a defect only if the gold answer is a number or letter of one
        texts = []
    named = (re.search(rf"(?<![A-Za-z0-9.]){re.escape(text)}(?![A-Za-z0-9])", question) for text in texts)
    is_listed = not texts or read_options(question) or all(named)
    return question if is_listed else render_choices(question, texts)


def _choices(row: Row) -> Choices:
    """The choices of a row, a list or by name; none if it has none."""
    for field in LISTED:
        listed, names = read_optional(row, field, _read_list), None
        if isinstance(listed, Mapping):  # by letter or number, or columns of texts and labels
            texts = listed.get("text", list(listed.values()))
            names = listed.get("label") if "text" in listed else list(listed)
            listed = texts
        if isinstance(listed, Sequence) and not isinstance(listed, str) and 1 < len(listed) <= len(LETTERS):
            texts = [str(answer_text(each)).strip() for each in listed]
            known = [str(name).strip() for name in names or ()]
            if len(known) != len(texts) or not all(map(_WHOLE.fullmatch, known)):
                known = [str(number) for number in range(len(texts))]
            return Choices(texts, known)
    columns = [row[letter] for letter in LETTERS if row.get(letter) is not None]
    if len(columns) < FEWEST or any(row.get(letter) is None for letter in LETTERS[: len(columns)]):
        return Choices([], [])
    texts = [str(answer_text(each)).strip() for each in columns]
    return Choices(texts, [str(number) for number in range(1, len(texts) + 1)])


def _read_list(value: Any) -> Any:
    """A list or object, also as text in a CSV cell."""
    return read_cell(read_cell(value, "["), "{")


def _is_letter(answer: str, count: int) -> bool:
    letter = _STATED_LETTER.fullmatch(answer)
    return letter is not None and letter[1].upper() in LETTERS[:count]
