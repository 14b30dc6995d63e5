"""The checks of a home name the files that are gone and those that are stale; the data set's job asks them first."""

import dagster as dg
import pytest

from cpmi_dagster.definitions import build_definitions
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.automation import CHECK_JOB, DATASET
from cpmi_dagster.resources.dag.dagster_home import open_instance
from cpmi_dagster.resources.lake.lake import Lake

pytestmark = pytest.mark.slow

REWARDS, SOURCE = "labels/step_rewards", "sources/math_shepherd"


def run_job(settings: Settings, job: str) -> dg.ExecuteInProcessResult:
    with open_instance(settings) as instance:
        definitions = build_definitions(settings)
        return definitions.resolve_job_def(job).execute_in_process(instance=instance, raise_on_error=False)


def failed(settings: Settings) -> dict[tuple[str, str], dict[str, str]]:
    """By table and check, the partitions that failed and why."""
    evaluations = run_job(settings, CHECK_JOB.name).get_asset_check_evaluations()
    return {
        (evaluation.asset_key.to_user_string(), evaluation.check_name): {
            partition: str(reason.value) for partition, reason in evaluation.metadata.items()
        }
        for evaluation in evaluations
        if not evaluation.passed
    }


def with_other_weights(settings: Settings) -> Settings:
    """The profile under another setting of the last labeling stage."""
    rewards = settings.rewards.model_copy(update={"alpha": settings.rewards.alpha + 0.1})
    return settings.model_copy(update={"rewards": rewards})


def test_a_finished_home_passes(finished):
    assert failed(finished) == {}


def test_a_file_that_is_gone_is_named(own_copy):
    Lake.of(own_copy).paths(REWARDS, "002")[0].unlink()
    found = failed(own_copy)
    assert [key for key in found if key[1] == "on_disk"] == [(REWARDS, "on_disk")]
    assert list(found[REWARDS, "on_disk"]) == ["002"]
    assert found["dataset/soft_labels", "current"] == {"all": f"{REWARDS} 002 is not there any more"}


def test_stale_shards_fail_and_keep_the_data_set_from_being_made(own_copy):
    changed = with_other_weights(own_copy)
    found = failed(changed)
    assert list(found[REWARDS, "current"]) == own_copy.shard_keys
    assert "rewards.alpha" in found[REWARDS, "current"]["000"]
    assert ("dataset/cpmi_80k", "current") in found and ("labels/answer_logprobs", "current") not in found
    result = run_job(changed, DATASET)
    assert not result.success
    made = {event.asset_key.to_user_string() for event in result.get_asset_materialization_events() if event.asset_key}
    assert made == {"dataset/dataset_statistics"}


def test_the_run_of_a_shard_does_not_fail_because_others_are_stale(own_copy):
    changed = own_copy.model_copy(update={"seed": own_copy.seed + 1})
    with open_instance(changed) as instance:
        job = build_definitions(changed).resolve_implicit_global_asset_job_def()
        chosen = job.get_subset(asset_selection={dg.AssetKey(SOURCE.split("/"))})
        result = chosen.execute_in_process(instance=instance, partition_key="000")
    [found] = [one for one in result.get_asset_check_evaluations() if one.check_name == "current"]
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert set(found.metadata) == {"001", "002", "003"}


def test_the_job_of_the_data_set_runs_where_all_rewards_are_current(own_copy):
    assert run_job(own_copy, DATASET).success
