"""A run computes what the profile's reward types need: no more, and later only what is added."""

import shutil

import polars as pl
import pytest
from rich.console import Console
from small_run import SMALL, run_all, write_profile

from cpmi_dagster import definitions
from cpmi_dagster.definitions import MAKERS, home_status
from cpmi_dagster.generation.transformers_engine import TransformersEngine
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.dag.dagster_home import open_instance
from cpmi_dagster.resources.dag.shard_schedule import shard_demand
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
    assert not run_all(settings, only=("labels",)).failures
    return Lake.of(settings)


def assert_part_of(lake: Lake, whole: Lake, *tables: str) -> None:
    """The rows of a home are those of a home that was asked for everything, but for rounding."""
    for table in tables:
        found = lake.read(table).join(whole.read(table), on=KEYS[table], suffix="_whole", how="left")
        assert found.height == lake.read(table).height > 0
        for column in set(lake.read(table).columns) - set(KEYS[table]):
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
    assert lake.record(POLICY, "000").notes == ["empty: no reward type of the profile needs it"]
    assert lake.read(COSTS)["method"].unique().to_list() == ["cpmi"]


def with_one_shard_of(settings: Settings, templates: int) -> Settings:
    """The profile with other templates, under which one shard is labelled."""
    scoring = settings.scoring.model_copy(update={"templates": templates})
    changed = settings.model_copy(update={"scoring": scoring})
    assert not run_all(changed, only=("labels",), shards=["000"]).failures
    return changed


@pytest.mark.parametrize(
    ("templates", "reason"),
    [
        (1, "scoring.templates: 2, the profile has 1"),
        (3, "files of the profile's settings, which the next run will read"),
    ],
)
def test_a_data_set_over_shards_of_other_settings_is_refused(finished, own_copy, templates, reason):
    """The small profile has four templates; three shards are read with two of them."""
    own_copy = own_copy.model_copy(update={"scoring": own_copy.scoring.model_copy(update={"templates": 2})})
    assert not run_all(own_copy, only=("labels", "dataset")).failures
    changed = with_one_shard_of(own_copy, templates)
    (failure,) = run_all(changed, only=("dataset/cpmi_80k",)).failures
    assert "labels/step_rewards of shard 001, 002, 003 is stale" in failure
    assert reason in failure
    assert "run `cpmi run --only labels` first" in failure


def test_stale_shards_are_seen_by_status_and_by_the_schedule(own_copy):
    changed = with_one_shard_of(own_copy, 1)
    states = {asset.key: asset.partitions for asset in home_status(changed)}
    stale = {"000": "done", "001": "stale", "002": "stale", "003": "stale"}
    assert states["labels/template_scores"] == states["labels/step_rewards"] == stale
    assert set(states["labels/answer_logprobs"].values()) == {"done"}
    assert states["dataset/cpmi_80k"] == {"all": "stale"}
    assert set(states["models/process_reward_models"].values()) == {"stale"}
    with open_instance(changed) as instance:
        demand = shard_demand(instance, Lake.of(changed), changed, States.of(changed, MAKERS))
    assert demand.fresh == ["001", "002", "003"]
    assert not run_all(changed, only=("labels", "dataset")).failures
    states = {asset.key: asset.partitions for asset in home_status(changed)}
    assert states["dataset/cpmi_80k"] == {"all": "done"}


def test_a_finished_home_has_nothing_stale(finished):
    assert {state for asset in home_status(finished) for state in asset.partitions.values()} == {"done"}


def test_what_another_profile_of_the_home_has_made_of_the_same_settings_is_not_made_again(own_copy, prompts):
    another = own_copy.model_copy(update={"profile": "another"})
    assert not run_all(another, only=("labels",)).failures
    assert not any(prompts.values())
    states = {asset.key: set(asset.partitions.values()) for asset in home_status(another)}
    assert {key for key, found in states.items() if key.startswith("labels/") and found != {"done"}} == set()
    assert Lake.of(another).read(REWARDS).equals(Lake.of(own_copy).read(REWARDS))


def test_a_bit_that_has_flipped_is_found_and_mended_by_the_next_run(own_copy):
    lake = Lake.of(own_copy)
    before, (path,) = lake.read(REWARDS, "001"), lake.paths(REWARDS, "001")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert not run_all(own_copy, only=("labels",)).failures
    assert lake.paths(REWARDS, "001") != [path]
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
    scored = {key: lake.record(LOGPROBS, key).written_at for key in lake.partitions(LOGPROBS)}
    lake = labelled(profile_of(unlabelled, ["cpmi_merge1", "pav_merge2"]))
    assert lake.read(PROVER)["prefix_length"].unique().sort().to_list() == [0, 1, 2]
    assert lake.read(POLICY)["prefix_length"].max() == 2
    lake = labelled(profile_of(unlabelled, ["cpmi_merge1", "pav_merge2", "pav", "mc"]))
    assert_part_of(lake, whole, NEGATIVES, LOGPROBS, POLICY, PROVER, REWARDS)
    assert lake.read(POLICY).equals(whole.read(POLICY)) and lake.read(PROVER).equals(whole.read(PROVER))
    assert prompts["line"] == drawn["line"]
    assert prompts["answer"] == whole.read(POLICY).height / 2 + whole.read(PROVER).height
    assert scored == {key: lake.record(LOGPROBS, key).written_at for key in lake.partitions(LOGPROBS)}
    assert first.join(lake.read(POLICY), on=first.columns, how="anti", nulls_equal=True).is_empty()


def test_asked_for_less_nothing_is_made_again_and_rewards_are_of_what_is_asked_for(unlabelled, prompts):
    lake = labelled(profile_of(unlabelled, ["mc", "cpmi"]))
    before = {table: lake.read(table) for table in (NEGATIVES, LOGPROBS, POLICY)}
    asked, prompts["answer"] = dict(prompts), 0
    fewer = {"rollouts": SMALL["rollouts"] | {"policy_count": 1}, "scoring": SMALL["scoring"] | {"templates": 2}}
    labelled(profile_of(unlabelled, ["mc", "cpmi"], **fewer))
    assert prompts == {"line": asked["line"], "answer": 0}
    lake = Lake.of(profile_of(unlabelled, ["mc", "cpmi"], **fewer))
    assert lake.read(LOGPROBS).equals(before[LOGPROBS].filter(pl.col("template") < 2))
    assert lake.read(POLICY).equals(before[POLICY].filter(rollout=0))
    mc = lake.read(REWARDS).filter(reward_type="mc")["reward"]
    assert set(mc) <= {0.0, 1.0}
    assert lake.read("labels/template_scores")["template"].max() == 1
    lake = labelled(profile_of(unlabelled, ["mc", "cpmi"]))
    assert prompts == {"line": asked["line"], "answer": 0}
    assert all(lake.read(table).equals(rows) for table, rows in before.items())


def test_forced_what_is_asked_for_is_made_again_and_nothing_else(unlabelled):
    everything = profile_of(unlabelled, ["mc", "cpmi"])
    lake = labelled(everything)
    before = {table: lake.read(table) for table in (NEGATIVES, POLICY)}
    written = {record.file_name: record.written_at for record in lake.records(NEGATIVES, "000")}
    fewer = profile_of(unlabelled, ["mc"], rollouts=SMALL["rollouts"] | {"policy_count": 1})
    outcome = definitions.run_with_progress(fewer, ["000"], (POLICY,), True, Console(stderr=True), quiet=True)
    assert not outcome.failures
    assert Lake.of(fewer).record(POLICY, "000").written_at > max(written.values())
    lake = labelled(everything)
    assert all(lake.read(table).equals(rows) for table, rows in before.items())
    assert {record.file_name: record.written_at for record in lake.records(NEGATIVES, "000")} == written


def test_more_rollouts_templates_and_negatives_are_added_in_files_of_their_own(finished, unlabelled):
    few = {
        "rollouts": SMALL["rollouts"] | {"policy_count": 1},
        "scoring": SMALL["scoring"] | {"templates": 1},
        "negatives": {"count": 2},
    }
    lake = labelled(profile_of(unlabelled, ["mc", "cpmi"], **few))
    assert lake.read(LOGPROBS)["answer_rank"].max() == 2
    before = {table: lake.record(table, "000").cost for table in (LOGPROBS, POLICY)}
    lake = labelled(profile_of(unlabelled, ["mc", "cpmi"]))
    assert_part_of(lake, Lake.of(finished), NEGATIVES, LOGPROBS, POLICY, REWARDS)
    wanted = Lake.of(finished).read(LOGPROBS).filter(pl.col("context").is_in(["question", "step"]))
    assert lake.read(LOGPROBS).height == wanted.height
    for table, cost in before.items():
        first, second = sorted((record.cost for record in lake.records(table, "000")), key=lambda own: own != cost)
        assert first == cost
        assert lake.record(table, "000").cost["forward_tokens"] == cost["forward_tokens"] + second["forward_tokens"]
