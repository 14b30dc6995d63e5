r"""Rows of Math-Shepherd: a text with a marker `ки` after every step, and the same text with `+` or `-` in its place.

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

from collections.abc import Sequence

from cpmi_dagster.answers.extraction import final_answer
from cpmi_dagster.errors import MalformedRow
from cpmi_dagster.trajectories.readers import Trajectory
from cpmi_dagster.trajectories.steps import MARKER, has_header, split_marked_text

__all__ = ["MalformedRow", "Trajectory", "parse_row", "render_row"]


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


def render_row(question: str, steps: Sequence[str], labels: Sequence[bool]) -> tuple[str, str]:
    """The `(input, label)` of a trajectory without markers in its texts; the inverse of `parse_row`."""
    headed = [step if has_header(step) else f"Step {number}: {step}" for number, step in enumerate(steps, start=1)]
    marks = ["+" if label else "-" for label in labels]
    marked, labelled = (
        "\n".join(f"{step} {mark}" for step, mark in zip(headed, each, strict=True))
        for each in ([MARKER] * len(steps), marks)
    )
    return f"{question} {marked}", f"{question} {labelled}"
