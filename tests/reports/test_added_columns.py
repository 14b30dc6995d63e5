"""What a registry adds stands in the report: no figure is dropped, and all of a table have its decimals."""

import polars as pl
import pytest

from cpmi_dagster.contracts.contexts import CONDITIONINGS
from cpmi_dagster.reports.artifacts import ARTIFACTS
from cpmi_dagster.reports.html import comparison_table, render_report
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.plots import report_plots

pytestmark = pytest.mark.slow

ADDED_COLUMNS = {
    "processbench": ["PRM800K"],
    "processbench_detailed": ["PRM800K Err", "PRM800K Corr", "PRM800K F1"],
    "best_of_n": ["SVAMP N=1", "SVAMP N=2", "SVAMP N=4", "SVAMP N=8"],
    "logic": ["ProntoQA"],
}
Comparisons = dict[str, pl.DataFrame]


def added_rows(artifact: str, comparison: pl.DataFrame) -> pl.DataFrame:
    """Figures of columns that the paper does not have, for every row that is measured."""
    rows = comparison.filter(pl.col("measured").is_not_null())["row"].unique(maintain_order=True)
    figures = {"artifact": artifact, "paper": None, "measured": 5.0, "low": 4.0, "high": 6.0, "n": 16, "profile": "p"}
    added = [{**figures, "row": row, "column": column} for row in rows for column in ADDED_COLUMNS[artifact]]
    return pl.DataFrame(added, schema=comparison.schema)


@pytest.fixture(scope="module")
def extended(comparisons: Comparisons) -> Comparisons:
    """Every artifact, with what a question set, a step benchmark and a reward type add to it."""
    quality = comparisons["label_quality"]
    added = {name: pl.concat([comparisons[name], added_rows(name, comparisons[name])]) for name in ADDED_COLUMNS}
    of_reward = quality.filter(pl.col("row") == "CPMI").with_columns(row=pl.lit("CPMI (mean)"))
    return {**comparisons, **added, "label_quality": pl.concat([quality, of_reward])}


def figures_shown(artifact: str, comparison: pl.DataFrame) -> list[str]:
    """The figures of ours in a table."""
    table = comparison_table(ARTIFACTS[artifact].paper, comparison)
    return [cell.ours for _, cells in table.rows for cell in cells if cell.ours]


@pytest.mark.parametrize("artifact", ARTIFACTS)
def test_every_figure_of_ours_stands_in_its_table(extended: Comparisons, artifact: str):
    assert len(figures_shown(artifact, extended[artifact])) == extended[artifact]["measured"].count() > 0


@pytest.mark.parametrize("artifact", ADDED_COLUMNS)
def test_figures_of_an_added_benchmark_have_the_decimals_of_its_table(extended: Comparisons, artifact: str):
    added = extended[artifact].filter(pl.col("column").is_in(ADDED_COLUMNS[artifact]))
    assert set(figures_shown(artifact, added)) == {"5.0"}


def test_a_report_with_added_columns_and_rows_shows_them_all(inputs: ReportInputs, extended: Comparisons):
    report = render_report("miniature", "2026-01-31", extended, inputs)
    for heading in ("PRM800K", "SVAMP N=8", "ProntoQA", "CPMI (mean)"):
        assert f">{heading}</th>" in report, heading


def test_an_added_question_set_has_a_panel_of_its_own(extended: Comparisons):
    figure = report_plots(ReportInputs(), {"best_of_n": extended["best_of_n"]})["best_of_n"]
    titles = [panel.get_title(loc="left") for panel in figure.axes]
    assert [title for title in titles if title] == ["GSM8K", "MATH500", "MMLU-Stem", "Omni", "SVAMP"]


def test_the_report_explains_every_conditioning():
    report = render_report("empty", "2026-01-31", {})
    for entry in CONDITIONINGS.values():
        assert f"{entry.compares};" in report or f"{entry.compares}.</dd>" in report
    assert "Marginal (CPMI): step i alone against none; incremental: steps 1 to i against 1 to i − 1;" in report
