"""What is read from outside: trajectories, reference problems, benchmarks."""

import polars as pl

from cpmi_dagster.benchmarks.problems import read_benchmark
from cpmi_dagster.references import read_references
from cpmi_dagster.settings import DataSource, Settings
from cpmi_dagster.source_rows import number_rows, rows_by_shard
from cpmi_dagster.tables import BenchmarkProblems, StepTruth
from resources.stage import stage
from resources.stage_run import Made, StageRun


@stage(
    "sources/math_shepherd",
    sources=lambda settings: {"math_shepherd": settings.sources.math_shepherd},
    settings=["shards"],
)
def math_shepherd(run: StageRun, shard: str) -> Made:
    """Rows are dealt to shards by a hash of their question, so that a question's trajectories stay together."""

    def read() -> dict[str, pl.DataFrame]:
        rows = number_rows(run.sources.rows(run.settings.sources.math_shepherd))
        return rows_by_shard(rows, run.settings.shards)

    return Made(run.once("rows by shard", read)[shard])


def _step_truth(settings: Settings) -> dict[str, DataSource]:
    return {"step_truth": settings.sources.step_truth} if settings.sources.step_truth else {}


@stage("sources/step_truth", sources=_step_truth)
def step_truth(run: StageRun) -> Made:
    """Empty unless the profile names a source: no large corpus has true step labels."""
    source = run.settings.sources.step_truth
    return Made(run.sources.rows(source) if source else StepTruth.create_empty())


@stage(
    "sources/reference_problems",
    sources=lambda settings: {f"{number}": source for number, source in enumerate(settings.sources.references)},
    settings=["sources.references"],
)
def reference_problems(run: StageRun) -> Made:
    """The reference solution's `#### n` or last `\\boxed{}` is the gold answer."""
    read = [
        read_references(run.sources.rows(source), source.source, source.split)
        for source in run.settings.sources.references
    ]
    return Made(pl.concat(read))


@stage("sources/benchmark_problems", sources=lambda settings: settings.sources.benchmarks)
def benchmark_problems(run: StageRun) -> Made:
    """Process benchmarks carry the steps to be judged, question sets the gold answer."""
    read = [read_benchmark(name, run.sources.rows(source)) for name, source in run.settings.sources.benchmarks.items()]
    return Made(pl.concat([BenchmarkProblems.create_empty(), *read]))


STAGES = (math_shepherd, step_truth, reference_problems, benchmark_problems)
