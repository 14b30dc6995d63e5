"""A third-party judge has rows in the same tables, with the figures that a recipe of the same scores has."""

from dataclasses import replace

import polars as pl
import pytest

from cpmi_dagster.contracts.keys import JUDGES
from cpmi_dagster.reports.artifacts import ARTIFACTS, build_artifact
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.paper import PROTOCOL_SUFFIXES

pytestmark = pytest.mark.slow

JUDGED = ("processbench", "distribution", "prmbench")
FIGURES = ["column", "measured", "low", "high", "n"]
TWIN = "Twin of CPMI"


def with_judge(inputs: ReportInputs, benchmarks: pl.Expr) -> ReportInputs:
    """The inputs with a judge that says what the recipe of CPMI says, of some benchmarks."""
    of_processbench, of_prmbench = (
        inputs.predictions(f"benchmarks/{name}_predictions", "cpmi_bce") for name in ("processbench", "prmbench")
    )
    said = pl.concat([of_processbench, of_prmbench.with_columns(benchmark=pl.lit("prmbench"))], how="diagonal")
    columns = [pl.lit(TWIN).alias("judge"), "benchmark", "problem_id", "step_index", "probability"]
    return replace(inputs, frames={**inputs.frames, JUDGES: said.filter(benchmarks).select(columns)})


def row_of(comparison: pl.DataFrame, row: str) -> pl.DataFrame:
    return comparison.filter(pl.col("row") == row, pl.col("measured").is_not_null()).sort("column").select(FIGURES)


@pytest.fixture(scope="module")
def judged(inputs: ReportInputs) -> ReportInputs:
    return with_judge(inputs, pl.lit(True))


@pytest.mark.parametrize("artifact", JUDGED)
def test_the_same_scores_have_the_same_figures_under_either_name(judged: ReportInputs, artifact: str):
    comparison = build_artifact(ARTIFACTS[artifact], judged, "p")
    assert row_of(comparison, "CPMI").height > 0
    for suffix in ("", *PROTOCOL_SUFFIXES):
        assert row_of(comparison, TWIN + suffix).equals(row_of(comparison, "CPMI" + suffix))
