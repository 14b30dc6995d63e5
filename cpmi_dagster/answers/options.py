r"""The options of a multiple-choice question, as its text lists them.

Which is prime?\n(A) 4\n(B) 7                            ->  {"A": "4", "B": "7"}
Which? $\textbf{(A)}\ 4 \qquad \textbf{(B)}\ 7$          ->  {"A": "4", "B": "7"}
Which?\nA. 4\nB. 7                                       ->  {"A": "4", "B": "7"}
"""

import re
import string
from collections.abc import Callable, Mapping, Sequence

FEWEST = 2
_MARKS = (re.compile(r"(?<![A-Za-z0-9])\(([A-Z])\)"), re.compile(r"^[ \t]*\[?([A-Z])[\].):][ \t]+", re.MULTILINE))
_AROUND = re.compile(r"\\(?:textbf|textrm|text|mathrm|mathbf|bf|rm)\s*\{?\s*$|\\q?quad|^\s*[}:.]|\\[ ,;]|~|\$")
_LETTER = re.compile(r"(?:\\[a-z]+\{)?[\W_]*(?:(?:option|choice)\s+)?[\W_]*([A-Z])[\W_]*", re.IGNORECASE)
_BEGINNING = re.compile(r"[\W_]*([A-Z])[.):]\s")
_BETWEEN = {"", "or", "and"}
"""What stands between letters that are only named."""


def read_options(question: str) -> dict[str, str]:
    """The longest list of options in a question, by letter from A, of equally long ones the last; empty below two."""
    longest: dict[str, str] = {}
    for mark in _MARKS:
        found = list(mark.finditer(question))
        for start in (number for number, match in enumerate(found) if match[1] == "A"):
            run = found[start : start + len(string.ascii_uppercase)]
            count = next((n for n, match in enumerate(run) if match[1] != string.ascii_uppercase[n]), len(run))
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
    return answer.isupper() and letter_of(answer, dict.fromkeys(string.ascii_uppercase, "")) is not None


def letter_of(answer: str, options: Mapping[str, str]) -> str | None:
    r"""The letter that an answer is: `B`, `(b)`, `\text{(B)}`, `option B`; None if it is none of the options'."""
    match = _LETTER.fullmatch(answer.strip())
    return match[1].upper() if match and match[1].upper() in options else None


def beginning_letter(answer: str, options: Mapping[str, str]) -> str | None:
    """The letter that an answer begins with, before the text of the option: `B. 7`, `(B) 7`."""
    match = _BEGINNING.match(answer.strip())
    return match[1] if match and match[1] in options else None


def letter_that(options: Mapping[str, str], says: Callable[[str], bool]) -> str | None:
    """The letter of the first option whose text says something."""
    return next((letter for letter, text in options.items() if text and says(text)), None)


def render_choices(question: str, choices: Sequence[str]) -> str:
    """The question with its options under it, one a line, lettered from `(A)`."""
    lines = [f"({letter}) {choice}" for letter, choice in zip(string.ascii_uppercase, choices, strict=False)]
    return "\n".join([question.strip(), *lines])
