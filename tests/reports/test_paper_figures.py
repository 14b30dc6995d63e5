"""The paper's figures as data: complete, unique, and consistent with one another where the paper is."""

import polars as pl
import pytest

from cpmi_dagster.contracts.report_tables import ARTIFACT_NAMES, PaperComparison
from cpmi_dagster.reports.paper import load_paper_tables, paper_figures
from cpmi_dagster.rewards.costs import relative_efficiency

TABLES = load_paper_tables()

# Read off the paper's LaTeX source: cells of tables, corners and odd ones.
GOLDEN = [
    ("efficiency", "PAV", "Token", 2.38),
    ("efficiency", "CPMI", "RelEff PRMB", 9.53),
    ("processbench", "RLHFlow*", "Average", 28.4),
    ("best_of_n", "CPMI", "MMLU-Stem N=16", 76.31),
    ("dataset_statistics_table", "Composition (mixed : pure)", "mixed", 7),
    ("processbench_detailed", "MS*", "Omni Corr", 72.3),
    ("labelers", "Llama3.2-1B, CPMI-based", "Time change (%)", -73),
    ("merge_points", "MC", "gen_tokens", 90902162),
    ("pav_merges", "CPMI_Merge2", "RelEff PB", 2.43),
]


def figure(artifact: str, row: str, column: str) -> float:
    table = TABLES[artifact]
    value = table.rows[row][list(table.columns).index(column)]
    assert value is not None
    return value


@pytest.mark.parametrize(("artifact", "row", "column", "printed"), GOLDEN)
def test_a_cell_says_what_the_paper_prints(artifact: str, row: str, column: str, printed: float):
    assert figure(artifact, row, column) == printed


def test_every_figure_is_there_once_and_fits_the_contract():
    figures = pl.concat(paper_figures(name, "miniature") for name in ARTIFACT_NAMES)
    assert PaperComparison.is_valid(figures) and figures.height == 535  # counted in the paper


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
