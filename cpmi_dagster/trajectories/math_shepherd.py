r"""Math-Shepherd rows: a text with a marker `ки` behind every step, and the same text with `+` or `-` in its place.

    input  Ann has 3 hats and buys 2. How many has she? Step 1: 3 + 2 = <<3+2=5>>5 hats. ки\nStep 2: … answer is: 5 ки
    label  Ann has 3 hats and buys 2. How many has she? Step 1: 3 + 2 = <<3+2=5>>5 hats. +\nStep 2: … answer is: 5 -

    Trajectory(question="Ann has 3 hats and buys 2. How many has she?",
               steps=("3 + 2 = <<3+2=5>>5 hats.", "… The answer is: 5"),
               shepherd_labels=(True, False), final_answer="5", …)

A step is the text the labeler reads: stripped, without its `Step i:` header; the last one keeps its `The answer is: X`
tail, as the published split of these rows does. Irregular rows of the corpus that are understood: a marker inside the
question, lower-case headers, no header (the question then ends at its last question mark), labels as `ки +`, and labels
in a `value` list beside the text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from cpmi_dagster.answers.extraction import extract_answer
from cpmi_dagster.contracts.tables import MathShepherd, RejectedRows, Trajectories
from cpmi_dagster.errors import MalformedRow
from cpmi_dagster.trajectories.row_fields import RawRow
from cpmi_dagster.trajectories.step_segments import MARKER, clean, split_question, split_row

LABEL_OF_MARK = {"+": True, "-": False}
EXCERPT_CHARACTERS = 120

_MARK = re.compile(rf"(?:{MARKER} ?)?[+-]|{MARKER}")

_PARSED = ("row_number", "task", "question", "steps", "shepherd_labels", "final_answer", "source_id", "gold_answer")
PARSED_COLUMNS = {**Trajectories.create_empty().select(_PARSED).schema, "split": pl.String()}
REJECTED_COLUMNS = RejectedRows.create_empty().schema


@dataclass(frozen=True)
class Trajectory:
    """A question and its labelled steps, with the raw pieces the row is made of.

    `segments` are the texts around the markers, one more than there are markers; `marks` is what the label has at each
    marker (`+`, `-`, `ки +`, or `ки` where the label is unmarked), empty if the row has no inline label at all.
    """

    question: str
    steps: tuple[str, ...]
    shepherd_labels: tuple[bool, ...]
    final_answer: str | None
    segments: tuple[str, ...]
    marks: tuple[str, ...]


def parse_row(input: str, label: str, value: Sequence[str] | None = None) -> Trajectory:
    """Read one row of Math-Shepherd.

    Args:
        input: Question and steps, each step closed by `ки`.
        label: The same text with `+` or `-` at each marker; may be empty or unmarked when `value` holds the labels.
        value: Step labels `+` or `-` beside the text, for all steps or for all markers.

    Raises:
        MalformedRow: the row has no question, no step, an empty step, text after its last marker, or a label that does
            not fit its input.
    """
    segments = tuple(input.split(MARKER))
    split = split_row(segments)
    marks = _read_marks(segments, label)
    inline = [LABEL_OF_MARK.get(mark[-1:]) for mark in marks][split.markers_in_question :]
    labels = _choose_labels(inline, value, len(split.steps), split.markers_in_question)
    return Trajectory(split.question, split.steps, labels, extract_answer(split.steps[-1]), segments, marks)


def render_row(trajectory: Trajectory) -> tuple[str, str]:
    """The `(input, label)` that `parse_row` read, character for character."""
    text = MARKER.join(trajectory.segments)
    if not trajectory.marks:
        return text, ""
    head, *rest = trajectory.segments
    return text, head + "".join(mark + segment for mark, segment in zip(trajectory.marks, rest, strict=True))


def question_of(input: str) -> str:
    """The question of a row, or of as much of it as can be read; the same text as `parse_row` finds. Never raises."""
    segments = tuple(input.split(MARKER))
    try:
        return split_question(segments)[0] or clean(segments[0])
    except MalformedRow:
        return clean(segments[0])


def parse_rows(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Parse a frame of raw rows; every row is in exactly one of the two results.

    Args:
        rows: Columns of `sources.math_shepherd`.

    Returns:
        Parsed rows (`PARSED_COLUMNS`; labels, id, gold answer and split are null where the row has none), and rejected
        ones (`REJECTED_COLUMNS`): stage `read` where the source's row has a defect, else stage `parse`.
    """
    parsed: dict[str, list[Any]] = {column: [] for column in PARSED_COLUMNS}
    rejected: dict[str, list[Any]] = {column: [] for column in REJECTED_COLUMNS}
    for row_number, *fields in rows.select(MathShepherd.column_names()).iter_rows():
        raw = RawRow(*fields)
        if raw.defect is not None:
            _append(rejected, (row_number, "read", raw.defect, raw.input[:EXCERPT_CHARACTERS]))
            continue
        try:
            read = _read(raw)
        except MalformedRow as error:
            _append(rejected, (row_number, "parse", str(error), raw.input[:EXCERPT_CHARACTERS]))
        else:
            _append(parsed, (row_number, raw.task, *read, raw.source_id, raw.gold_answer, raw.split))
    return pl.DataFrame(parsed, schema=PARSED_COLUMNS), pl.DataFrame(rejected, schema=REJECTED_COLUMNS)


def without_duplicates(parsed: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Keep the first of the rows with the same question and steps.

    Args:
        parsed: Parsed rows (`PARSED_COLUMNS`), all those of a question among them.

    Returns:
        The rows kept, and the others as rejected rows (`REJECTED_COLUMNS`, stage `duplicate`).
    """
    rows = parsed.with_columns(first=pl.col("row_number").min().over("question", "steps"))
    is_first = pl.col("row_number") == pl.col("first")
    return rows.filter(is_first).drop("first"), rows.filter(~is_first).select(
        "row_number",
        pl.lit("duplicate").alias("stage"),
        pl.format("the same question and steps as row {} (from 0)", "first").alias("reason"),
        pl.col("question").str.head(EXCERPT_CHARACTERS).alias("excerpt"),
    )


def _read(raw: RawRow) -> tuple[str, Sequence[str], Sequence[bool] | None, str | None]:
    """Question, steps, labels and final answer of a row; one of question and steps has them already."""
    if raw.question is None or raw.steps is None:
        row = parse_row(raw.input, raw.label, raw.value)
        return row.question, row.steps, row.shepherd_labels, row.final_answer
    steps = [clean(step) for step in raw.steps]
    labels = None if raw.value is None else [LABEL_OF_MARK[mark] for mark in raw.value]
    return clean(raw.question), steps, labels, extract_answer(steps[-1])


def _append(columns: dict[str, list[Any]], row: tuple[Any, ...]) -> None:
    for column, value in zip(columns.values(), row, strict=True):
        column.append(value)


def _read_marks(segments: tuple[str, ...], label: str) -> tuple[str, ...]:
    """What the label has in place of each marker, once everything between the markers agrees with the input."""
    if not label:
        return ()
    markers = len(segments) - 1
    if label == MARKER.join(segments):
        return (MARKER,) * markers
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
    return tuple(marks)


def _choose_labels(
    inline: list[bool | None], value: Sequence[str] | None, steps: int, skipped: int
) -> tuple[bool, ...]:
    """Labels of the steps from the text, from `value`, or from both where they agree."""
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
