"""What the launchpad changes for one run of the labels, and what the next run under the profile keeps of it."""

import dagster as dg
import pytest
from small_run import run_all

from cpmi_dagster.definitions import build_definitions
from cpmi_dagster.generation.transformers_engine import TransformersEngine
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.automation import LABEL
from cpmi_dagster.resources.dag.materializations import asset_key
from cpmi_dagster.resources.lake.lake import Lake

pytestmark = pytest.mark.slow

SHARD, OTHER = "000", "001"
SCORES, ROLLOUTS, REWARDS = "labels/template_scores", "labels/policy_rollouts", "labels/step_rewards"


@pytest.fixture
def cheap(own_copy) -> Settings:
    """A finished home whose profile then asks for little: CPMI under two templates."""
    changed = {
        "rewards": own_copy.rewards.model_copy(update={"types": ("cpmi",)}),
        "scoring": own_copy.scoring.model_copy(update={"templates": 2}),
        "recipes": tuple(recipe for recipe in own_copy.recipes if recipe.reward_type == "cpmi"),
    }
    settings = own_copy.model_copy(update=changed)
    assert not run_all(settings, only=("labels",)).failures
    return settings


@pytest.fixture
def drawn(monkeypatch) -> list[int]:
    """The number of prompts of each call that a model continues."""
    counts: list[int] = []
    generate = TransformersEngine.generate

    def counted(self, prompts, *options, **named):
        counts.append(len(prompts))
        return generate(self, prompts, *options, **named)

    monkeypatch.setattr(TransformersEngine, "generate", counted)
    return counts


def launched(settings: Settings, tables: tuple[str, ...] = (), **config: object) -> dg.ExecuteInProcessResult:
    """A run of the UI over one shard, without the checks of the whole home; of some label assets, or of all."""
    job, chosen = build_definitions(settings).resolve_job_def(LABEL), frozenset(map(asset_key, tables)) or None
    with dg.DagsterInstance.ephemeral() as instance:
        return job.get_subset(asset_selection=chosen, asset_check_selection=frozenset()).execute_in_process(
            instance=instance,
            partition_key=SHARD,
            run_config={"ops": {"labels": {"config": config}}},
            raise_on_error=False,
        )


def sentence_of(result: dg.ExecuteInProcessResult) -> str:
    return result.get_step_failure_events()[0].step_failure_data.user_failure_data.description


def types_of(settings: Settings, shard: str) -> set[str]:
    return set(Lake.of(settings).read(REWARDS, shard)["reward_type"])


def templates_of(settings: Settings, shard: str) -> int:
    return Lake.of(settings).read(SCORES, shard)["template"].n_unique()


def test_the_launchpad_shows_the_settings_of_the_profile(own_copy):
    job = build_definitions(own_copy).resolve_job_def(LABEL)
    with dg.DagsterInstance.ephemeral():
        filled = dg.validate_run_config(job)["ops"]["labels"]["config"]
    assert filled == {
        "force": False,
        "reward_types": list(own_copy.rewards.types),
        "templates": own_copy.scoring.templates,
        "negatives": own_copy.negatives.count,
    }


def test_a_run_with_other_reward_types_and_templates_labels_its_shard_with_them(cheap):
    assert types_of(cheap, SHARD) == {"cpmi"} and templates_of(cheap, SHARD) == 2
    assert launched(cheap, reward_types=["cpmi", "mc"], templates=3).success
    assert types_of(cheap, SHARD) == {"cpmi", "mc"} and templates_of(cheap, SHARD) == 3
    assert types_of(cheap, OTHER) == {"cpmi"} and templates_of(cheap, OTHER) == 2


def test_the_next_run_under_the_profile_restores_its_labels_and_draws_nothing_again(cheap, drawn):
    before = Lake.of(cheap).read(REWARDS, SHARD)
    rollouts = Lake.of(cheap).read(ROLLOUTS, SHARD)
    assert launched(cheap, reward_types=["cpmi", "mc"], negatives=2).success
    assert not run_all(cheap, only=("labels",)).failures
    assert Lake.of(cheap).read(REWARDS, SHARD).equals(before)
    assert Lake.of(cheap).read(ROLLOUTS, SHARD).equals(rollouts)
    assert not drawn


def test_dagster_is_given_another_code_version_than_the_profile_s(cheap):
    versions = []
    for config in ({}, {"templates": 3}):
        (event,) = (
            event
            for event in launched(cheap, force=True, **config).get_asset_materialization_events()
            if event.asset_key == asset_key(SCORES)
        )
        versions.append(event.materialization.tags["dagster/code_version"])
    assert versions[0] != versions[1]


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"reward_types": ["cpmi", "nonsense"]}, "the launchpad's `reward_types` is wrong: "),
        ({"templates": 0}, "the launchpad's `templates` is wrong: it must be greater than or equal to 1"),
        ({"negatives": 0}, "the launchpad's `negatives` is wrong: it must be greater than or equal to 1"),
    ],
)
def test_a_value_that_no_profile_could_have_fails_the_run_with_a_sentence(own_copy, config, sentence):
    assert sentence in sentence_of(launched(own_copy, **config))


def test_a_type_without_its_model_is_refused_as_in_a_profile(own_copy):
    own_copy = own_copy.model_copy(
        update={
            "models": own_copy.models.model_copy(update={"prover": None}),
            "rewards": own_copy.rewards.model_copy(update={"types": ("mc", "cpmi")}),
        }
    )
    said = sentence_of(launched(own_copy, reward_types=["cpmi", "pav"]))
    assert said.startswith("what the launchpad sets does not fit profile `small`: models.prover is missing")


def test_settings_cannot_be_changed_for_some_of_the_label_assets(own_copy):
    said = sentence_of(launched(own_copy, (REWARDS,), templates=2))
    assert "changes settings of 1 of the 10 stages of group `labels`" in said
    assert said.endswith("launch the whole group")
    assert launched(own_copy, (REWARDS,)).success
