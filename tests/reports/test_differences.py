"""Pairs of reward models over the same resampled questions."""

import pytest
from pytest import approx

from cpmi_dagster.benchmarks.resampling import holm
from cpmi_dagster.reports.differences import COMPARED, measure_differences
from cpmi_dagster.reports.inputs import ReportInputs, figure_frame
from cpmi_dagster.reports.quality import MEASURES

pytestmark = pytest.mark.slow

Figures = dict[tuple[str, str], dict[str, float]]


@pytest.fixture(scope="module")
def figures(inputs: ReportInputs) -> Figures:
    """The artifact's rows by row and column."""
    return {(row["row"], row["column"]): row for row in figure_frame(measure_differences(inputs)).iter_rows(named=True)}


@pytest.mark.parametrize("measure", [name for name in COMPARED if name != "PB (official)"])
def test_a_difference_is_that_of_the_two_figures(inputs: ReportInputs, figures: Figures, measure: str) -> None:
    ours, theirs = (MEASURES[measure].of(inputs, recipe) for recipe in ("cpmi_bce", "mc_bce"))
    assert ours is not None and theirs is not None
    row = figures["CPMI − MC", measure]
    assert row["measured"] == approx(ours.value - theirs.value)
    assert row["low"] <= row["measured"] <= row["high"]


def test_the_primary_comparison_has_a_row_of_its_own_and_is_not_corrected(figures: Figures) -> None:
    assert ("Primary: CPMI − MC", "PB (official)") in figures
    assert ("Primary: CPMI − MC", "PB (official) p") in figures
    assert {column for row, column in figures if row.startswith("Primary")} == {"PB (official)", "PB (official) p"}
    assert ("CPMI − MC", "PB (official)") not in figures
    assert ("PAV − MC", "PB (official) p (Holm)") in figures


def test_all_other_p_values_are_corrected_together(figures: Figures) -> None:
    tests = {place: each["measured"] for place, each in figures.items() if place[1].endswith(" p")}
    del tests["Primary: CPMI − MC", "PB (official) p"]
    adjusted = [figures[row, f"{column} (Holm)"]["measured"] for row, column in tests]
    assert adjusted == holm(list(tests.values()))
    assert max(tests.values()) <= max(adjusted) <= 1
    assert min(adjusted) == approx(min(1, len(tests) * min(tests.values())))
