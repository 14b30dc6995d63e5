"""`cpmi evaluate`: the figures of an external judge, from a file of its step probabilities.

    benchmark     protocol  figure    value  low   high  n
    ProcessBench  paper     GSM8K F1  47.9   42.1  53.0  200     threshold best on each subset
    ProcessBench  official  GSM8K F1  47.9   42.1  53.0  200     one threshold, the one best on GSM8K
    PRMBench      released  NR        41.2   39.9  42.4  380     threshold with the best F1 of wrong steps
    PRMBench      best      NR        51.2   49.9  52.4  380     threshold with the best overall PRMScore

`processbench` and `prm_score` say what each protocol chooses.
The figures are those of the report: percent, with 95 % intervals over questions; AUC, Wasserstein and means in [0, 1].
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import polars as pl

from cpmi_dagster.benchmarks.judges import PlacedLine, judge_predictions
from cpmi_dagster.benchmarks.prm_score import Protocol as PrmProtocol
from cpmi_dagster.benchmarks.processbench import Protocol
from cpmi_dagster.contracts.keys import JUDGES, PROBLEMS
from cpmi_dagster.reports.html_tables import format_figure, format_interval
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.paper import load_paper_tables, without_protocol
from cpmi_dagster.reports.process_level import (
    PRM_PROTOCOLS,
    PROTOCOLS,
    measure_distribution,
    measure_prmbench,
    measure_prmbench_detailed,
    measure_processbench_detailed,
    measure_score_means,
)
from cpmi_dagster.reports.reward_rows import CHANCE_ROW


class _Part(NamedTuple):
    """An artifact whose figures are shown, the benchmark they are from, and the protocols by which they are.

    Attributes:
        protocols: what the row's label ends with, by protocol; empty where no threshold is involved.
    """

    artifact: str
    benchmark: str
    measure: Callable[[ReportInputs], pl.DataFrame]
    protocols: Mapping[Protocol, str] | Mapping[PrmProtocol, str]


PARTS: tuple[_Part, ...] = (
    _Part("processbench_detailed", "ProcessBench", measure_processbench_detailed, PROTOCOLS),
    _Part("distribution", "ProcessBench-Math", measure_distribution, {}),
    _Part("distribution_figure", "ProcessBench-Math", measure_score_means, {}),
    _Part("prmbench_detailed", "PRMBench", measure_prmbench_detailed, PRM_PROTOCOLS),
    _Part("prmbench", "PRMBench", measure_prmbench, PRM_PROTOCOLS),
)
SAME_AS_OVERALL = "Total"


def evaluate(
    name: str, lines: list[PlacedLine], problems: pl.DataFrame, bootstrap_samples: int, seed: int
) -> pl.DataFrame:
    """The figures of one judge on every benchmark it covers.

    Returns:
        judge, benchmark, protocol (null where no threshold is involved; `chance` is a random judge), figure, value,
        low, high, n.

    Raises:
        BenchmarkError: the lines do not fit the problems; the message names the line.
    """
    predictions = judge_predictions(lines, problems).select(pl.lit(name).alias("judge"), pl.all())
    inputs = ReportInputs({PROBLEMS: problems, JUDGES: predictions}, bootstrap_samples=bootstrap_samples, seed=seed)
    figures = [_named(part, part.measure(inputs), name) for part in PARTS]
    return pl.concat(figures).filter(~pl.col("figure").str.starts_with(SAME_AS_OVERALL))


def readable(figures: pl.DataFrame) -> pl.DataFrame:
    """Figures for people: `47.9 [42.1, 53.0]`, with the decimals of the paper's tables."""
    tables = load_paper_tables()
    decimals = {
        (part.benchmark, column): places
        for part in PARTS
        for column, places in {**tables[part.artifact].columns, **tables[part.artifact].own_columns}.items()
    }
    shown = [
        format_figure(row["value"], places := decimals.get((row["benchmark"], without_protocol(row["figure"])), 1))
        + f" {format_interval(row['low'], row['high'], places)}"
        for row in figures.iter_rows(named=True)
    ]
    return figures.select("benchmark", "protocol", "figure", pl.Series("value", shown, pl.String), "n")


def _named(part: _Part, measured: pl.DataFrame, name: str) -> pl.DataFrame:
    protocols = {CHANCE_ROW: "chance", **{name + suffix: protocol for protocol, suffix in part.protocols.items()}}
    return measured.select(
        judge=pl.lit(name),
        benchmark=pl.lit(part.benchmark),
        protocol=pl.col("row").replace_strict(protocols, default=None, return_dtype=pl.String),
        figure="column",
        value="measured",
        low="low",
        high="high",
        n="n",
    )
