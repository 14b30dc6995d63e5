"""What a profile is said to measure is what it measures, and every figure that can be is measured by a shipped one."""

import polars as pl
import pytest

from cpmi_dagster.assets.reports import shipped_coverage
from cpmi_dagster.benchmarks.registry import BENCHMARKS
from cpmi_dagster.reports.artifacts import ARTIFACTS
from cpmi_dagster.reports.coverage import Coverage, Unmeasured, unmeasured
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.paper import paper_figures

SHIPPED = {each.profile: each for each in shipped_coverage()}


def profiles_of(artifact: str, row: str, column: str) -> list[str]:
    return [name for name, each in SHIPPED.items() if each.measures(ARTIFACTS[artifact], row, column)]


@pytest.mark.slow
def test_the_figures_of_reward_models_that_settings_promise_are_those_that_are_measured(
    inputs: ReportInputs, comparisons: dict[str, pl.DataFrame]
):
    settings = ReportInputs(recipes=inputs.recipes, labeler=inputs.labeler)
    promised = Coverage("made up", settings, (), BENCHMARKS, candidates=8)
    for name, artifact in ARTIFACTS.items():
        for figure in comparisons[name].drop_nulls("paper").iter_rows(named=True):
            row, column, is_measured = figure["row"], figure["column"], figure["measured"] is not None
            if artifact.rows and artifact.tested(column):
                assert promised.measures(artifact, row, column) == is_measured, (name, row, column)


def test_every_figure_is_measured_by_a_shipped_profile_but_quoted_ones_logic_and_more_negatives():
    nowhere = {
        (name, figure["row"])
        for name in ARTIFACTS
        for figure in paper_figures(name, "any").iter_rows(named=True)
        if not profiles_of(name, figure["row"], figure["column"])
    }
    quoted = {(name, row) for name in ("processbench", "processbench_detailed") for row in ("MS*", "RLHFlow*")}
    logic = {("logic", row) for row in ARTIFACTS["logic"].paper.rows}
    assert nowhere == quoted | logic | {("negatives_ablation", f"M = {count}") for count in (8, 12)}


def test_a_profile_measures_what_its_recipes_candidates_labeler_and_benchmarks_allow():
    assert profiles_of("merge_points", "CPMI_Merge2", "PB") == ["miniature-all", "paper"]
    assert {"miniature", "miniature-all", "paper"} == set(profiles_of("merge_points", "CPMI_Merge2", "Time"))
    assert profiles_of("best_of_n", "CPMI", "GSM8K N=16") == ["paper"]
    assert profiles_of("labelers", "Llama3.2-1B, MC", "PB") == ["paper-llama-3.2-1b"]
    assert "paper-llama-3.2-1b" not in profiles_of("best_of_n", "MC", "GSM8K N=8")


def test_rows_with_the_same_columns_and_profiles_stand_together():
    figures = paper_figures("objectives", "mine")
    some = figures.with_columns(measured=pl.when(pl.col("row").str.starts_with("BCE")).then(1.0))
    paper = [SHIPPED["paper"]]
    assert unmeasured(ARTIFACTS["objectives"], some, paper) == [
        Unmeasured("PQM, MC; PQM, CPMI; MSE, MC; MSE, CPMI", "every column", 12, "paper")
    ]
    one = figures.with_columns(measured=pl.when(pl.col("column") != "MATH500").then(1.0))
    assert unmeasured(ARTIFACTS["objectives"], one, []) == [Unmeasured("every row", "MATH500", 6, "")]
