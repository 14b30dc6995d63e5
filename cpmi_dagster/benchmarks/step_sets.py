"""Step benchmarks: ProcessBench and PRMBench in their published forms.

processbench  id, problem, steps, label (0-based first wrong step, -1 for none), generator
prmbench      idx, classification, modified_question, modified_process, error_steps (1-based)
"""

import polars as pl

from cpmi_dagster.benchmarks.fields import reject_rows, required
from cpmi_dagster.benchmarks.prmbench import CLASSIFICATIONS


def read_processbench(benchmark: str, rows: pl.DataFrame) -> pl.DataFrame:
    """ProcessBench rows as `BenchmarkProblems`; the generator is the category.

    Raises:
        SourceError: a field is missing, there are no steps, or the label is not a step.
    """
    kinds = {"id": pl.String(), "problem": pl.String(), "steps": pl.List(pl.String()), "label": pl.Int64()}
    fields = required(benchmark, rows, **kinds)
    reject_rows(benchmark, fields, pl.col("steps").list.len() == 0, "`steps` is empty; remove the row")
    outside = (pl.col("label") < -1) | (pl.col("label") >= pl.col("steps").list.len())
    reject_rows(benchmark, fields, outside, "`label` is neither -1 nor the 0-based number of a step")
    problems = fields.rename({"id": "problem_id", "problem": "question", "label": "first_error"})
    return problems.with_columns(rows["generator"].alias("category")) if "generator" in rows.columns else problems


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
        modified_question=pl.String(),
        modified_process=pl.List(pl.String()),
        error_steps=pl.List(pl.Int64()),
    )
    unknown = ~pl.col("classification").is_in(CLASSIFICATIONS)
    reject_rows(benchmark, fields, unknown, f"`classification` is none of {', '.join(CLASSIFICATIONS)}")
    reject_rows(benchmark, fields, pl.col("modified_process").list.len() == 0, "`modified_process` is empty")
    below = pl.col("error_steps").list.min().fill_null(1) < 1
    reject_rows(benchmark, fields, below, "`error_steps` has a number below 1, but counts from 1")
    return fields.select(
        pl.format("{}:{}", "idx", "classification").alias("problem_id"),
        pl.col("modified_question").alias("question"),
        pl.col("modified_process").alias("steps"),
        pl.col("error_steps").list.eval(pl.element() - 1),
        pl.col("classification").alias("category"),
    )
