"""Every benchmark in one shape: `sources.benchmark_problems`.

Each family's own module knows the fields of its source; here they are dispatched by name and brought to one schema:

    benchmark          problem_id  question            choices  answer  steps         first_error  error_steps
    processbench_math  math-0      Determine the rem…  –        –       [To determ…]  0            –
    prmbench           …:circular  Three pencils and…  –        –       [1. Let's …]  –            [2, 3, 4]
    gsm8k              0           Janet’s ducks lay…  –        18      –             –            –
"""

import polars as pl

from cpmi_dagster.benchmarks.registry import BENCHMARKS
from cpmi_dagster.contracts.tables import BenchmarkProblems
from cpmi_dagster.errors import SourceError
from cpmi_dagster.miniature.names import local_path


def read_benchmark(name: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Bring a benchmark's source rows to one shape.

    Args:
        name: a key of `BENCHMARKS`.
        rows: rows with the field names of the benchmark's published form.

    Returns:
        `BenchmarkProblems` columns, in the order of the source. An id the source repeats gets `:1`, `:2`, … appended.

    Raises:
        SourceError: the name is unknown, or a row lacks a field.
        BenchmarkError: there are no rows.
    """
    if name not in BENCHMARKS:
        raise SourceError(f"there is no benchmark `{name}`; choose from {', '.join(BENCHMARKS)}")
    problems = BENCHMARKS[name].read(name, rows).with_columns(pl.lit(name).alias("benchmark"))
    columns = BenchmarkProblems.create_empty().schema
    shaped = problems.select(
        pl.col(column).cast(dtype) if column in problems.columns else pl.lit(None, dtype).alias(column)
        for column, dtype in columns.items()
    )
    repeat = pl.int_range(pl.len()).over("problem_id")
    suffix = pl.when(repeat > 0).then(pl.format(":{}", repeat)).otherwise(pl.lit(""))
    return shaped.with_columns(pl.col("problem_id") + suffix)


def check_benchmark_file(name: str, path: str | None) -> None:
    """Refuse a benchmark whose local file does not exist, with where to get it.

    Args:
        path: its path in the profile, None on the hub.

    Raises:
        SourceError: there is no such file or folder.
    """
    if path is None or local_path(path).exists():
        return
    origin = BENCHMARKS[name].origin if name in BENCHMARKS else None
    advice = f"get it from {origin} (docs/logic_sets.md), " if origin else "correct the path, "
    raise SourceError(
        f"the benchmark `{name}` is not at {path}; {advice}or remove it from sources.benchmarks and best_of_n"
    )
