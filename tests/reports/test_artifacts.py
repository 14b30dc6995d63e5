"""Ours beside the paper's: the right recipe in the right cell, null where there is none."""

import polars as pl
import pytest

from cpmi_dagster.benchmarks.processbench import processbench_scores
from cpmi_dagster.benchmarks.resampling import holm
from cpmi_dagster.reports.costs import cost_ratios, costs_per_subset, own_answers_share
from cpmi_dagster.reports.figures import ReportInputs, figure_frame
from cpmi_dagster.reports.models import COMPARED, MEASURES, measure_differences
from cpmi_dagster.reports.paper import MAIN_ROWS, load_paper_tables

pytestmark = pytest.mark.slow

Comparisons = dict[str, pl.DataFrame]


def cell(comparison: pl.DataFrame, row: str, column: str) -> dict:
    return comparison.row(by_predicate=(pl.col("row") == row) & (pl.col("column") == column), named=True)


def test_every_column_that_is_measured_is_named_in_paper_yaml(comparisons: Comparisons):
    for name, table in load_paper_tables().items():
        assert [each for each in comparisons[name]["column"].unique() if table.decimals(each) is None] == [], name


def test_row_cpmi_of_processbench_is_the_recipe_with_cpmi_labels_and_bce(
    inputs: ReportInputs, comparisons: Comparisons
):
    ours = cell(comparisons["processbench"], "CPMI", "Math")
    predictions = inputs.frames["benchmarks/processbench_predictions"].filter(pl.col("recipe") == "cpmi_bce")
    problems = inputs.frames["sources/benchmark_problems"]
    scores = processbench_scores(predictions, problems, inputs.bootstrap_samples, inputs.seed)["paper"]["math"]
    expected = scores.resampled("f1").estimate().scaled(100)
    assert (ours["paper"], ours["n"]) == (39.6, expected.n)
    figures = [ours[name] for name in ("measured", "low", "high")]
    assert figures == pytest.approx([expected.value, expected.low, expected.high])


def test_costs_are_compared_per_trajectory():
    costs = pl.DataFrame({
        "shard": ["000", "001"] * 2, "method": ["mc", "mc", "cpmi", "cpmi"], "trajectories": [10, 10, 10, 5],
        "wall_seconds": [80.0, 120.0, 20.0, 10.0], "generated_tokens": [100, 100, 0, 0],
    })  # fmt: skip
    # twelve shards of two kinds
    costs = pl.concat(costs.with_columns(shard=pl.format("{}-{}", pl.lit(copy), "shard")) for copy in range(6))
    inputs = ReportInputs({"labels/labeling_costs": costs}, bootstrap_samples=50)
    ratios = cost_ratios(inputs, MAIN_ROWS, "mc", "wall_seconds")
    assert ratios["CPMI"].value == pytest.approx((30 / 15) / (200 / 20))
    assert ratios["CPMI"].low <= ratios["CPMI"].value <= ratios["CPMI"].high
    assert (ratios["MC"].value, ratios["CPMI"].n) == (1.0, 90)
    assert "PAV" not in ratios
    assert costs_per_subset(inputs, MAIN_ROWS, "wall_seconds")["MC"].value == pytest.approx(100_000)


def test_releff_is_quality_per_time_relative_to_mc(comparisons: Comparisons):
    efficiency = comparisons["efficiency"]
    quality, base = (cell(efficiency, row, "PB")["measured"] for row in ("CPMI", "MC"))
    time = cell(efficiency, "CPMI", "Time")["measured"]
    releff = cell(efficiency, "CPMI", "RelEff PB")
    assert releff["measured"] == pytest.approx(quality / time / base)
    assert releff["low"] < releff["measured"] < releff["high"]
    assert cell(efficiency, "MC", "RelEff PB")["measured"] == 1.0


def test_wrong_final_answers_among_the_hard_negatives_are_counted_by_value():
    """t0 and t1 are wrong and in both cases among them (20.0 and 3/4), t2 states no answer, t3 is right, t4 is not."""
    names = [f"t{number}" for number in range(5)]
    answers = {"gold_answer": ["18", "1/2", "7", "3", "5"], "final_answer": ["20", "0.75", None, "3.0", "6"]}
    trajectories = pl.DataFrame({"trajectory_id": names, "question_id": names, **answers})
    wrong = [["17", "20.0"], ["1/4", "3/4"], ["6"], ["4"], ["7"]]
    negatives = pl.DataFrame({"trajectory_id": names, "answer": wrong}).explode("answer")
    frames = {"alignment/trajectories": trajectories, "labels/hard_negatives": negatives}
    share = own_answers_share(ReportInputs(frames, bootstrap_samples=20))
    assert share is not None and (share.value, share.n) == (2 / 3, 3)


@pytest.fixture(scope="module")
def differences(inputs: ReportInputs) -> dict[tuple[str, str], dict[str, float]]:
    """Pairs of reward models over the same resampled questions: rows by row and column."""
    return {(row["row"], row["column"]): row for row in figure_frame(measure_differences(inputs)).iter_rows(named=True)}


@pytest.mark.parametrize("measure", [name for name in COMPARED if name != "PB (official)"])
def test_a_difference_is_that_of_the_two_figures(inputs: ReportInputs, differences, measure: str) -> None:
    ours, theirs = (MEASURES[measure].of(inputs, recipe) for recipe in ("cpmi_bce", "mc_bce"))
    assert ours is not None and theirs is not None
    row = differences["CPMI − MC", measure]
    assert row["measured"] == pytest.approx(ours.value - theirs.value)
    assert row["low"] <= row["measured"] <= row["high"]


def test_all_other_p_values_are_corrected_together(differences) -> None:
    tests = {place: each["measured"] for place, each in differences.items() if place[1].endswith(" p")}
    del tests["Primary: CPMI − MC", "PB (official) p"]
    adjusted = [differences[row, f"{column} (Holm)"]["measured"] for row, column in tests]
    assert adjusted == holm(list(tests.values()))
    assert max(tests.values()) <= max(adjusted) <= 1
    assert min(adjusted) == pytest.approx(min(1, len(tests) * min(tests.values())))
