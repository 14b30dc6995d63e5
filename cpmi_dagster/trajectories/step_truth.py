"""Whether steps are truly right, as a source of truth has it: by row number, or by people's judgement of solutions.

    {"row_number": 7, "correct": [true, false, true]}                             row 7 of the trajectory source
    {"problem": "2 + 3?", "steps": ["2 + 3 = 6", "6 …", "6 …"], "label": 0}       the source's row of the same place
    {"question": {"problem": …}, "label": {"steps": […]}}                         likewise (PRM800K)

    row_number  correct
    7           [true, false, true]
    0           [false, null, null]      people judge a solution up to its first wrong step, and nothing after it

A row may also say what makes each step wrong (`kind`) and how many operations are left to do after it
(`operations_left`). The file that judged trajectories are read from is their truth too; a row of it that cannot be
read, or that nobody has judged, has none.
"""

from collections.abc import Iterable
from typing import Annotated, Any

import polars as pl
from pydantic import BaseModel, Field, ValidationError, model_validator

from cpmi_dagster.contracts.tables import StepTruth
from cpmi_dagster.errors import SourceError
from cpmi_dagster.files.bounded_reading import BoundedList
from cpmi_dagster.trajectories.forms import form_of
from cpmi_dagster.trajectories.judged_rows import Prm800kRow, ProcessBenchRow
from cpmi_dagster.trajectories.rows import Row, Unreadable, validated

ADVICE = "give rows of row_number and correct, or the judged solutions of ProcessBench or PRM800K"


class StepTruthRow(BaseModel):
    """The truth about the steps of one row of the trajectory source; null for a step that nobody has judged."""

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


def read_step_truth(rows: Iterable[Row]) -> tuple[pl.DataFrame, int]:
    """The truth about steps, in the order of the rows, and how many solutions have none.

    Args:
        rows: objects with `row_number` and `correct`, or the rows of the trajectory source in their order.

    Returns:
        Columns of `sources.step_truth`.

    Raises:
        SourceError: a row is neither; the message names it.
    """
    read: list[tuple[int, list[bool | None], Any, Any]] = []
    first_error: SourceError | None = None
    solutions = count = 0
    for place, row in enumerate(rows):
        count += 1
        form = None if isinstance(row, Unreadable) else form_of(row)
        if form is not None:
            solutions += 1
            if form.is_judged and (judged := _judgement(form.model, row)) is not None:
                read.append((place, judged, None, None))
            continue
        try:
            truth = validated("step truth", place, row, StepTruthRow, ADVICE)
            read.append((truth.row_number, truth.correct, truth.kind, truth.operations_left))
        except SourceError as error:
            first_error = first_error or error
    if first_error is not None and not solutions:
        raise first_error
    return pl.DataFrame(read, schema=StepTruth.create_empty().schema, orient="row"), count - len(read)


def _judgement(form: type[BaseModel], row: Row) -> list[bool | None] | None:
    """What people say of the steps of a solution; None where the row cannot be read, as its trajectory cannot."""
    try:
        solution = form.model_validate(row)
    except ValidationError:
        return None
    return solution.truth() if isinstance(solution, ProcessBenchRow | Prm800kRow) else None


def with_truth(trajectories: pl.DataFrame, step_truth: pl.DataFrame) -> pl.DataFrame:
    """The trajectories whose truth is known, with the columns of the truth.

    Args:
        trajectories: trajectory_id, row_number, steps.
        step_truth: row_number, correct.

    Raises:
        SourceError: a trajectory has more or fewer true labels than steps.
    """
    both = trajectories.join(step_truth, on="row_number", maintain_order="left")
    sizes = "trajectory_id", "row_number", pl.col("steps").list.len(), pl.col("correct").list.len()
    for name, row, steps, judged in both.select(sizes).filter(pl.col("steps") != pl.col("correct")).iter_rows():
        raise SourceError(
            f"trajectory {name} has {steps} steps, but the truth of source row {row} has {judged}; correct the "
            "truth's source"
        )
    return both
