"""What is known of a judge: `cpmi evaluate` on the problems of a profile's sources, and the report of its own home."""

from pathlib import Path

import polars as pl

from cpmi_dagster.benchmarks.judges import benchmarks_named, read_judged_lines
from cpmi_dagster.benchmarks.registry import read_benchmark
from cpmi_dagster.contracts.keys import FIGURES
from cpmi_dagster.contracts.report_tables import TOPIC_OF
from cpmi_dagster.contracts.tables import BenchmarkProblems
from cpmi_dagster.errors import BenchmarkError
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.reports.benchmark_tables import evaluate as judge_figures
from cpmi_dagster.reports.summary import describe_models
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.sources.data_sources import DataSources

REWARD_MODELS = "reward_models"


def belief_of(prm: str) -> str:
    """What the report of a home says of one of its reward models; empty for a model from elsewhere.

    Args:
        prm: a model as for `judge`, such as `.cpmi/mine/models/cpmi_bce`.
    """
    folder = Path(prm).absolute()
    lake = Lake(folder.parents[1]) if folder.is_dir() and len(folder.parents) > 1 else None
    if lake is None or folder.parent.name != "models" or not lake.has(FIGURES, TOPIC_OF[REWARD_MODELS]):
        return ""
    measured = lake.read(FIGURES, TOPIC_OF[REWARD_MODELS]).filter(artifact=REWARD_MODELS)
    return describe_models(measured).get(folder.name, "")


def evaluate(settings: Settings, predictions: Path, name: str, benchmark: str | None) -> pl.DataFrame:
    """The figures of an external judge, from the problems of the profile's sources; no stage is run.

    Args:
        predictions: JSON Lines of step probabilities.
        name: the judge's name.
        benchmark: the benchmark of lines that name none.

    Raises:
        BenchmarkError: the profile has no benchmarks.
        CpmiError: a source or the file cannot be read, or the file does not fit the problems; names the line.
    """
    if not settings.sources.benchmarks:
        raise BenchmarkError(
            f"profile `{settings.profile}` has no benchmarks to evaluate on; add some to sources.benchmarks, or give "
            "another --profile"
        )
    lines = read_judged_lines(predictions, benchmark)
    wanted = benchmarks_named(lines)
    sources = DataSources(settings)
    read = [
        read_benchmark(key, sources.rows(source))
        for key, source in settings.sources.benchmarks.items()
        if key in wanted
    ]
    problems = pl.concat([BenchmarkProblems.create_empty(), *read])
    return judge_figures(name, lines, problems, settings.benchmarks.bootstrap_samples, settings.seed)
