"""Step benchmarks: ProcessBench and PRMBench in their published forms.

processbench  id, problem, steps, label (0-based first wrong step, -1 for none), generator
prmbench      idx, classification, modified_question, modified_process, error_steps (1-based)
"""

import polars as pl

from cpmi_dagster.benchmarks.fields import reject_rows, required
from cpmi_dagster.benchmarks.prmbench import CLASSIFICATIONS
from cpmi_dagster.errors import SourceError
from cpmi_dagster.trajectories.fields import NO_ERROR
from cpmi_dagster.trajectories.readers import Trajectory
from cpmi_dagster.trajectories.rows import Defect, RowFormat, read_row


def read_processbench(benchmark: str, rows: pl.DataFrame) -> pl.DataFrame:
    """ProcessBench rows as `BenchmarkProblems`; the generator is the category.

    Raises:
        SourceError: a field is missing, there are no steps, or the label is not a step.
    """
    fields = required(benchmark, rows, id=pl.String())
    read = _trajectories(benchmark, rows)
    problems = fields.select(
        pl.col("id").alias("problem_id"),
        pl.Series("question", [each.question for each in read]),
        pl.Series("steps", [each.steps for each in read], dtype=pl.List(pl.String())),
        pl.Series("first_error", [first_error(each) for each in read], dtype=pl.Int64()),
    )
    return problems.with_columns(rows["generator"].alias("category")) if "generator" in rows.columns else problems


def first_error(solution: Trajectory) -> int:
    """The first step that people judged wrong, from 0; -1 if none is."""
    judged = solution.truth or ()
    return judged.index(False) if False in judged else NO_ERROR


def read_prmbench(benchmark: str, rows: pl.DataFrame) -> pl.DataFrame:
    """PRMBench rows as `BenchmarkProblems`; the id is `idx:classification`.

    Raises:
        SourceError: a field is missing, there are no steps, a category is unknown or a step number below 1.
    """
    fields = required(
        benchmark,
        rows,
        idx=pl.String(),
        classification=pl.String(),
        error_steps=pl.List(pl.Int64()),
    )
    unknown = ~pl.col("classification").is_in(CLASSIFICATIONS)
    reject_rows(benchmark, fields, unknown, f"`classification` is none of {', '.join(CLASSIFICATIONS)}")
    below = pl.col("error_steps").list.min().fill_null(1) < 1
    reject_rows(benchmark, fields, below, "`error_steps` has a number below 1, but counts from 1")
    read = _trajectories(benchmark, rows)
    return fields.select(
        pl.format("{}:{}", "idx", "classification").alias("problem_id"),
        pl.Series("question", [each.question for each in read]),
        pl.Series("steps", [each.steps for each in read], dtype=pl.List(pl.String())),
        pl.col("error_steps").list.eval(pl.element() - 1),
        pl.col("classification").alias("category"),
    )


def _trajectories(benchmark: str, rows: pl.DataFrame) -> list[Trajectory]:
    """The rows as every reader of trajectories reads them, with empty steps.

    Raises:
        SourceError: a row cannot be read.
    """
    solutions = []
    for number, row in enumerate(rows.iter_rows(named=True)):
        read = read_row(row, RowFormat(keeps_empty=True))
        if isinstance(read, Defect):
            raise SourceError(f"benchmark `{benchmark}`, row {number}: {read.reason}; correct or remove the row")
        solutions.append(read)
    return solutions
