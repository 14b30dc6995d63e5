"""A third-party judge has rows in the same tables, with the figures that a recipe of the same scores has."""

from dataclasses import replace

import polars as pl
import pytest

from cpmi_dagster.contracts.keys import JUDGES
from cpmi_dagster.reports.artifacts import ARTIFACTS, build_artifact
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.paper import PROTOCOL_SUFFIXES
from cpmi_dagster.reports.process_level import distribution_predictions

pytestmark = pytest.mark.slow

JUDGED = (
    "processbench", "processbench_detailed", "distribution", "distribution_figure", "prmbench", "prmbench_detailed",
)  # fmt: skip
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


def test_a_judge_has_figures_of_the_benchmarks_it_covers_alone(inputs: ReportInputs):
    math_alone = with_judge(inputs, pl.col("benchmark") == "processbench_math")
    scores = build_artifact(ARTIFACTS["processbench"], math_alone, "p").filter(pl.col("row").str.starts_with(TWIN))
    assert scores.select("row", "column").rows() == [(TWIN, "Math"), (f"{TWIN} (fixed)", "Math")]
    assert build_artifact(ARTIFACTS["prmbench"], math_alone, "p").filter(row=TWIN).is_empty()
    two = with_judge(inputs, pl.col("benchmark").is_in(["processbench_math", "processbench_gsm8k"]))
    scores = build_artifact(ARTIFACTS["processbench"], two, "p").filter(pl.col("row").str.starts_with(TWIN))
    rows = [TWIN + suffix for suffix in ("", " (official)", " (released)", " (fixed)")]
    assert scores.select("row", "column").rows() == [(row, column) for row in rows for column in ("GSM8K", "Math")]
    steps_alone = with_judge(inputs, pl.col("benchmark") == "prmbench")
    assert TWIN not in distribution_predictions(steps_alone)
    assert TWIN in distribution_predictions(two)
