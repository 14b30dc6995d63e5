"""Hidden states of a frozen backbone in the lake: read once, and predictions from them are those of the whole model."""

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from cpmi_dagster.contracts.keys import (
    CANDIDATE_FEATURES,
    CANDIDATES,
    CHOICES,
    MODELS,
    PROBLEM_FEATURES,
    PROBLEMS,
    PROCESSBENCH,
    SELECTED,
    STEP_FEATURES,
    TRAJECTORIES,
)
from cpmi_dagster.definitions import MAKERS
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.prm import load_reward_model, score_steps
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.parts import feeds
from cpmi_dagster.resources.lake.records import rows_hash
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.resources.workers.language_models import LanguageModels


@pytest.fixture
def lake(finished) -> Lake:
    return Lake.of(finished)


def test_every_step_that_a_head_learns_from_or_predicts_has_one_state(lake):
    selected = lake.read(TRAJECTORIES).join(lake.read(SELECTED), on="trajectory_id", how="semi")
    problems = lake.read(PROBLEMS).filter(pl.col("steps").is_not_null())
    for key, solutions in (
        (STEP_FEATURES, selected),
        (PROBLEM_FEATURES, problems),
        (CANDIDATE_FEATURES, lake.read(CANDIDATES)),
    ):
        features = lake.read(key)
        assert features.height == solutions["steps"].list.len().sum()
        assert features["feature"].list.len().unique().to_list() == [128]


def test_predictions_from_kept_states_are_those_of_the_whole_model(lake):
    model = load_reward_model(lake.home / lake.read(MODELS, "mc_bce")["path"][0])
    key = ["benchmark", "problem_id"]
    kept = lake.read(PROCESSBENCH, "mc_bce").select(*key, "step_index", "probability")
    problems = lake.read(PROBLEMS).join(kept.select(key).unique(), on=key, how="semi").select(*key, "question", "steps")
    whole = score_steps(model, problems, 4096)
    assert_frame_equal(kept, whole, abs_tol=1e-4, check_row_order=False, check_dtypes=False)
    assert lake.read(CHOICES, "mc_bce").height


def test_a_recipe_depends_on_hidden_states_only_where_it_trains_a_head(tmp_path):
    profile = tmp_path / "mine.yaml"
    both = "{name: whole, reward_type: cpmi, training: {backbone: full}}, {name: head, reward_type: cpmi}"
    profile.write_text(f"extends: miniature\nrecipes: [{both}]\n", encoding="utf-8")
    settings = load_settings(str(profile))
    fed = {name: feeds(STEP_FEATURES, "recipe", name, settings) for name in settings.recipe_names}
    assert fed == {"whole": False, "head": True}
    assert feeds(SELECTED, "recipe", "whole", settings)
    assert feeds(STEP_FEATURES, "shard", "000", settings)


def test_hidden_states_of_problems_depend_on_those_with_steps_alone(finished, lake):
    states = States(finished, lake, LanguageModels(finished), DataSources(finished), MAKERS)
    with_steps = lake.read(PROBLEMS).filter(pl.col("steps").is_not_null())
    assert 0 < with_steps.height < lake.read(PROBLEMS).height
    assert states.facts(MAKERS[PROBLEM_FEATURES], None)["inputs"] == {PROBLEMS: rows_hash(with_steps)}
    assert states.facts(MAKERS[PROCESSBENCH], "mc_bce")["inputs"][PROBLEMS] == lake.content(PROBLEMS, None)


@pytest.mark.parametrize("changed", ["backbone: {name: ./other}", "training: {max_tokens: 64}"])
def test_a_recipe_that_would_need_other_states_is_refused(tmp_path, changed):
    profile = tmp_path / "mine.yaml"
    profile.write_text(f"extends: miniature\nrecipes: [{{name: a, reward_type: cpmi, {changed}}}]\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="recipes: `a` has a backbone or `max_tokens` of its own"):
        load_settings(str(profile))
