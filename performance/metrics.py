"""Metrics at full size: ProcessBench and PRMBench from ready predictions, bootstrap included.

    python performance/metrics.py --data DATA

DATA holds processbench/*.jsonl.gz and prmbench/*.jsonl.gz; a half of a benchmark is taken twice under other names until
its full size is there. Without DATA problems of the published sizes are made up. Predictions are random. Every table is
timed as the report asks for it, after one call that is not timed.
"""

import argparse
import gzip
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

SIZES = {
    "processbench_gsm8k": 400,
    "processbench_math": 1_000,
    "processbench_olympiadbench": 1_000,
    "processbench_omnimath": 1_000,
    "prmbench": 6_216,
}
STEPS = {"processbench": 8, "prmbench": 13}
# files, and the fields by which copies of a half differ
FILES = {
    "processbench": ("processbench/{}*.jsonl.gz", ("id", "problem")),
    "prmbench": ("prmbench/*.jsonl.gz", ("idx", "modified_question")),
}
TARGET_SECONDS = 5.0

# before polars and numpy are loaded: one core is what is measured
os.environ.update({"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})

import numpy as np  # noqa: E402
import polars as pl  # noqa: E402

from cpmi_dagster.benchmarks.prm_score import CLASSIFICATIONS  # noqa: E402
from cpmi_dagster.benchmarks.problems import read_benchmark  # noqa: E402
from cpmi_dagster.contracts.keys import JUDGES, PROBLEMS  # noqa: E402
from cpmi_dagster.reports import process_level  # noqa: E402
from cpmi_dagster.reports.inputs import ReportInputs  # noqa: E402

Measure = Callable[[ReportInputs], object]


def main() -> None:
    """Time every table of figures and say whether a benchmark's take less than the target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the real sets; problems are made up without it")
    parser.add_argument("--samples", type=int, default=1000, help="bootstrap resamples")
    parser.add_argument("--repeats", type=int, default=5, help="the median counts")
    arguments = parser.parse_args()
    problems = pl.concat([read_benchmark(name, _rows(name, arguments.data)) for name in SIZES])
    inputs = ReportInputs(_frames(problems), bootstrap_samples=arguments.samples)
    steps = int(problems["steps"].list.len().sum())
    print(f"{len(problems):,} problems, {steps:,} steps, {arguments.samples:,} resamples, one core")
    for benchmark, measures in _measures().items():
        seconds = {name: _median_seconds(measure, inputs, arguments.repeats) for name, measure in measures.items()}
        for name, taken in seconds.items():
            print(f"{benchmark:<13} {name:<44} {taken:6.2f} s")
        total = sum(seconds.values())
        verdict = "within" if total < TARGET_SECONDS else "OVER"
        print(f"{benchmark:<13} {'all of it':<44} {total:6.2f} s   {verdict} {TARGET_SECONDS:.0f} s")


def _measures() -> dict[str, dict[str, Measure]]:
    """By benchmark, what the report computes of one judge."""
    return {
        "ProcessBench": {
            "table, all protocols": process_level.measure_processbench,
            "detailed table, Err and Corr with intervals": process_level.measure_processbench_detailed,
            "AUC and Wasserstein": process_level.measure_distribution,
            "means of right and wrong steps": process_level.measure_score_means,
        },
        "PRMBench": {
            "table": process_level.measure_prmbench,
            "detailed table": process_level.measure_prmbench,
        },
    }


def _median_seconds(measure: Measure, inputs: ReportInputs, repeats: int) -> float:
    measure(inputs)
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        measure(inputs)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def _frames(problems: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The problems, and a judge that draws its probabilities."""
    steps = problems.select(
        pl.lit("random").alias("judge"),
        "benchmark",
        "problem_id",
        pl.int_ranges(pl.col("steps").list.len()).alias("step_index"),
    ).explode("step_index")
    drawn = np.random.default_rng(0).random(len(steps))
    return {PROBLEMS: problems, JUDGES: steps.with_columns(probability=pl.Series(drawn))}


def _rows(benchmark: str, data: Path | None) -> pl.DataFrame:
    """Rows in the benchmark's published form, as many as it has."""
    family, _, subset = benchmark.partition("_")
    if data is None:
        return _made_up_prmbench() if family == "prmbench" else _made_up_processbench(SIZES[benchmark])
    pattern, fields = FILES[family]
    files = sorted(data.glob(pattern.format(subset)))
    half = pl.concat([pl.read_ndjson(gzip.decompress(file.read_bytes()), infer_schema_length=None) for file in files])
    copies = -(-SIZES[benchmark] // len(half))
    named = [[pl.format("{}-{}", name, pl.lit(copy)).alias(name) for name in fields] for copy in range(copies)]
    return pl.concat([half.with_columns(names) for names in named]).head(SIZES[benchmark])


def _made_up_processbench(count: int) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    lengths = rng.integers(2, 2 * STEPS["processbench"] - 1, count)
    labels = [int(rng.integers(length)) if number % 2 else -1 for number, length in enumerate(lengths)]
    return pl.DataFrame(
        {
            "id": [f"{number}" for number in range(count)],
            "problem": [f"question {number}" for number in range(count)],
            "steps": [["step"] * int(length) for length in lengths],
            "label": labels,
        }
    )


def _made_up_prmbench() -> pl.DataFrame:
    rng = np.random.default_rng(2)
    count = SIZES["prmbench"]
    lengths = rng.integers(3, 2 * STEPS["prmbench"] - 2, count)
    kinds = [CLASSIFICATIONS[number % len(CLASSIFICATIONS)] for number in range(count)]
    wrong = [
        [] if kind == "multi_solutions" else sorted({int(step) for step in rng.integers(1, length + 1, 3)})
        for kind, length in zip(kinds, lengths, strict=True)
    ]
    return pl.DataFrame(
        {
            "idx": [f"{number // len(CLASSIFICATIONS)}" for number in range(count)],
            "classification": kinds,
            "modified_question": [f"question {number // len(CLASSIFICATIONS)}" for number in range(count)],
            "modified_process": [["step"] * int(length) for length in lengths],
            "error_steps": pl.Series(wrong, dtype=pl.List(pl.Int64)),
        }
    )


if __name__ == "__main__":
    main()
