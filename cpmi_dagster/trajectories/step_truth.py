"""The truth about steps, by row number, by trajectory id, or in judged solutions.

    {"row_number": 7, "correct": [true, false, true]}                             row 7 of the trajectory source
    {"trajectory_id": "t000000003", "rewards": [0.9, 0.0], "judged": [1]}         the label explorer's judgements
    {"problem": "2 + 3?", "steps": ["2 + 3 = 6", "6 …", "6 …"], "label": 0}       row of the source in this place
    {"question": {"problem": …}, "label": {"steps": […]}}                         likewise (PRM800K)

    row_number  correct
    7           [true, false, true]
    3           [null, false]            only steps in `judged` count
    0           [false, null, null]      nobody judges steps after the first error

A row may also say what makes each step wrong (`kind`) and how many operations remain after it (`operations_left`). A
file of judged trajectories is also their truth; its unreadable and unjudged rows have none.
"""

from collections.abc import Iterable
from typing import Annotated, Any

import polars as pl
from pydantic import BaseModel, Field, model_validator

from cpmi_dagster.contracts.tables import StepTruth
from cpmi_dagster.errors import SourceError
from cpmi_dagster.files.bounded_reading import BoundedList
from cpmi_dagster.trajectories.forms import form_of
from cpmi_dagster.trajectories.identifiers import TRAJECTORY_ID
from cpmi_dagster.trajectories.math_shepherd import Trajectory
from cpmi_dagster.trajectories.rows import Row, Unreadable, read_row, validate

ADVICE = (
    "give rows of row_number and correct, of trajectory_id, rewards and judged (own_labels.jsonl of the label "
    "explorer), or the judged solutions of ProcessBench or PRM800K"
)


class StepTruthRow(BaseModel):
    """The truth about the steps of one row of the trajectory source; null for an unjudged step."""

    row_number: Annotated[int, Field(ge=0)]
    correct: BoundedList[bool | None]
    kind: BoundedList[str | None] | None = None
    operations_left: BoundedList[int] | None = None

    @model_validator(mode="after")
    def _lists_fit(self) -> "StepTruthRow":
        for name in ("kind", "operations_left"):
            if (values := getattr(self, name)) is not None and len(values) != len(self.correct):
                raise ValueError(f"`{name}` has {len(values)} entries for the {len(self.correct)} steps of `correct`")
        return self


class JudgedRow(BaseModel):
    """A row of the label explorer: `rewards` is 1 or 0 at the steps in `judged`, and no truth elsewhere."""

    trajectory_id: Annotated[str, Field(pattern=TRAJECTORY_ID)]
    rewards: BoundedList[float | None]
    judged: BoundedList[int]

    @model_validator(mode="after")
    def _judgements_are_clear(self) -> "JudgedRow":
        for step in self.judged:
            if not (0 <= step < len(self.rewards) and self.rewards[step] in (0, 1)):
                raise ValueError(f"`judged` names step {step} (from 0), where `rewards` has neither 1 nor 0")
        return self

    @property
    def row_number(self) -> int:
        """The row of the trajectory source."""
        return int(self.trajectory_id.removeprefix("t"))

    @property
    def correct(self) -> list[bool | None]:
        """Whether each step is right; None if it is unjudged or annotators are split evenly."""
        judged = set(self.judged)
        return [reward == 1 if step in judged else None for step, reward in enumerate(self.rewards)]


def read_step_truth(rows: Iterable[Row]) -> tuple[pl.DataFrame, int]:
    """Read rows of `sources.step_truth`, and count the solutions without truth.

    Args:
        rows: objects with `row_number` and `correct`, rows of the label explorer, or the rows of the trajectory source
            in order.

    Raises:
        SourceError: a row is invalid, or two rows are about the same row of the source.
    """
    read: list[tuple[int, Any, Any, Any]] = []
    first_error: SourceError | None = None
    solutions = count = 0
    for place, row in enumerate(rows):
        count += 1
        if not isinstance(row, Unreadable) and form_of(row) is not None:
            solutions += 1
            solution = read_row(row)
            if isinstance(solution, Trajectory) and solution.truth is not None:
                read.append((place, solution.truth, None, None))
            continue
        try:
            if not isinstance(row, Unreadable) and "judged" in row:
                judged = validate("step truth", place, row, JudgedRow, ADVICE)
                read.append((judged.row_number, judged.correct, None, None))
            else:
                truth = validate("step truth", place, row, StepTruthRow, ADVICE)
                read.append((truth.row_number, truth.correct, truth.kind, truth.operations_left))
        except SourceError as error:
            first_error = first_error or error
    if first_error is not None and not solutions:
        raise first_error
    if count and not read:
        raise SourceError(f"step truth: none of the {count:,} rows says which steps are right; {ADVICE}")
    truths = pl.DataFrame(read, schema=StepTruth.create_empty().schema, orient="row")
    again = truths["row_number"].filter(~truths["row_number"].is_first_distinct())
    if len(again):
        raise SourceError(
            f"step truth: two rows are about row {again[0] + 1} of the trajectory source; remove one of them"
        )
    return truths, count - len(read)


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
