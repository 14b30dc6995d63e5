"""Rows of reward models that no table of the paper has: of the user's own labels, and of changed recipes."""

from dataclasses import replace

import polars as pl
import pytest

from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.reports.artifacts import ARTIFACTS, build_artifact
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.reward_rows import MAIN_ROWS, main_rows

pytestmark = pytest.mark.slow

TABLES = ("prmbench_detailed", "distribution", "best_of_n")


@pytest.fixture(scope="module")
def renamed(inputs: ReportInputs) -> ReportInputs:
    """The same world, in which the models of CPMI learned from a judge's labels instead."""
    recipes = tuple(
        recipe.model_copy(update={"reward_type": "my_judge"}) if recipe.reward_type == "cpmi" else recipe
        for recipe in inputs.recipes
    )
    label = pl.col("reward_type").replace("cpmi", "my_judge")
    frames = {**inputs.frames, "labels/step_rewards": inputs.table("labels/step_rewards").with_columns(label)}
    return replace(inputs, recipes=recipes, frames=frames)


def measured(artifact: str, inputs: ReportInputs, row: str) -> dict[str, float]:
    frame = build_artifact(ARTIFACTS[artifact], inputs, "miniature").filter(pl.col("measured").is_not_null(), row=row)
    return dict(frame.select("column", "measured").iter_rows())


@pytest.mark.parametrize("artifact", TABLES)
def test_a_row_of_own_labels_holds_what_its_model_scores(artifact: str, inputs: ReportInputs, renamed: ReportInputs):
    figures = measured(artifact, renamed, "my_judge")
    assert figures
    assert figures == measured(artifact, inputs, "CPMI")
    assert not measured(artifact, renamed, "CPMI")
    rows = build_artifact(ARTIFACTS[artifact], renamed, "miniature")["row"].unique(maintain_order=True).to_list()
    assert rows.index("my_judge") > rows.index("Rand_Merge")


PLAIN = Recipe(name="a", reward_type="cpmi")
SEED = Recipe(name="b", reward_type="cpmi", seed=1)
LORA = Recipe(name="c", reward_type="cpmi", training={"lora": {"rank": 4}})
UNKNOWN_PAIR = Recipe(name="d", reward_type="pav", objective="pqm")


def test_changed_recipes_other_seeds_and_unknown_pairs_have_rows_of_their_own() -> None:
    recipes = (LORA, PLAIN, SEED, UNKNOWN_PAIR)
    rows = main_rows(recipes)
    assert [row.row for row in rows[len(MAIN_ROWS) :]] == ["c", "b", "d"]
    inputs = ReportInputs(recipes=recipes)
    assert [inputs.recipe_of(row) for row in rows[len(MAIN_ROWS) :]] == ["c", "b", "d"]
    assert inputs.recipe_of(next(row for row in rows if row.row == "CPMI")) == "a"
