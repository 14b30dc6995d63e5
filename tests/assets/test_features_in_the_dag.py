"""Hidden states of a frozen backbone: read once, and predictions from them are those of the whole model."""

import pytest
from polars.testing import assert_frame_equal
from small_run import run_all

from cpmi_dagster.contracts.keys import CHOICES, MODELS, PROBLEMS, PROCESSBENCH
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.prm import features, load_reward_model, score_steps
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.lake.lake import Lake


@pytest.fixture
def lake(finished) -> Lake:
    return Lake.of(finished)


def test_predictions_from_kept_states_are_those_of_the_whole_model(lake):
    model = load_reward_model(lake.home / lake.read(MODELS, "mc_bce")["path"][0])
    key = ["benchmark", "problem_id"]
    kept = lake.read(PROCESSBENCH, "mc_bce").select(*key, "step_index", "probability")
    problems = lake.read(PROBLEMS).join(kept.select(key).unique(), on=key, how="semi").select(*key, "question", "steps")
    whole = score_steps(model, problems, 4096)
    assert_frame_equal(kept, whole, abs_tol=1e-4, check_row_order=False, check_dtypes=False)
    assert lake.read(CHOICES, "mc_bce").height


@pytest.mark.parametrize("changed", ["backbone: {name: ./other}", "training: {max_tokens: 64}"])
def test_a_recipe_that_would_need_other_states_is_refused(tmp_path, changed):
    profile = tmp_path / "mine.yaml"
    profile.write_text(f"extends: miniature\nrecipes: [{{name: a, reward_type: cpmi, {changed}}}]\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="recipes: `a` has a backbone or `max_tokens` of its own"):
        load_settings(str(profile))


def test_a_recipe_that_is_added_asks_the_backbone_nothing(own_copy: Settings, monkeypatch):
    read = list[int]()
    step_features = features.step_features

    def counted(model, solutions, *arguments):
        read.append(solutions.height)
        return step_features(model, solutions, *arguments)

    monkeypatch.setattr(features, "step_features", counted)
    added = Recipe(name="mc_mse", reward_type="mc", objective="mse")
    settings = own_copy.model_copy(update={"recipes": (*own_copy.recipes, added)})
    assert not run_all(settings, only=("models", "benchmarks")).failures
    lake = Lake.of(settings)
    assert lake.read(PROCESSBENCH, "mc_mse").height == lake.read(PROCESSBENCH, "mc_bce").height
    assert lake.read(CHOICES, "mc_mse").height and not read
