"""From a figure's name to its row and column, and from these to reward types and recipes."""

import polars as pl
import pytest

from cpmi_dagster.errors import CpmiError
from cpmi_dagster.reports.artifacts import ARTIFACTS, FigureName, find_artifact, find_figures, sources_of
from cpmi_dagster.reports.figures import ReportInputs
from cpmi_dagster.reports.paper import CHANCE_ROW, FLAG_NOTHING_ROW

CORPUS_ROW = "Math-Shepherd's + and -"
"""Its labels are in `alignment/trajectories`, unless the profile has them among its reward types."""
OF_NO_REWARD = (CHANCE_ROW, FLAG_NOTHING_ROW, CORPUS_ROW, "Pass@", "Majority vote", "Knowledge: ", "Counts: ")
FIGURES = pl.DataFrame({
    "row": ["GSM8K", "GSM8K/hard", "GSM8K/hard", "CPMI"],
    "column": ["hard/F1", "F1", "Err/Corr", "F1"],
})  # fmt: skip


@pytest.mark.parametrize(
    ("artifact", "row", "column", "sources"),
    [
        ("label_quality", "CPMI", None, ["cpmi"]),
        ("label_quality", "CPMI", "Difference to MC, without last steps", ["cpmi", "mc"]),
        ("label_trust", "Agreement: Step surprisal", "CPMI", ["step_surprisal", "cpmi"]),
        ("label_trust", "Counts: Judged solutions, PAV", None, ["pav"]),
        ("processbench", "CPMI (official)", None, [("cpmi", "cpmi_bce")]),
        ("best_of_n", "CPMI, weighted vote", None, [("cpmi", "cpmi_bce")]),
        ("objectives", "PQM, MC", None, [("mc", "mc_pqm")]),
        ("contrast", "Both (M = 4)", None, [("cpmi", "cpmi_bce")]),
        ("merge_points", "CPMI_Merge1", None, [("cpmi_merge1", "cpmi_merge1_bce")]),
        ("pav_merges", "CPMI_Merge1", "Time", [("pav_merge1", None), ("pav", "pav_bce")]),
        ("labelers", "miniature:labeler, MC", None, [("mc", "mc_bce")]),
        ("reward_models", "neg_only_bce", None, [("neg_only", "neg_only_bce")]),
        ("differences", "Primary: CPMI − MC", None, [("cpmi", "cpmi_bce"), ("mc", "mc_bce")]),
        ("efficiency", "CPMI", "RelEff PB", [("cpmi", "cpmi_bce"), ("mc", "mc_bce")]),
        ("processbench", "Chance (fixed)", "Math", []),
    ],
)
def test_a_figure_leads_to_its_reward_types_and_recipes(inputs: ReportInputs, artifact, row, column, sources):
    expected = [(each, None) if isinstance(each, str) else each for each in sources]
    assert sources_of(ARTIFACTS[artifact], [row], [column] if column else [], inputs) == expected


def test_what_a_column_compares_with_is_left_out_if_no_column_is_named(inputs: ReportInputs):
    columns = ["Label AUC", "Difference to MC"]
    assert sources_of(ARTIFACTS["label_quality"], ["CPMI"], columns, inputs, with_compared=False) == [("cpmi", None)]


@pytest.mark.slow
def test_every_measured_row_of_rewards_leads_to_their_type(inputs: ReportInputs, comparisons):
    for name, artifact in ARTIFACTS.items():
        for row in comparisons[name].drop_nulls("measured")["row"].unique(maintain_order=True):
            is_of_rewards = name != "dataset_statistics_table" and not row.startswith(OF_NO_REWARD)
            assert bool(sources_of(artifact, [row], [], inputs)) == is_of_rewards, (name, row)


@pytest.mark.parametrize(
    ("label", "row", "column", "count"),
    [
        ("", None, None, 4),
        ("/GSM8K", "GSM8K", None, 1),
        ("/GSM8K/hard", "GSM8K/hard", None, 2),
        ("/GSM8K/hard/F1", "GSM8K/hard", "F1", 1),
        ("/GSM8K/hard/Err/Corr", "GSM8K/hard", "Err/Corr", 1),
    ],
)
def test_rows_and_columns_may_contain_slashes_and_the_longest_row_counts(label, row, column, count):
    name, figures = find_figures(ARTIFACTS["logic"], f"logic{label}", FIGURES)
    assert name == FigureName("logic", row, column) and figures.height == count


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("label_qualty/CPMI", "the report has no table `label_qualty`; the nearest are label_quality"),
        ("logic/cpmi", "reports.logic has no row `cpmi`; the nearest are CPMI"),
        ("logic/CPMI/f2", "the row `CPMI` of reports.logic has no column `f2`; the nearest are F1"),
        ("logic/xyz", "reports.logic has no row `xyz`; it has GSM8K, GSM8K/hard, CPMI"),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest_ones(name, message):
    with pytest.raises(CpmiError) as caught:
        find_figures(find_artifact(name), name, FIGURES)
    assert str(caught.value).startswith(message)
