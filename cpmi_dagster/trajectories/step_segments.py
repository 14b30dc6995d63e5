r"""Where the question of a Math-Shepherd row ends and its steps begin.

    segments   ("How many has she? Step 1: 3 + 2 = 5 hats. ", "\\nStep 2: … The answer is: 5 ", "")
    SplitRow   question "How many has she?", steps ("3 + 2 = 5 hats.", "… The answer is: 5")

The question ends at the last `Step 1:` before the second step; without such a header, at its last question mark. A
header that only comes after some markers means that those markers are inside the question.
"""

import re
from typing import NamedTuple

from cpmi_dagster.errors import MalformedRow
from cpmi_dagster.files.bounded_reading import MOST_ITEMS

MARKER = "ки"

_FIRST_HEADER = re.compile(r"step\s*1\s*:", re.IGNORECASE)
_LATER_HEADER = re.compile(r"step\s*[2-9]\s*:", re.IGNORECASE)
_HEADER = re.compile(r"step\s*\d+\s*:", re.IGNORECASE)
_END_OF_QUESTION = re.compile(r"\?(?:\$|\\\)|[\"”’')\]])*")
_ZERO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff"
_BLANKS = "".join(chr(code) for code in range(0x3001) if chr(code).isspace()) + _ZERO_WIDTH


class SplitRow(NamedTuple):
    """Question and steps of a row, and how many of its markers are inside the question."""

    question: str
    steps: tuple[str, ...]
    markers_in_question: int


def split_row(segments: tuple[str, ...]) -> SplitRow:
    """Question and steps of a row, from the texts around its markers.

    Raises:
        MalformedRow: there is no question, no step, an empty step, or text after the last marker.
    """
    if len(segments) < 2:
        raise MalformedRow(f"no step: the text has no `{MARKER}` marker")
    if len(segments) > MOST_ITEMS + 1:
        raise MalformedRow(f"{len(segments) - 1:,} markers; a row may have at most {MOST_ITEMS:,} steps")
    if clean(segments[-1]):
        raise MalformedRow(f"text after the last `{MARKER}` marker: {clean(segments[-1])[:40]!r}")
    question, first_step, skipped = split_question(segments)
    if not question:
        raise MalformedRow("empty question: the text starts with its first step")
    steps = (_step_text(first_step), *(_step_text(segment) for segment in segments[skipped + 1 : -1]))
    for number, step in enumerate(steps, start=1):
        if not step:
            raise MalformedRow(f"step {number} of {len(steps)} is empty")
    return SplitRow(question, steps, skipped)


def split_question(segments: tuple[str, ...]) -> tuple[str, str, int]:
    """Question, first step, and how many markers are inside the question.

    Raises:
        MalformedRow: the end of the question cannot be found.
    """
    for index, segment in enumerate(segments):
        if headers := list(_FIRST_HEADER.finditer(segment)):
            header = headers[-1]
            question = "".join([*segments[:index], segment[: header.start()]])
            return clean(question), segment[header.start() :], index
        if index and _LATER_HEADER.search(segment):
            break
    ends = [end.end() for end in _END_OF_QUESTION.finditer(segments[0]) if clean(segments[0][end.end() :])]
    if not ends:
        raise MalformedRow("no `Step 1:` header and no question mark that a first step could follow")
    return clean(segments[0][: ends[-1]]), segments[0][ends[-1] :], 0


def _step_text(segment: str) -> str:
    text = clean(segment)
    header = _HEADER.match(text)
    return clean(text[header.end() :]) if header else text


def has_header(step: str) -> bool:
    """Whether a step starts with `Step i:`."""
    return _HEADER.match(clean(step)) is not None


def clean(text: str) -> str:
    """The text without white space and zero-width characters around it."""
    return text.strip(_BLANKS)
