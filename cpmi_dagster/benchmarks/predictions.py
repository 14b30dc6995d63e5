"""Step probabilities joined to the problems they judge, complete or refused.

    benchmark          problem_id  question          steps        …  probabilities
    processbench_math  math-0      Determine the r…  [To det…, …]    [0.93, 0.12]

A figure over part of a benchmark is not that benchmark's figure: a problem or step without a prediction is an error.
"""

import polars as pl

from cpmi_dagster.benchmarks.fields import first_row
from cpmi_dagster.errors import BenchmarkError

KEYS = ["benchmark", "problem_id"]


def with_probabilities(predictions: pl.DataFrame, problems: pl.DataFrame) -> pl.DataFrame:
    """Join each problem's step probabilities to it.

    Args:
        predictions: problem_id, step_index, probability of one model, and benchmark if `problems` has several.
            Rows of other benchmarks are ignored.
        problems: `BenchmarkProblems` columns.

    Returns:
        `problems` sorted by benchmark and id, with `probabilities`, a list as long as `steps`.

    Raises:
        BenchmarkError: a prediction is missing, repeated, outside 0..1 or of an unknown problem, or counts differ.
    """
    if problems.is_empty():
        raise BenchmarkError("there are no problems to judge; check the benchmark's source and split")
    names = problems["benchmark"].unique()
    if "recipe" in predictions.columns and predictions["recipe"].n_unique() > 1:
        raise BenchmarkError("the predictions belong to several recipes; pass those of one")
    if "benchmark" not in predictions.columns:
        if len(names) > 1:
            raise BenchmarkError(f"the predictions do not say to which of {', '.join(names.sort())} they belong")
        predictions = predictions.with_columns(pl.lit(names[0]).alias("benchmark"))
    scored = predictions.filter(pl.col("benchmark").is_in(names.implode()))
    if row := first_row(scored.join(problems, on=KEYS, how="anti")):
        raise BenchmarkError(
            f"there is a prediction for `{row['problem_id']}`, which is not a problem of {row['benchmark']} as loaded"
        )
    if row := first_row(scored.filter(~pl.col("probability").is_between(0, 1).fill_null(False))):
        raise BenchmarkError(f"{_step(row)} has the probability {row['probability']}; it must lie in [0, 1]")
    if row := first_row(scored.filter(pl.struct(*KEYS, "step_index").is_duplicated())):
        raise BenchmarkError(f"{_step(row)} has two predictions; keep one")
    by_step = pl.col("probability").sort_by("step_index").alias("probabilities")
    judged = scored.group_by(KEYS).agg(by_step, pl.col("step_index").sort())
    both = problems.sort(KEYS).join(judged, on=KEYS, how="left", maintain_order="left")
    missing = both.filter(pl.col("probabilities").is_null())
    if row := first_row(missing):
        raise BenchmarkError(
            f"problem `{row['problem_id']}` of {row['benchmark']} has no predictions "
            f"({len(missing)} such problems); judge it before computing metrics"
        )
    count = pl.col("steps").list.len()
    unequal = both.filter(
        (pl.col("probabilities").list.len() != count)
        | (pl.col("step_index").list.first() != 0)
        | (pl.col("step_index").list.last() != count.cast(pl.Int64) - 1)
    )
    if row := first_row(unequal):
        raise BenchmarkError(
            f"problem `{row['problem_id']}` of {row['benchmark']} has {len(row['steps'])} steps, but predictions for "
            f"{len(row['probabilities'])}, steps {row['step_index'][0]} to {row['step_index'][-1]}; judge it again"
        )
    return both.drop("step_index")


def _step(row: dict[str, object]) -> str:
    return f"step_index {row['step_index']} of problem `{row['problem_id']}` of {row['benchmark']}"
