"""Every benchmark in one shape: `sources.benchmark_problems`.

Each family's own module knows the fields of its source; here they are dispatched by name and brought to one schema:

    benchmark          problem_id  question            choices  answer  steps         first_error  error_steps
    processbench_math  math-0      Determine the rem…  –        –       [To determ…]  0            –
    prmbench           …:circular  Three pencils and…  –        –       [1. Let's …]  –            [2, 3, 4]
    gsm8k              0           Janet’s ducks lay…  –        18      –             –            –
"""

from collections.abc import Callable

import polars as pl

from cpmi_dagster.benchmarks import logic, prmbench, processbench, question_sets
from cpmi_dagster.contracts.tables import BenchmarkProblems
from cpmi_dagster.errors import SourceError

Reader = Callable[[str, pl.DataFrame], pl.DataFrame]

READERS: dict[str, Reader] = {
    **dict.fromkeys(processbench.SUBSETS, processbench.read_problems),
    prmbench.PRMBENCH: prmbench.read_problems,
    "gsm8k": question_sets.read_gsm8k,
    "math500": question_sets.read_math500,
    "mmlu_stem": question_sets.read_mmlu_stem,
    "omni_math": question_sets.read_omni_math,
    "folio": logic.read_folio,
    "logiqa2": logic.read_logiqa2,
    "logicnli": logic.read_logicnli,
}


def read_benchmark(name: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Bring a benchmark's source rows to one shape.

    Args:
        name: a key of `READERS`.
        rows: rows with the field names of the benchmark's published form.

    Returns:
        `BenchmarkProblems` columns, in the order of the source. An id the source repeats gets `:1`, `:2`, … appended.

    Raises:
        SourceError: the name is unknown, or a row lacks a field.
        BenchmarkError: there are no rows.
    """
    if name not in READERS:
        raise SourceError(f"there is no benchmark `{name}`; known are {', '.join(READERS)}")
    known = READERS[name](name, rows)
    columns = {column: definition.dtype for column, definition in BenchmarkProblems.columns().items()}
    shaped = known.select(
        pl.lit(name).alias("benchmark"),
        *(
            pl.col(column).cast(dtype) if column in known.columns else pl.lit(None, dtype).alias(column)
            for column, dtype in columns.items()
            if column != "benchmark"
        ),
    )
    return shaped.with_columns(_distinct_ids())


def _distinct_ids() -> pl.Expr:
    repeat = pl.int_range(pl.len()).over("problem_id")
    suffix = pl.when(repeat > 0).then(pl.format(":{}", repeat)).otherwise(pl.lit(""))
    return pl.col("problem_id") + suffix
