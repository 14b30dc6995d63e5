r"""Math-Shepherd rows: a text with a marker `ки` after every step, and the same text with `+` or `-` in its place.

    input  Ann has 3 hats and buys 2. How many has she? Step 1: 3 + 2 = <<3+2=5>>5 hats. ки\nStep 2: … answer is: 5 ки
    label  Ann has 3 hats and buys 2. How many has she? Step 1: 3 + 2 = <<3+2=5>>5 hats. +\nStep 2: … answer is: 5 -

    Trajectory(question="Ann has 3 hats and buys 2. How many has she?",
               steps=("3 + 2 = <<3+2=5>>5 hats.", "… The answer is: 5"),
               shepherd_labels=(True, False), final_answer="5", …)

A step is stripped and has no `Step i:` header; the last one keeps its `The answer is: X`, as in the published split of
these rows. The question ends at the last `Step 1:` before the second step; without such a header, at its last question
mark. Markers before the first header belong to the question. Labels may be written as `ки +`, or as a `value` list
beside the text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cpmi_dagster.answers.extraction import final_answer
from cpmi_dagster.errors import MalformedRow
from cpmi_dagster.files.bounded_reading import MOST_ITEMS

MARKER = "ки"
LABEL_OF_MARK = {"+": True, "-": False}

_MARK = re.compile(rf"(?:{MARKER} ?)?[+-]|{MARKER}")
_FIRST_HEADER = re.compile(r"step\s*1\s*:", re.IGNORECASE)
_LATER_HEADER = re.compile(r"step\s*[2-9]\s*:", re.IGNORECASE)
_HEADER = re.compile(r"step\s*\d+\s*:", re.IGNORECASE)
_END_OF_QUESTION = re.compile(r"\?(?:\$|\\\)|[\"”’')\]])*")
_ZERO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff"
_BLANKS = "".join(chr(code) for code in range(0x3001) if chr(code).isspace()) + _ZERO_WIDTH


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A question and its steps, with the other fields of the row.

    Attributes:
        question: stripped.
        steps: stripped, without `Step i:` headers; empty for a question alone.
        shepherd_labels: the source's label of each step, True for `+`; None without labels.
        final_answer: stated by the last step, or None.
        source_id: id of the row.
        task: GSM8K, MATH or another; empty if unknown.
        gold_answer: given by the row.
        split: part of the source.
        truth: people's judgement of each step; None for a step, or all steps, that nobody has judged.
    """

    question: str
    steps: tuple[str, ...]
    shepherd_labels: tuple[bool, ...] | None
    final_answer: str | None
    source_id: str | None = None
    task: str = ""
    gold_answer: str | None = None
    split: str | None = None
    truth: tuple[bool | None, ...] | None = None


def parse_row(input: str, label: str, value: Sequence[str] | None = None) -> Trajectory:
    """Read one row of Math-Shepherd.

    Args:
        input: question and steps, each step followed by `ки`.
        label: the same text with `+` or `-` at each marker; may be empty or unmarked if `value` has the labels.
        value: `+` or `-` for all steps or for all markers.

    Raises:
        MalformedRow: the question, a step or all steps are missing, text follows the last marker, or the labels do
            not fit the input.
    """
    question, steps, labels = split_marked_text(input, label, value)
    return Trajectory(question, steps, labels, final_answer(steps))


def split_marked_text(
    input: str, label: str, value: Sequence[str] | None
) -> tuple[str, tuple[str, ...], tuple[bool, ...]]:
    """Question, steps and labels of a row; see `parse_row`."""
    segments = input.split(MARKER)
    if len(segments) < 2:
        raise MalformedRow(f"no step: the text has no `{MARKER}` marker")
    if len(segments) > MOST_ITEMS + 1:
        raise MalformedRow(f"{len(segments) - 1:,} markers; a row may have at most {MOST_ITEMS:,} steps")
    if after := clean(segments[-1]):
        raise MalformedRow(f"text after the last `{MARKER}` marker: {after[:40]!r}")
    question, first_step, skipped = _split_question(segments)
    if not question:
        raise MalformedRow("empty question: the text starts with its first step")
    steps = strip_headers([first_step, *segments[skipped + 1 : -1]])
    marked = [LABEL_OF_MARK.get(mark[-1:]) for mark in _read_marks(segments, label)]
    return question, steps, _choose_labels(marked[skipped:], value, len(steps), skipped)


def render_row(question: str, steps: Sequence[str], labels: Sequence[bool]) -> tuple[str, str]:
    """The `(input, label)` of a trajectory without markers in its texts; the inverse of `parse_row`."""
    headed = [step if _HEADER.match(step) else f"Step {number}: {step}" for number, step in enumerate(steps, start=1)]
    marks = ["+" if label else "-" for label in labels]
    marked, labelled = (
        "\n".join(f"{step} {mark}" for step, mark in zip(headed, each, strict=True))
        for each in ([MARKER] * len(steps), marks)
    )
    return f"{question} {marked}", f"{question} {labelled}"


def strip_headers(steps: Sequence[str]) -> tuple[str, ...]:
    """Strip `Step i:` headers and white space from steps; raises a `MalformedRow` if a step is then empty."""
    texts = tuple(_step_text(step) for step in steps)
    if not all(texts):
        raise MalformedRow(f"step {texts.index('') + 1} of {len(texts)} is empty")
    return texts


def without_headers(text: str) -> str:
    """A text without its `Step i:` headers, wherever they stand."""
    return _HEADER.sub("", text)


def clean(text: str) -> str:
    """Strip white space and zero-width characters."""
    return text.strip(_BLANKS)


def _step_text(step: str) -> str:
    text = clean(step)
    header = _HEADER.match(text)
    return clean(text[header.end() :]) if header else text


def _split_question(segments: Sequence[str]) -> tuple[str, str, int]:
    """Question, first step, and how many markers are inside the question."""
    for index, segment in enumerate(segments):
        if headers := list(_FIRST_HEADER.finditer(segment)):
            start = headers[-1].start()
            return clean("".join([*segments[:index], segment[:start]])), segment[start:], index
        if index and _LATER_HEADER.search(segment):
            break
    ends = [end.end() for end in _END_OF_QUESTION.finditer(segments[0]) if clean(segments[0][end.end() :])]
    if not ends:
        raise MalformedRow("no `Step 1:` header and no question mark that a first step could follow")
    return clean(segments[0][: ends[-1]]), segments[0][ends[-1] :], 0


def _read_marks(segments: Sequence[str], label: str) -> list[str]:
    """The mark in place of each marker; raises a `MalformedRow` if the texts between the markers differ."""
    markers = len(segments) - 1
    if not label or label == MARKER.join(segments):
        return []
    position, marks = 0, []
    for number, segment in enumerate(segments):
        is_last = number == markers
        if not label.startswith(segment, position):
            place = "after the last marker" if is_last else f"before marker {number + 1} of {markers}"
            raise MalformedRow(f"the text and its labels disagree {place}")
        position += len(segment)
        if is_last:
            break
        mark = _MARK.match(label, position)
        if mark is None:
            raise MalformedRow(f"the labels' text has neither `+` nor `-` at marker {number + 1} of {markers}")
        marks.append(mark.group())
        position = mark.end()
    if position != len(label):
        raise MalformedRow(f"the labels' text continues after the other ends: {label[position : position + 40]!r}")
    return marks


def _choose_labels(
    inline: list[bool | None], value: Sequence[str] | None, steps: int, skipped: int
) -> tuple[bool, ...]:
    """Labels of the steps from the text or from `value`, which must agree."""
    marked = tuple(label for label in inline if label is not None)
    if value is None or (not value and marked):
        if len(marked) != steps:
            raise MalformedRow(f"{steps} steps but {len(marked)} labels: some step has neither `+` nor `-`")
        return marked
    value = value[skipped:] if len(value) == steps + skipped else value
    if len(value) != steps:
        raise MalformedRow(f"{steps} steps but {len(value)} labels in the list of labels")
    if unknown := [mark for mark in value if mark not in LABEL_OF_MARK]:
        raise MalformedRow(f"the list of labels contains {unknown[0]!r}, which is neither `+` nor `-`")
    listed = tuple(LABEL_OF_MARK[mark] for mark in value)
    if marked and marked != listed:
        raise MalformedRow("the labels in the text and in the list of labels differ")
    return listed
