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
from pydantic import BaseModel, Field, model_validator

from cpmi_dagster.contracts.tables import StepTruth
from cpmi_dagster.errors import SourceError
from cpmi_dagster.files.bounded_reading import BoundedList
from cpmi_dagster.trajectories.forms import ProcessBenchRow, form_of
from cpmi_dagster.trajectories.rows import Row, Unreadable, validated

ADVICE = "give rows of row_number and correct, or of problem, steps and label (ProcessBench)"


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


def read_step_truth(rows: Iterable[Row]) -> pl.DataFrame:
    """The truth about steps, in the order of the rows.

    Args:
        rows: objects with `row_number` and `correct`, or ProcessBench's, in the order of the trajectory source.

    Returns:
        Columns of `sources.step_truth`.

    Raises:
        SourceError: a row is of neither form; the message names it.
    """
    read = []
    for place, row in enumerate(rows):
        if not isinstance(row, Unreadable) and form_of(row) is ProcessBenchRow:
            solution = validated("step truth", place, row, ProcessBenchRow, ADVICE)
            read.append((place, solution.truth(), None, None))
        else:
            truth = validated("step truth", place, row, StepTruthRow, ADVICE)
            read.append((truth.row_number, truth.correct, truth.kind, truth.operations_left))
    return pl.DataFrame(read, schema=StepTruth.create_empty().schema, orient="row")


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
