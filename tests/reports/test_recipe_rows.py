"""Recipes that no table of the paper has stand below the main rows under their own names."""

from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.reward_rows import MAIN_ROWS, main_rows

PLAIN = Recipe(name="a", reward_type="cpmi")
SEED = Recipe(name="b", reward_type="cpmi", seed=1)
LORA = Recipe(name="c", reward_type="cpmi", training={"lora": {"rank": 4}})
UNKNOWN_PAIR = Recipe(name="d", reward_type="pav", objective="pqm")


def test_changed_recipes_and_unknown_pairs_have_rows_of_their_own() -> None:
    recipes = (LORA, PLAIN, SEED, UNKNOWN_PAIR)
    rows = main_rows(recipes)
    assert [row.row for row in rows[len(MAIN_ROWS) :]] == ["c", "d"]
    inputs = ReportInputs(recipes=recipes)
    assert [inputs.recipe_of(row) for row in rows[len(MAIN_ROWS) :]] == ["c", "d"]
    assert inputs.recipe_of(next(row for row in rows if row.row == "CPMI")) == "a"


def test_a_seed_without_its_plain_recipe_is_no_repeat() -> None:
    assert [row.row for row in main_rows([SEED])[len(MAIN_ROWS) :]] == ["b"]
