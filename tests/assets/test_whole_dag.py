"""The DAG from end to end on a part of the embedded world: its tables, what a change makes, the last words of a run."""

import shutil
from dataclasses import replace
from pathlib import Path

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from small_run import SMALL, run_all, write_profile

from cpmi_dagster.assets import labels
from cpmi_dagster.contracts.keys import (
    CHOICES,
    COSTS,
    LOGPROBS,
    MODELS,
    NEGATIVES,
    POLICY_ROLLOUTS,
    PROCESSBENCH,
    PROVER_ROLLOUTS,
    STEP_REWARDS,
)
from cpmi_dagster.contracts.report_tables import ARTIFACT_NAMES
from cpmi_dagster.contracts.tables import TABLES, provenance_of
from cpmi_dagster.definitions import STAGE_BY_TABLE, home_of, home_status, what_is_stale
from cpmi_dagster.generation.transformers_engine import TransformersEngine
from cpmi_dagster.prm import scoring
from cpmi_dagster.prm.inputs import validation_questions
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.dag.instance import open_instance
from cpmi_dagster.resources.dag.making import bring_up_to_date
from cpmi_dagster.resources.dag.sensors import due_shards
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.dag.status import describe_pilot
from cpmi_dagster.resources.lake.lake import EARLIER, Lake
from cpmi_dagster.resources.lake.query import query

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("published_at_the_end")]

SHARD = "000"
REJECTED = ("labels/rejected_trajectories", "sources/rejected_truth")
NOT_ASKED = {"sources/questions", "sources/sampled_solutions", "sources/step_labels", "benchmarks/judge_predictions"}


def test_every_relation_and_artifact_is_there_for_plain_duckdb_and_in_a_page_that_fetches_nothing(finished):
    with duckdb.connect(str(finished.home / "cpmi.duckdb"), read_only=True) as connection:
        counts = {
            key: connection.sql(f'select count(*) from {table.group}."{table.name}"').fetchall()[0][0]
            for key, table in TABLES.items()
        }
        artifacts = connection.sql("select count(distinct artifact) from reports.paper_comparison").fetchall()[0][0]
    assert {key for key, count in counts.items() if not count} <= {*NOT_ASKED, *REJECTED}
    page = (finished.home / "report" / "index.html").read_text(encoding="utf-8")
    assert page.count('<details class="artifact"') == artifacts == len(ARTIFACT_NAMES)
    assert "miniature:labeler@" in page and 'src="http' not in page


def test_every_source_row_is_kept_or_rejected_and_every_row_is_traced_to_its_run_and_code(finished):
    lake = Lake.of(finished)
    source, rejected = lake.read("sources/math_shepherd")["row_number"], lake.read("alignment/rejected_rows")
    kept = lake.read("alignment/trajectories")["row_number"]
    assert pl.concat([kept, rejected["row_number"]]).sort().equals(source.sort()) and rejected.height == 4
    assert rejected["reason"].str.len_chars().min() > 10
    for key in TABLES.keys() - NOT_ASKED:
        for partition in lake.partitions(key) if TABLES[key].partitioning else [None]:
            names, record = list(provenance_of(TABLES[key])), lake.record(key, partition)
            rows = pl.read_parquet(lake.path(key, partition), columns=names).unique().rows()
            assert rows in ([], [tuple(getattr(record, name) for name in names)])


def tables_made_by(settings: Settings, **options) -> set[str]:
    """The tables of which a run writes files."""
    root = settings.home / "lake"

    def times() -> dict[Path, int]:
        paths = (path for path in root.glob("**/[!.]*.parquet") if EARLIER not in path.parts)
        return {path: path.stat().st_mtime_ns for path in paths}

    before = times()
    assert not run_all(settings, **options).failures
    return {str(path.relative_to(root).parent) for path, time in times().items() if before.get(path) != time}


def test_a_second_run_makes_nothing_and_a_moved_home_is_published_anew(own_copy):
    assert {state for asset in home_status(own_copy) for state in asset.partitions.values()} == {"done"}
    assert tables_made_by(own_copy) == set()
    with duckdb.connect(str(own_copy.home / "cpmi.duckdb"), read_only=True) as connection:
        views = connection.sql("select sql from duckdb_views() where not internal").pl()["sql"]
    assert views.str.contains(str(own_copy.home), literal=True).any()


def test_a_change_makes_exactly_what_follows_from_it_again(own_copy, monkeypatch):
    changed = own_copy.model_copy(update={"rewards": own_copy.rewards.model_copy(update={"alpha": 0.3})})
    only = ("alignment", "selection", "labels", "dataset")
    assert tables_made_by(changed, only=only) == {STEP_REWARDS, "dataset/soft_labels", "dataset/cpmi_80k"}
    # code that gives equal rows makes nothing after them again
    aligning = STAGE_BY_TABLE["alignment/trajectories"]
    edited = replace(aligning, code_version=f"{aligning.code_version} edited")
    for table in aligning.tables:
        monkeypatch.setitem(STAGE_BY_TABLE, table, edited)
    assert tables_made_by(changed, only=only) == {*aligning.tables}


def test_what_was_deleted_or_damaged_is_made_again_with_the_same_rows_and_the_data_set_waits_for_it(own_copy, flip):
    lake = Lake.of(own_copy)
    deleted, damaged = lake.path(LOGPROBS, "001"), lake.path(STEP_REWARDS, "002")
    before = lake.read(LOGPROBS, "001"), lake.read(STEP_REWARDS, "002")
    deleted.unlink()
    flip(damaged, damaged.stat().st_size // 2)
    lake.path(STEP_REWARDS, "003").unlink()
    outcome = run_all(own_copy, only=("labels", "dataset"), shards=["001", "002"])
    assert not outcome.failures and "wait for shard 003, missing or stale" in outcome.waiting[0]
    assert lake.read(LOGPROBS, "001").equals(before[0]) and lake.read(STEP_REWARDS, "002").equals(before[1])
    assert lake.partitions(STEP_REWARDS) == ["000", "001", "002"]


def test_a_pilot_after_a_whole_run_shows_its_own_labels_alone_and_a_whole_run_brings_the_others_back(own_copy):
    only, labelled = ("selection", "labels"), "select distinct trajectory_id from labels.step_rewards"
    whole = Lake.of(own_copy).read(STEP_REWARDS)

    def shown() -> set[str]:
        with duckdb.connect(str(own_copy.home / "cpmi.duckdb"), read_only=True) as connection:
            return {name for (name,) in connection.sql(labelled).fetchall()}

    for shards in (None, [SHARD]):
        assert not run_all(own_copy.limited(3), only=only, shards=shards).failures
        selected = Lake.of(own_copy).read("selection/selected_trajectories", SHARD)
        assert shown() <= {*selected["trajectory_id"]} and selected.height <= 3
        assert shown() == {*query(own_copy, labelled).rows["trajectory_id"]}
        assert what_is_stale(own_copy).pilot == 3
        assert "3 trajectories at most are labelled, and " in describe_pilot(own_copy.limited(3))
    assert not run_all(own_copy, only=only).failures
    assert shown() == {*whole["trajectory_id"]}
    assert Lake.of(own_copy).read(STEP_REWARDS).equals(whole)


def test_stale_shards_are_seen_by_status_and_schedule_and_refused_by_what_is_made_of_all(own_copy):
    changed = own_copy.model_copy(update={"scoring": own_copy.scoring.model_copy(update={"templates": 1})})
    # what is made of all shards waits for stale ones as it does for missing ones
    outcome = run_all(changed, only=("labels", "dataset"), shards=[SHARD])
    assert not outcome.failures and "wait for shards 001 to 003, missing or stale" in outcome.waiting[0]
    states = {asset.key: asset.partitions for asset in home_status(changed)}
    stale = {"000": "done", "001": "stale", "002": "stale", "003": "stale"}
    assert states[LOGPROBS] == states["labels/template_scores"] == states[STEP_REWARDS] == stale
    assert set(states[NEGATIVES].values()) == {"done"} and states["dataset/cpmi_80k"] == {"all": "stale"}
    with open_instance(changed) as instance:
        assert due_shards(instance, changed, States.of(changed, STAGE_BY_TABLE)) == ["001", "002", "003"]
    (failure,) = run_all(changed, only=("dataset/cpmi_80k",)).failures
    assert "labels/step_rewards of shards 001 to 003 is stale" in failure
    assert "scoring.templates: 4, now 1" in failure and "--only labels` first" in failure


@pytest.fixture
def prompts(monkeypatch):
    """Number of prompts that were continued by lines and by answers."""
    counts, generate = {"line": 0, "answer": 0}, TransformersEngine.generate

    def counted(self, asked, draws, work=None):
        counts[draws.stop] += len(asked)
        return generate(self, asked, draws)

    monkeypatch.setattr(TransformersEngine, "generate", counted)
    monkeypatch.setattr(TransformersEngine, "prepare", lambda self: None)  # its prompts are of no label
    return counts


def labelled(home: Path, *types: str) -> tuple[Settings, Lake]:
    """One shard labelled by the stages alone for some reward types; models that nothing asks for are not named."""
    values = SMALL | {"recipes": [], "rewards": {"types": list(types)}}
    demand = load_settings(write_profile(home / "all.yaml", values)).demand
    unasked = {"policy": demand.policy_steps, "prover": demand.prover_steps}
    values["models"] = {role: None for role, steps in unasked.items() if steps == 0}
    values["benchmarks"] = SMALL["benchmarks"] | {"best_of_n": []}
    settings = load_settings(write_profile(home / "mine.yaml", values), home)
    home_ = home_of(settings)
    for stage in (each for each in labels.STAGES if each.table in home_.stages):
        bring_up_to_date(StageRun(stage, home_, SHARD, "run", lambda _: None))
    return settings, home_.lake


KEYS = {
    NEGATIVES: ["trajectory_id", "rank"],
    LOGPROBS: ["trajectory_id", "template", "context", "step_index", "answer_rank"],
    POLICY_ROLLOUTS: ["trajectory_id", "prefix_length", "rollout"],
    PROVER_ROLLOUTS: ["trajectory_id", "prefix_length", "rollout"],
    STEP_REWARDS: ["trajectory_id", "step_index", "reward_type"],
}


def assert_part_of(lake: Lake, whole: Lake, *tables: str) -> None:
    """The rows of a home are those of a home that was asked for everything, but for rounding."""
    for table in tables:
        rows, model_dependent = lake.read(table, SHARD), ["run_id", "model"]
        same = rows.select(KEYS[table]).join(whole.read(table), on=KEYS[table], how="left", maintain_order="left")
        columns = [name for name in rows.columns if name not in model_dependent]
        assert_frame_equal(rows.select(columns), same.select(columns), abs_tol=1e-4, rel_tol=0)
        assert rows.height


def test_only_what_the_reward_types_need_is_computed_and_only_what_is_added_later(finished, own_copy, prompts):
    whole = Lake.of(finished)
    shutil.rmtree(Lake.of(own_copy).root / "labels")
    settings, lake = labelled(own_copy.home, "cpmi")
    assert settings.models.policy is settings.models.prover is None
    assert prompts["answer"] == 0 < prompts["line"]
    assert_part_of(lake, whole, NEGATIVES, LOGPROBS, STEP_REWARDS)
    assert set(lake.read(LOGPROBS)["context"]) == {"question", "step"}
    assert lake.read(POLICY_ROLLOUTS).is_empty() and lake.read(PROVER_ROLLOUTS).is_empty()
    assert lake.read(COSTS)["method"].unique().to_list() == ["cpmi"]
    lines = prompts["line"]
    _, lake = labelled(own_copy.home, "mc_hard")
    assert lake.read(LOGPROBS).is_empty() and lake.read(NEGATIVES).is_empty()
    _, lake = labelled(own_copy.home, "mc_hard", "pav_merge2")
    assert lake.read(PROVER_ROLLOUTS)["prefix_length"].unique().sort().to_list() == [0, 1, 2]
    _, lake = labelled(own_copy.home, "cpmi", "pav", "mc")
    assert_part_of(lake, whole, *KEYS)
    assert lake.read(POLICY_ROLLOUTS)["prefix_length"].min() == 1
    policy, prover = (whole.read(table, SHARD).height for table in (POLICY_ROLLOUTS, PROVER_ROLLOUTS))
    assert lake.read(POLICY_ROLLOUTS).height == policy and lake.read(PROVER_ROLLOUTS).height == prover
    assert prompts == {"line": lines, "answer": policy / 2 + prover}


def test_a_recipe_that_is_added_asks_the_backbone_nothing(own_copy, monkeypatch):
    monkeypatch.setattr(scoring, "step_features", lambda *_: pytest.fail("the backbone was asked"))
    added = Recipe(name="mc_mse", reward_type="mc", objective="mse")
    settings = own_copy.model_copy(update={"recipes": (*own_copy.recipes, added)})
    assert not run_all(settings, only=("models", "benchmarks")).failures
    lake = Lake.of(settings)
    assert lake.read(PROCESSBENCH, "mc_mse").height == lake.read(PROCESSBENCH, "mc_bce").height
    assert lake.read(CHOICES, "mc_mse").height


def test_a_run_ends_with_how_good_each_model_is_on_questions_it_has_not_learned_from(finished):
    lake, recipe = Lake.of(finished), finished.recipes[0]
    scores = lake.read(MODELS, recipe.name).select("scores").explode("scores").unnest("scores")
    assert scores["probability"].is_between(0, 1).all() and scores["label"].null_count() == 0
    questions = dict(lake.read("alignment/trajectories").select("trajectory_id", "question_id").iter_rows())
    soft = lake.read("dataset/soft_labels").filter(reward_type=recipe.reward_type)
    share = recipe.trained_with(finished.training).validation_share
    asked = soft["trajectory_id"].unique().replace_strict(questions)
    held_out = validation_questions(asked, share, finished.seed + recipe.seed)
    assert {questions[name] for name in scores.filter("held_out")["trajectory_id"]} == held_out
    both = scores.join(soft, on=["trajectory_id", "step_index"])
    assert both.height == scores.height and both["label"].to_list() == pytest.approx(both["soft_label"].to_list())
