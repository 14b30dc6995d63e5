"""The truth about steps: what people have judged, by id, by row number or by the text of the solution.

    {"id": "a7", "first_error": 1}                                             the solution with the id a7
    {"id": "a7", "correct": [true, null], "steps": ["2 + 3 = 5.", "So 5."]}    likewise, cut into steps by the annotator
    {"row_number": 7, "correct": [true, false, true]}                          row 7 of the trajectory source
    {"trajectory_id": "t000000003", "rewards": [0.9, 0.0], "judged": [1]}      the label explorer's judgements, with the
                                                                               `text_hash` of question and steps
    {"problem": "2 + 3?", "steps": ["2 + 3 = 6", "6 …", "6 …"], "label": 0}    the solution with this question and text

    row_number  correct
    7           [true, false, true]
    3           [null, false]            only steps in `judged` count
    0           [false, null, null]      nobody judges steps after the first error

A row may also say what makes each step wrong (`kind`) and how many operations remain after it (`operations_left`).
`truth_fitting` finds the solutions.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import polars as pl

from cpmi_dagster.errors import MalformedRow, SourceError
from cpmi_dagster.trajectories.fields import (
    NO_ERROR,
    name_in,
    read_identifier,
    read_label,
    read_list,
    read_number,
    read_optional,
    read_text,
    read_whole_number,
)
from cpmi_dagster.trajectories.forms import UNIQUE_IDS, drop_nulls, form_of
from cpmi_dagster.trajectories.given_rows import plain
from cpmi_dagster.trajectories.question_key import question_id, question_of
from cpmi_dagster.trajectories.readers import Trajectory, first_wrong
from cpmi_dagster.trajectories.rows import (
    EXCERPT_CHARACTERS,
    Row,
    RowFormat,
    Unreadable,
    read_row,
    read_row_number,
)

ID = "|".join(("id", *UNIQUE_IDS))
NO_NAME = "it names no solution; give its `id`, its `row_number`, or its question and steps"
NO_JUDGEMENT = "it says of no step whether it is right; give `first_error` (from 0, or -1 for none) or `correct`"
Truth = list[bool | None]
About = tuple[int, str | None, str]
"""Number of a row in the file from 0, the name that it gives the solution, its first characters."""


class Judgement(NamedTuple):
    """What a row says of a solution, which it names by its row, its id, or its question and text.

    Attributes:
        steps: as the annotator cut them; None if they are the solution's own.
        correct: of each step; None if only `first_error` says it.
        first_error: from 0, -1 for none.
        kind, operations_left: as in `StepTruth`.
        text_hash: of the question and steps that were judged; None if the row does not say.
    """

    about: About
    row_number: int | None
    source_id: str | None
    question_id: str | None
    steps: Sequence[str] | None
    correct: Truth | None
    first_error: int | None
    kind: list[str | None] | None = None
    operations_left: list[int] | None = None
    text_hash: str | None = None


class Judgements(NamedTuple):
    """The rows of a file: those that judge a step; of those that cannot be read, why; the number of the others."""

    judged: list[Judgement]
    rejected: list[tuple[About, str]]
    unjudged: int

    def without(self, places: Collection[int]) -> "Judgements":
        """Without some rows, which count as unjudged."""
        judged = [each for each in self.judged if each.about[0] not in places]
        rejected = [each for each in self.rejected if each[0][0] not in places]
        fewer = len(self.judged) - len(judged) + len(self.rejected) - len(rejected)
        return Judgements(judged, rejected, self.unjudged + fewer)


def read_judgements(rows: Iterable[tuple[Row, RowFormat]]) -> Judgements:
    """Read the rows of `sources.step_truth`, each with the format of its source."""
    read = Judgements([], [], 0)
    for place, (row, row_format) in enumerate(rows):
        about = _describe(place, row)
        try:
            judgement = _read_judgement(about, row, row_format)
        except MalformedRow as error:
            read.rejected.append((about, str(error)))
            continue
        if judgement is None:
            read = read._replace(unjudged=read.unjudged + 1)
        else:
            read.judged.append(judgement)
    return read


def _describe(place: int, row: Row) -> About:
    text = row.text if isinstance(row, Unreadable) else str(dict(row))
    given = {} if isinstance(row, Unreadable) else row
    keys = (name_in(given, ID), "trajectory_id", "row_number")
    name = next((given[key] for key in keys if given.get(key) is not None), None)
    return place, None if name is None else plain(str(name)), plain(text[:EXCERPT_CHARACTERS])


def _read_judgement(about: About, row: Row, row_format: RowFormat) -> Judgement | None:
    """A row's judgement; None if it judges no step.

    Raises:
        MalformedRow: the row cannot be read, names no solution, or contradicts itself.
    """
    if isinstance(row, Unreadable):
        raise MalformedRow(row.reason)
    given = drop_nulls(plain(row))
    solution = _read_solution(given, row_format)
    correct, first_error = _read_judged_steps(given, solution)
    if correct is None and first_error is None and not {"steps", "correct", "first_error"} & {*row} and not solution:
        raise MalformedRow(NO_JUDGEMENT)
    if first_error is None and not {*(correct or ())} - {None}:
        return None
    kind = read_list(given, "kind", _or_null(read_text)) if "kind" in given else None
    left = read_list(given, "operations_left", read_whole_number) if "operations_left" in given else None
    for name, values in {"kind": kind, "operations_left": left}.items():
        if values is not None and len(values) != len(correct or ()):
            raise MalformedRow(f"`{name}` has {len(values)} entries for the {len(correct or ())} steps of `correct`")
    name = name_in(given, ID)
    number, source_id = read_row_number(given), read_optional(given, name, read_identifier)
    judged_text = read_optional(given, "text_hash", read_text)
    asked = question_id(solution.question) if solution and form_of(given) else judged_text and question_of(judged_text)
    if number is None and source_id is None and asked is None:
        raise MalformedRow(NO_NAME)
    steps = solution.steps if solution else None
    return Judgement(about, number, source_id, asked, steps, correct, first_error, kind, left, judged_text)


def _read_solution(row: Mapping[str, Any], row_format: RowFormat) -> Trajectory | None:
    """The solution that a row repeats, also if its steps stand there without a question; None if it repeats none."""
    if form_of(row) is None and "steps" not in row:
        return None
    read = read_row(row if form_of(row) else {"question": "?", **row}, row_format)
    if isinstance(read, Trajectory):
        return read
    raise MalformedRow(read.reason)


def _read_judged_steps(row: Mapping[str, Any], solution: Trajectory | None) -> tuple[Truth | None, int | None]:
    """`correct` and `first_error`, in whichever form a row has them; None if it does not."""
    if "judged" in row:
        return _read_explorer_row(row), None
    if "probabilities" in row and "first_error" in row:
        raise MalformedRow("`probabilities` beside `first_error` are of a reward model, and no person's judgement")
    correct = read_list(row, "correct", _or_null(read_label)) if "correct" in row else None
    first_error = read_optional(row, "first_error", read_whole_number)
    if correct is None and first_error is None and solution and solution.truth:
        return list(solution.truth), None
    if correct is not None and first_error is not None:
        first = first_wrong(correct)
        if first != first_error:
            raise MalformedRow(
                f"the first wrong step of `correct` is {first} (from 0), but `first_error` {first_error}"
            )
        right = len(correct) if first_error == NO_ERROR else first_error
        correct = [*repeat(True, right), *correct[right:]]  # what `correct` leaves open before the first error
    return correct, first_error


def _read_explorer_row(row: Mapping[str, Any]) -> Truth:
    """The judgements of the label explorer: `rewards` is 1 or 0 at the steps in `judged`, and no truth elsewhere."""
    rewards = read_list(row, "rewards", _or_null(read_number), least=0)
    judged = read_list(row, "judged", read_whole_number, least=0)
    for step in judged:
        if not (0 <= step < len(rewards) and rewards[step] in (0, 1)):
            raise MalformedRow(f"`judged` names step {step} (from 0), where `rewards` has neither 1 nor 0")
    return [reward == 1 if step in judged else None for step, reward in enumerate(rewards)]


def _or_null(read: Any) -> Any:
    return lambda value: None if value is None else read(value)


def merge_truths(truths: Sequence[Truth]) -> Truth | None:
    """What several judgements say of the steps of a solution; None if two contradict each other."""
    said = [{*judged} - {None} for judged in zip(*truths, strict=True)]
    return None if any(len(each) > 1 for each in said) else [next(iter(each), None) for each in said]


def kinds_of(judged: Sequence[tuple[Judgement, Truth]], size: int) -> tuple[list[Any] | None, list[Any] | None]:
    """`kind` and `operations_left` of a solution, from the first row that has one for each of its steps."""
    with_kinds = (each for each, _ in judged if (each.kind or each.operations_left) and len(each.correct or ()) == size)
    first = next(with_kinds, None)
    return (None, None) if first is None else (first.kind, first.operations_left)


def with_truth(trajectories: pl.DataFrame, step_truth: pl.DataFrame) -> pl.DataFrame:
    """Join trajectories and the truth about their steps; those without truth are dropped.

    Args:
        trajectories: columns trajectory_id, row_number, steps.
        step_truth: columns row_number, correct.

    Raises:
        SourceError: a trajectory has a different number of steps in its truth.
    """
    both = trajectories.join(step_truth, on="row_number", maintain_order="left")
    sizes = "trajectory_id", "row_number", pl.col("steps").list.len(), pl.col("correct").list.len()
    for name, row, steps, judged in both.select(sizes).filter(pl.col("steps") != pl.col("correct")).iter_rows():
        raise SourceError(
            f"trajectory {name} has {steps} steps, but the truth of source row {row} has {judged}; correct the "
            "truth's source"
        )
    return both
