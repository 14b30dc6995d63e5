"""Whether steps are truly right, as a source of truth has it: by row number, or by the first wrong step (ProcessBench).

    {"row_number": 7, "correct": [true, false, true]}                             row 7 of the trajectory source
    {"problem": "2 + 3?", "steps": ["2 + 3 = 6", "6 …", "6 …"], "label": 0}       the source's row of the same place

    row_number  correct
    7           [true, false, true]
    0           [false, null, null]      people judge a solution up to its first wrong step, and nothing after it

A row may also say what makes each step wrong (`kind`) and how many operations are left to do after it
(`operations_left`). The file that ProcessBench's trajectories are read from is their truth too.
"""

from collections.abc import Iterable
from typing import Annotated

import polars as pl
from pydantic import BaseModel, Field, ValidationError, model_validator

from cpmi_dagster.contracts.tables import StepTruth
from cpmi_dagster.errors import SourceError, first_complaint
from cpmi_dagster.files.bounded_reading import BoundedList
from cpmi_dagster.trajectories.forms import ProcessBenchRow, form_of
from cpmi_dagster.trajectories.rows import Row, Unreadable


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

    def truth(self) -> list[bool | None]:
        """Whether each step is right."""
        return self.correct


def read_step_truth(rows: Iterable[Row]) -> pl.DataFrame:
    """The truth about steps, in the order of the rows.

    Args:
        rows: objects with `row_number` and `correct`, or ProcessBench's, in the order of the trajectory source.

    Returns:
        Columns of `sources.step_truth`.

    Raises:
        SourceError: a row is of neither form; the message names it.
    """
    read = [_read(place, row) for place, row in enumerate(rows)]
    return pl.DataFrame(read, schema=StepTruth.create_empty().schema, orient="row")


def _read(place: int, row: Row) -> tuple[object, ...]:
    if isinstance(row, Unreadable):
        raise SourceError(f"step truth, {row.place}: {row.reason}; correct or remove it")
    form = ProcessBenchRow if form_of(row) is ProcessBenchRow else StepTruthRow
    try:
        read = form.model_validate(dict(row))
    except ValidationError as error:
        raise SourceError(
            f"step truth, row {place} (from 0): {first_complaint(error)}; give rows of row_number and correct, or of "
            "problem, steps and label (ProcessBench)"
        ) from error
    if isinstance(read, StepTruthRow):
        return read.row_number, read.truth(), read.kind, read.operations_left
    return place, read.truth(), None, None
