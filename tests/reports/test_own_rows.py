"""Rows that no table of the paper has: of the user's own labels, of other judges, and of changed recipes."""

from dataclasses import replace

import polars as pl
import pytest

from cpmi_dagster.contracts.keys import JUDGES
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.reports.artifacts import ARTIFACTS, build_artifact
from cpmi_dagster.reports.figures import ReportInputs
from cpmi_dagster.reports.paper import MAIN_ROWS, PROTOCOL_SUFFIXES, main_rows

pytestmark = pytest.mark.slow


def figures(artifact: str, inputs: ReportInputs, row: str) -> list[tuple]:
    frame = build_artifact(ARTIFACTS[artifact], inputs, "p").filter(pl.col("measured").is_not_null(), row=row)
    return frame.sort("column").select("column", "measured", "low", "high", "n").rows()


@pytest.mark.parametrize("artifact", ["prmbench_detailed", "distribution", "best_of_n"])
def test_a_row_of_own_labels_holds_what_its_model_scores(artifact: str, inputs: ReportInputs):
    """The same world, in which the models of CPMI learned from a judge's labels instead."""
    recipes = tuple(
        recipe.model_copy(update={"reward_type": "my_judge"}) if recipe.reward_type == "cpmi" else recipe
        for recipe in inputs.recipes
    )
    label = pl.col("reward_type").replace("cpmi", "my_judge")
    frames = {**inputs.frames, "labels/step_rewards": inputs.table("labels/step_rewards").with_columns(label)}
    renamed = replace(inputs, recipes=recipes, frames=frames)
    assert figures(artifact, renamed, "my_judge") == figures(artifact, inputs, "CPMI") != []
    assert not figures(artifact, renamed, "CPMI")


@pytest.mark.parametrize("artifact", ["processbench", "distribution", "prmbench"])
def test_a_judge_has_the_figures_that_a_recipe_of_the_same_scores_has(artifact: str, inputs: ReportInputs):
    of_processbench, of_prmbench = (
        inputs.predictions(f"benchmarks/{name}_predictions", "cpmi_bce") for name in ("processbench", "prmbench")
    )
    said = pl.concat([of_processbench, of_prmbench.with_columns(benchmark=pl.lit("prmbench"))], how="diagonal")
    columns = [pl.lit("Twin").alias("judge"), "benchmark", "problem_id", "step_index", "probability"]
    judged = replace(inputs, frames={**inputs.frames, JUDGES: said.select(columns)})
    assert figures(artifact, judged, "CPMI")
    for suffix in ("", *PROTOCOL_SUFFIXES):
        assert figures(artifact, judged, "Twin" + suffix) == figures(artifact, judged, "CPMI" + suffix)


def test_changed_recipes_other_seeds_and_unknown_pairs_have_rows_of_their_own() -> None:
    plain = Recipe(name="a", reward_type="cpmi")
    seed = Recipe(name="b", reward_type="cpmi", seed=1)
    lora = Recipe(name="c", reward_type="cpmi", training={"lora": {"rank": 4}})
    recipes = (lora, plain, seed, Recipe(name="d", reward_type="pav", objective="pqm"))
    rows, inputs = main_rows(recipes), ReportInputs(recipes=recipes)
    assert [inputs.recipe_of(row) for row in rows[len(MAIN_ROWS) :]] == ["c", "b", "d"]
    assert inputs.recipe_of(next(row for row in rows if row.row == "CPMI")) == "a"
