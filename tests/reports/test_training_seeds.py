"""Recipes that differ in their seed alone are repeats: mean, spread, and differences beside the spread."""

import pytest
from pytest import approx

from cpmi_dagster.benchmarks.resampling import Estimate
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.quality import MAIN_MEASURES, QUALITY
from cpmi_dagster.reports.seeds import measure_seeds, repeats

FIGURES = {"cpmi_bce": 4.0, "cpmi_1": 5.0, "cpmi_2": 6.0, "mc_bce": 1.0, "mc_1": 2.0, "mc_2": 3.0, "mc_pqm": 9.0}
RECIPES = (
    Recipe(name="cpmi_bce", reward_type="cpmi"),
    Recipe(name="cpmi_1", reward_type="cpmi", seed=1),
    Recipe(name="cpmi_2", reward_type="cpmi", seed=2),
    Recipe(name="mc_bce", reward_type="mc"),
    Recipe(name="mc_1", reward_type="mc", seed=1),
    Recipe(name="mc_2", reward_type="mc", seed=2),
    Recipe(name="mc_pqm", reward_type="mc", objective="pqm"),
)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], tuple[float, float | None, float | None, int]]:
    """(measured, low, high, n) by row and column, where every measure of a recipe is its number above."""
    for measure in MAIN_MEASURES:
        monkeypatch.setitem(QUALITY, measure, lambda inputs, recipe: Estimate(FIGURES[recipe], 0, 0, 1))
    rows = measure_seeds(ReportInputs(recipes=RECIPES)).rows()
    return {(row, column): (value, low, high, n) for row, column, value, low, high, n in rows}


def test_mean_and_spread_are_taken_over_seeds_with_students_interval(measured) -> None:
    assert measured["MC", "PB"] == approx((2.0, 2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5, 3), rel=1e-6)
    assert measured["MC", "PB spread"] == (1.0, None, None, 3)


def test_differences_have_welchs_interval(measured) -> None:
    arm = 2.776445 * (2 / 3) ** 0.5
    assert measured["CPMI − MC", "AUC"] == approx((3.0, 3 - arm, 3 + arm, 6), rel=1e-6)


def test_a_recipe_without_repeats_has_no_row(measured) -> None:
    assert {row for row, _ in measured} == {"MC", "CPMI", "CPMI − MC"}


def test_recipes_that_differ_in_more_than_their_seed_are_no_repeats() -> None:
    others = (
        Recipe(name="a", reward_type="mc", training={"epochs": 3}),
        Recipe(name="b", reward_type="mc", backbone=LanguageModel(name="x")),
    )
    assert repeats((*RECIPES[3:5], *others)) == {"MC": ["mc_bce", "mc_1"]}
    assert repeats((RECIPES[3], *others)) == {}
