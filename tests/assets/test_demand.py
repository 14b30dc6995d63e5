"""A run computes what the profile's reward types need: no more, and later only what is added."""

import shutil

import polars as pl
import pytest
from rich.console import Console
from small_run import SMALL, run_all, write_profile

from cpmi_dagster import definitions
from cpmi_dagster.assets import labels
from cpmi_dagster.definitions import MAKERS, home_of, home_status
from cpmi_dagster.generation.transformers_engine import TransformersEngine
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.dag.dagster_home import open_instance
from cpmi_dagster.resources.dag.shard_schedule import due_shards
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.lake.lake import Lake

pytestmark = pytest.mark.slow

NEGATIVES, LOGPROBS, COSTS = "labels/hard_negatives", "labels/answer_logprobs", "labels/labeling_costs"
POLICY, PROVER, REWARDS = "labels/policy_rollouts", "labels/prover_rollouts", "labels/step_rewards"
KEYS = {
    NEGATIVES: ["trajectory_id", "rank"],
    LOGPROBS: ["trajectory_id", "template", "context", "step_index", "answer_rank"],
    POLICY: ["trajectory_id", "prefix_length", "rollout"],
    PROVER: ["trajectory_id", "prefix_length", "rollout"],
    REWARDS: ["trajectory_id", "step_index", "reward_type"],
}
ROUNDING = 1e-4
SHARD = "000"


@pytest.fixture
def prompts(monkeypatch):
    """Number of prompts that were continued by lines and by answers."""
    counts = {"line": 0, "answer": 0}
    generate = TransformersEngine.generate

    def counted(self, asked, sampling, samples, seed, stop="answer", first=0):
        counts[stop] += len(asked)
        return generate(self, asked, sampling, samples, seed, stop, first)

    monkeypatch.setattr(TransformersEngine, "generate", counted)
    monkeypatch.setattr(TransformersEngine, "prepare", lambda self: None)  # its prompts are of no label
    return counts


@pytest.fixture
def unlabelled(own_copy):
    """A finished home without its labels."""
    shutil.rmtree(Lake.of(own_copy).root / "labels")
    return own_copy.home


def profile_of(home, types: list[str], **values) -> Settings:
    """The small profile for some reward types; models that nothing asks for are not named."""
    asked = load_settings(write_profile(home / "all.yaml", SMALL | {"recipes": [], "rewards": {"types": types}}))
    absent = {
        role: None
        for role, steps in (("policy", asked.demand.policy_steps), ("prover", asked.demand.prover_steps))
        if steps == 0
    }
    own = {"recipes": [], "rewards": {"types": types}, "models": absent, **values}
    own["benchmarks"] = SMALL["benchmarks"] | {"best_of_n": []}
    return load_settings(write_profile(home / "own.yaml", SMALL | own), home)


def labelled(settings: Settings) -> Lake:
    """The lake with one shard labelled by the stages alone: what is asked for is the same of every shard and run."""
    home = home_of(settings)
    for stage in labels.STAGES:
        stage.bring_up_to_date(StageRun(stage, home, SHARD, "run", lambda _: None))
    return home.lake


def assert_part_of(lake: Lake, whole: Lake, *tables: str) -> None:
    """The rows of a home are those of a home that was asked for everything, but for rounding."""
    for table in tables:
        rows = lake.read(table, SHARD)
        found = rows.join(whole.read(table), on=KEYS[table], suffix="_whole", how="left")
        assert found.height == rows.height > 0
        for column in set(rows.columns) - set(KEYS[table]):
            one, other = found[column], found[f"{column}_whole"]
            if one.dtype.is_float():
                assert (one - other).abs().max() < ROUNDING, (table, column)
            else:
                assert one.equals(other, null_equal=True), (table, column)


def test_cpmi_alone_completes_no_prefix_and_needs_neither_policy_nor_prover(finished, unlabelled, prompts):
    settings = profile_of(unlabelled, ["cpmi"])
    assert settings.models.policy is settings.models.prover is None
    lake = labelled(settings)
    assert prompts["answer"] == 0 < prompts["line"]
    assert_part_of(lake, Lake.of(finished), NEGATIVES, LOGPROBS, REWARDS)
    assert set(lake.read(LOGPROBS)["context"]) == {"question", "step"}
    assert lake.read(POLICY).is_empty() and lake.read(PROVER).is_empty()
    assert lake.record(POLICY, SHARD).notes == ["empty: no reward type of the profile needs it"]
    assert lake.read(COSTS)["method"].unique().to_list() == ["cpmi"]


def with_one_shard_of(settings: Settings, templates: int) -> Settings:
    """The profile with other templates, under which one shard is labelled."""
    scoring = settings.scoring.model_copy(update={"templates": templates})
    changed = settings.model_copy(update={"scoring": scoring})
    assert not run_all(changed, only=("labels",), shards=["000"]).failures
    return changed


def test_a_data_set_over_shards_of_other_settings_is_refused(own_copy):
    changed = with_one_shard_of(own_copy, 1)
    (failure,) = run_all(changed, only=("dataset/cpmi_80k",)).failures
    assert "labels/step_rewards of shard 001, 002, 003 is stale" in failure
    assert "scoring.templates: 4, the profile has 1" in failure
    assert "run `cpmi run --only labels` first" in failure


def test_stale_shards_are_seen_by_status_and_by_the_schedule(own_copy):
    changed = with_one_shard_of(own_copy, 1)
    states = {asset.key: asset.partitions for asset in home_status(changed)}
    stale = {"000": "done", "001": "stale", "002": "stale", "003": "stale"}
    assert (
        states["labels/answer_logprobs"] == states["labels/template_scores"] == states["labels/step_rewards"] == stale
    )
    assert set(states["labels/hard_negatives"].values()) == {"done"}
    assert states["dataset/cpmi_80k"] == {"all": "stale"}
    assert set(states["models/process_reward_models"].values()) == {"stale"}
    with open_instance(changed) as instance:
        assert due_shards(instance, Lake.of(changed), changed, States.of(changed, MAKERS)) == ["001", "002", "003"]
    assert not run_all(changed, only=("labels", "dataset")).failures
    states = {asset.key: asset.partitions for asset in home_status(changed)}
    assert states["dataset/cpmi_80k"] == {"all": "done"}


def test_a_finished_home_has_nothing_stale(finished):
    assert {state for asset in home_status(finished) for state in asset.partitions.values()} == {"done"}


def test_a_bit_that_has_flipped_is_found_and_mended_by_the_next_run(own_copy, flip):
    lake = Lake.of(own_copy)
    before, path = lake.read(REWARDS, "001"), lake.path(REWARDS, "001")
    flip(path, path.stat().st_size // 2)
    assert not run_all(own_copy, only=("labels",)).failures
    assert lake.read(REWARDS, "001").equals(before)


def test_what_is_forced_to_be_made_again_is_not_stale_once_it_is_made(own_copy):
    console = Console(stderr=True)
    only = ("labels/step_rewards", "dataset/soft_labels")
    outcome = definitions.run_with_progress(own_copy, own_copy.shard_keys, only, True, console, quiet=True)
    assert not outcome.failures


def test_without_samples_of_negatives_nothing_is_generated(unlabelled, prompts):
    labelled(profile_of(unlabelled, ["cpmi"], negatives={"samples": 0}))
    assert prompts == {"line": 0, "answer": 0}


def test_rollouts_alone_score_nothing(finished, unlabelled):
    lake = labelled(profile_of(unlabelled, ["mc"]))
    assert lake.read(LOGPROBS).is_empty() and lake.read(NEGATIVES).is_empty()
    assert_part_of(lake, Lake.of(finished), POLICY, REWARDS)


def test_asked_for_more_each_asset_adds_what_is_missing_and_keeps_the_rest(finished, unlabelled, prompts):
    whole = Lake.of(finished)
    lake = labelled(profile_of(unlabelled, ["cpmi_merge1"]))
    assert lake.read(POLICY)["prefix_length"].unique().to_list() == [1]
    first, drawn = lake.read(POLICY), dict(prompts)
    scored = lake.record(LOGPROBS, SHARD).written_at
    lake = labelled(profile_of(unlabelled, ["cpmi_merge1", "pav_merge2"]))
    assert lake.read(PROVER)["prefix_length"].unique().sort().to_list() == [0, 1, 2]
    assert lake.read(POLICY)["prefix_length"].max() == 2
    lake = labelled(profile_of(unlabelled, ["cpmi_merge1", "pav_merge2", "pav", "mc"]))
    assert_part_of(lake, whole, NEGATIVES, LOGPROBS, POLICY, PROVER, REWARDS)
    policy, prover = (whole.read(table, SHARD) for table in (POLICY, PROVER))
    assert lake.read(POLICY).equals(policy) and lake.read(PROVER).equals(prover)
    assert prompts["line"] == drawn["line"]
    assert prompts["answer"] == policy.height / 2 + prover.height
    assert scored == lake.record(LOGPROBS, SHARD).written_at
    assert first.join(lake.read(POLICY), on=first.columns, how="anti", nulls_equal=True).is_empty()


def test_asked_for_less_nothing_is_made_again_and_rewards_are_of_what_is_asked_for(unlabelled, prompts):
    lake = labelled(profile_of(unlabelled, ["mc", "cpmi"]))
    before = {table: lake.read(table) for table in (NEGATIVES, LOGPROBS, POLICY)}
    asked, prompts["answer"] = dict(prompts), 0
    fewer = {"rollouts": SMALL["rollouts"] | {"policy_count": 1}, "scoring": SMALL["scoring"] | {"templates": 2}}
    lake = labelled(profile_of(unlabelled, ["mc", "cpmi"], **fewer))
    assert prompts == {"line": asked["line"], "answer": 0}
    assert lake.read(LOGPROBS).equals(before[LOGPROBS].filter(pl.col("template") < 2))
    assert lake.read(POLICY).equals(before[POLICY].filter(rollout=0))
    mc = lake.read(REWARDS).filter(reward_type="mc")["reward"]
    assert set(mc) <= {0.0, 1.0}
    assert lake.read("labels/template_scores")["template"].max() == 1
    lake = labelled(profile_of(unlabelled, ["mc", "cpmi"]))
    assert prompts == {"line": asked["line"], "answer": 0}
    assert all(lake.read(table).equals(rows) for table, rows in before.items())


def test_forced_a_table_is_made_again_of_what_models_have_answered(own_copy, prompts):
    lake = Lake.of(own_copy)
    before, written = lake.read(POLICY), {key: lake.record(key, "000").written_at for key in (NEGATIVES, POLICY)}
    outcome = definitions.run_with_progress(own_copy, ["000"], (POLICY,), True, Console(stderr=True), quiet=True)
    assert not outcome.failures and not any(prompts.values())
    assert lake.record(POLICY, "000").written_at > written[POLICY]
    assert lake.record(NEGATIVES, "000").written_at == written[NEGATIVES]
    assert lake.read(POLICY).equals(before)


def test_more_rollouts_templates_and_negatives_are_added_to_those_there_are(finished, unlabelled):
    few = {
        "rollouts": SMALL["rollouts"] | {"policy_count": 1},
        "scoring": SMALL["scoring"] | {"templates": 1},
        "negatives": {"count": 2},
    }
    lake = labelled(profile_of(unlabelled, ["mc", "cpmi"], **few))
    assert lake.read(LOGPROBS)["answer_rank"].max() == 2
    before = {table: lake.record(table, SHARD).cost for table in (LOGPROBS, POLICY)}
    lake = labelled(profile_of(unlabelled, ["mc", "cpmi"]))
    assert_part_of(lake, Lake.of(finished), NEGATIVES, LOGPROBS, POLICY, REWARDS)
    wanted = Lake.of(finished).read(LOGPROBS, SHARD).filter(pl.col("context").is_in(["question", "step"]))
    assert lake.read(LOGPROBS).height == wanted.height
    for table, cost in before.items():
        assert lake.record(table, SHARD).cost["forward_tokens"] > cost["forward_tokens"]
