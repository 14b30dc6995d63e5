"""The paper's figures as data: complete, unique, and consistent with one another where the paper is."""

import polars as pl
import pytest

from cpmi_dagster.contracts.report_tables import ARTIFACT_NAMES, PaperComparison
from cpmi_dagster.reports.paper import load_paper_tables, paper_figures
from cpmi_dagster.rewards.costs import relative_efficiency

TABLES = load_paper_tables()

# Read off the paper's LaTeX source: a cell of every table, corners and odd ones.
GOLDEN = [
    ("efficiency", "PAV", "Token", 2.38),
    ("efficiency", "CPMI", "RelEff PRMB", 9.53),
    ("contrast", "Both", "MMLU", 75.67),
    ("distribution", "CPMI", "Wasserstein", 0.135),
    ("processbench", "RLHFlow*", "Average", 28.4),
    ("prmbench", "CPMI_Merge", "Total", 60.67),
    ("best_of_n", "CPMI", "MMLU-Stem N=16", 76.31),
    ("dataset_statistics_table", "Composition (mixed : pure)", "mixed", 7),
    ("processbench_detailed", "MS*", "Omni Corr", 72.3),
    ("prmbench_detailed", "CPMI", "CI", 63.52),
    ("labelers", "Llama3.2-1B, CPMI-based", "Time change (%)", -73),
    ("logic", "MC", "LogicNLI", 25.4),
    ("objectives", "MSE, CPMI", "MATH500", 47.2),
    ("merge_points", "MC", "gen_tokens", 90902162),
    ("pav_merges", "CPMI_Merge2", "RelEff PB", 2.43),
    ("negatives_ablation", "M = 2", "PRMB", 60.85),
]

# Counted in the paper, table by table; the figures' own where they are known.
COUNTS = {
    "efficiency": 44, "contrast": 15, "distribution": 10, "processbench": 35, "prmbench": 20, "best_of_n": 48,
    "dataset_statistics_table": 5, "processbench_detailed": 91, "prmbench_detailed": 50, "labelers": 24, "logic": 12,
    "objectives": 18, "merge_points": 65, "pav_merges": 58, "negatives_ablation": 35, "label_quality": 5,
}  # fmt: skip

QUOTED_ROWS_THAT_DO_NOT_FOLLOW = {("MS*", "Math"), ("MS*", "Olympiad"), ("MS*", "Omni"), ("RLHFlow*", "Math")}


def figure(artifact: str, row: str, column: str) -> float:
    table = TABLES[artifact]
    value = table.rows[row][list(table.columns).index(column)]
    assert value is not None
    return value


@pytest.mark.parametrize(("artifact", "row", "column", "printed"), GOLDEN)
def test_a_cell_says_what_the_paper_prints(artifact: str, row: str, column: str, printed: float):
    assert figure(artifact, row, column) == printed


def test_every_figure_of_every_table_is_there_once_and_fits_the_contract():
    rows = {name: paper_figures(name, "miniature") for name in ARTIFACT_NAMES}
    assert {name: frame.height for name, frame in rows.items() if frame.height} == COUNTS
    assert PaperComparison.is_valid(pl.concat(rows.values()))


def test_releff_of_the_merge_points_follows_from_the_raw_times():
    for row in TABLES["merge_points"].rows:
        for measure, column in (("ROC-AUC", "AUC"), ("PB", "PB"), ("PRMB", "PRMB"), ("MATH", "MATH")):
            quality, base = (figure("merge_points", name, measure) for name in (row, "MC"))
            cost, base_cost = (figure("merge_points", name, "Time") for name in (row, "MC"))
            printed = figure("merge_points", row, f"RelEff {column}")
            # qualities are printed with one digit, which moves a RelEff of 7.85 by up to 0.02
            assert relative_efficiency(quality, cost, base, base_cost) == pytest.approx(printed, abs=0.011)


@pytest.mark.parametrize(("artifact", "baseline"), [("efficiency", "MC"), ("pav_merges", "PAV")])
def test_releff_of_the_cost_ratios_follows_within_their_rounding(artifact: str, baseline: str):
    for row in TABLES[artifact].rows:
        time = figure(artifact, row, "Time")
        for measure in ("AUC", "PB", "PRMB", "MATH"):
            quality, base = (figure(artifact, name, measure) for name in (row, baseline))
            low, high = (relative_efficiency(quality, time + off, base, 1.0) for off in (0.005, -0.005))
            assert low - 0.011 <= figure(artifact, row, f"RelEff {measure}") <= high + 0.011


def test_f1_follows_from_err_and_corr_but_for_four_quoted_cells():
    apart = set()
    for row in TABLES["processbench_detailed"].rows:
        for subset in ("GSM8K", "Math", "Olympiad", "Omni"):
            err, corr, f1 = (figure("processbench_detailed", row, f"{subset} {name}") for name in ("Err", "Corr", "F1"))
            if abs(2 * err * corr / (err + corr) - f1) > 0.11:
                apart.add((row, subset))
    assert apart == QUOTED_ROWS_THAT_DO_NOT_FOLLOW
