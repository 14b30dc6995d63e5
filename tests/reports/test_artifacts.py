"""Ours beside the paper's: the right recipe in the right cell, null where there is none."""

from dataclasses import replace

import polars as pl
import pytest

from cpmi_dagster.benchmarks.best_of_n import accuracies
from cpmi_dagster.benchmarks.processbench import processbench_scores
from cpmi_dagster.contracts.report_tables import PaperComparison
from cpmi_dagster.reports.artifacts import ARTIFACTS, build_artifact
from cpmi_dagster.reports.efficiency import cost_ratios, costs_per_subset, labeler_name
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.reward_rows import MAIN_ROWS

pytestmark = pytest.mark.slow

Comparisons = dict[str, pl.DataFrame]


def cell(comparison: pl.DataFrame, row: str, column: str) -> dict:
    return comparison.row(by_predicate=(pl.col("row") == row) & (pl.col("column") == column), named=True)


def test_every_artifact_has_the_contract_shape(comparisons: Comparisons):
    for name, comparison in comparisons.items():
        assert PaperComparison.is_valid(comparison), name
        assert comparison["artifact"].unique().to_list() == [name]
        assert comparison["profile"].unique().to_list() == ["miniature"]


def test_the_figures_of_the_paper_come_first_and_are_all_there(comparisons: Comparisons):
    for name, comparison in comparisons.items():
        printed = sum(figure is not None for row in ARTIFACTS[name].paper.rows.values() for figure in row)
        assert comparison["paper"].head(printed).null_count() == 0
        assert comparison["paper"].tail(comparison.height - printed).null_count() == comparison.height - printed


def test_row_cpmi_of_processbench_is_the_recipe_with_cpmi_labels_and_bce(
    inputs: ReportInputs, comparisons: Comparisons
):
    ours = cell(comparisons["processbench"], "CPMI", "Math")
    predictions = inputs.frames["benchmarks/processbench_predictions"].filter(pl.col("recipe") == "cpmi_bce")
    problems = inputs.frames["sources/benchmark_problems"]
    scores = processbench_scores(predictions, problems, "paper", inputs.bootstrap_samples, inputs.seed)
    expected = scores.row(by_predicate=pl.col("subset") == "math", named=True)
    assert (ours["paper"], ours["n"]) == (39.6, expected["n"])
    assert [ours[name] for name in ("measured", "low", "high")] == [
        pytest.approx(100 * expected[name]) for name in ("f1", "low", "high")
    ]


def test_protocols_stand_side_by_side_and_err_and_corr_make_the_f1_beside_them(comparisons: Comparisons):
    detailed = comparisons["processbench_detailed"]
    official = detailed.filter(pl.col("row") == "CPMI (official)")
    assert official["paper"].null_count() == official.height > 0
    assert cell(comparisons["efficiency"], "MC", "PB (official)")["paper"] is None
    err, corr, f1 = (cell(detailed, "PAV", f"Olympiad {name}")["measured"] for name in ("Err", "Corr", "F1"))
    assert f1 == pytest.approx(2 * err * corr / (err + corr))


def test_best_of_n_is_the_share_of_right_choices(inputs: ReportInputs, comparisons: Comparisons):
    choices = inputs.frames["benchmarks/best_of_n_choices"].filter(
        recipe="cpmi_merge1_bce", benchmark="math500", n=8, aggregation="mean"
    )
    expected = accuracies(choices, 10, 0)[8].value
    assert cell(comparisons["best_of_n"], "CPMI_Merge", "MATH500 N=8")["measured"] == pytest.approx(100 * expected)
    assert cell(comparisons["efficiency"], "CPMI_Merge", "MATH")["measured"] == pytest.approx(100 * expected)


def test_other_rules_bounds_and_objectives_have_rows_of_their_own(comparisons: Comparisons):
    rows = set(comparisons["best_of_n"]["row"])
    assert {"Majority vote", "Pass@N", "Pass@1", "CPMI, min", "MC, weighted vote"} <= rows
    measured = comparisons["objectives"].filter(column="ProcessBench")["measured"]
    assert measured.null_count() == 0 and measured.n_unique() > 1


def test_a_recipe_the_profile_lacks_stays_null(comparisons: Comparisons):
    assert cell(comparisons["contrast"], "Both", "AUC")["measured"] is None
    assert cell(comparisons["contrast"], "Both (M = 4)", "AUC")["measured"] is not None
    assert cell(comparisons["merge_points"], "CPMI_Merge2", "PB")["measured"] is None
    assert cell(comparisons["processbench"], "MS*", "GSM8K")["measured"] is None


def test_nothing_is_measured_from_empty_inputs(empty_comparisons: Comparisons):
    for comparison in empty_comparisons.values():
        assert comparison["measured"].null_count() == comparison.height
        assert comparison["paper"].null_count() == 0


def test_a_profile_with_some_of_the_processbench_subsets_has_no_average(inputs: ReportInputs):
    key = "benchmarks/processbench_predictions"
    some = inputs.frames[key].filter(pl.col("benchmark") != "processbench_omnimath")
    partial = replace(inputs, frames={**inputs.frames, key: some})
    assert build_artifact(ARTIFACTS["processbench"], partial, "p")["measured"].is_null().all()


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


def test_merge_points_count_the_steps_that_take_mc(comparisons: Comparisons):
    merges = comparisons["merge_points"]
    assert [cell(merges, f"CPMI_Merge{k}", "MC (%)")["measured"] for k in (1, 2, 3)] == [20.0, 40.0, 60.0]
    assert cell(merges, "MC", "CPMI (%)")["measured"] == 0.0


def test_ratios_of_the_data_set_are_given_in_the_parts_of_the_paper(comparisons: Comparisons):
    statistics = comparisons["dataset_statistics_table"]
    mixed, pure = (cell(statistics, "Composition (mixed : pure)", part)["measured"] for part in ("mixed", "pure"))
    assert (mixed, pure) == pytest.approx((6.875, 3.125))
    assert cell(statistics, "Total samples", "Count")["measured"] == 80


def test_labels_are_ranked_against_the_truth(comparisons: Comparisons):
    quality = comparisons["label_quality"]
    assert cell(quality, "CPMI", "Label AUC")["measured"] > cell(quality, "Rand_Merge", "Label AUC")["measured"]
    assert cell(quality, "Math-Shepherd's + and -", "Label AUC")["measured"] == 1.0


@pytest.mark.parametrize(
    ("labeler", "name"),
    [("meta-llama/Llama-3.2-1B", "Llama3.2-1B"), ("Qwen/Qwen2.5-1.5B", "Qwen2.5-1.5B"),
     ("miniature:labeler", "miniature:labeler"), ("/models/mine/", "mine"), ("", "this labeler")],
)  # fmt: skip
def test_a_labeler_goes_by_the_name_the_paper_gives_it(labeler: str, name: str):
    assert labeler_name(labeler) == name


def test_the_rows_of_the_labelers_table_are_measured_for_this_labeler_alone(inputs: ReportInputs):
    ours = replace(inputs, labeler="Qwen/Qwen2.5-1.5B")
    comparison = build_artifact(ARTIFACTS["labelers"], ours, "p")
    assert cell(comparison, "Qwen2.5-1.5B, MC", "PB")["measured"] is not None
    assert cell(comparison, "Llama3.2-1B, MC", "PB")["measured"] is None
