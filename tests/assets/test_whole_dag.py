"""The DAG from end to end on a small part of the embedded world."""

import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import duckdb
import polars as pl
import pytest
from small_run import run_all

from cpmi_dagster import definitions
from cpmi_dagster.contracts.report_tables import ARTIFACT_NAMES
from cpmi_dagster.contracts.tables import TABLES, provenance_of
from cpmi_dagster.definitions import MAKERS, build_definitions, home_of
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.dag.automation import LABEL_TABLES, SHARDS_TAG
from cpmi_dagster.resources.dag.dagster_home import open_instance
from cpmi_dagster.resources.lake import kept_answers
from cpmi_dagster.resources.lake.calls import CALLS
from cpmi_dagster.resources.lake.database import publish
from cpmi_dagster.resources.lake.lake import EARLIER, Lake

pytestmark = pytest.mark.slow

LOGPROBS, NEGATIVES, REWARDS = "labels/answer_logprobs", "labels/hard_negatives", "labels/step_rewards"
SHARD = "000"
# `cpmi run` of the labels in a process that nobody can stop later: it dies once the first chunk of scores is kept
KILLED_AFTER_A_CHUNK = """
import os, signal, sys
from cpmi_dagster.cli.commands import main
from cpmi_dagster.resources.lake.calls import Calls

keep = Calls._keep

def keep_and_die(calls, *answers):
    keep(calls, *answers)
    if calls.folder.name == "answer_logprobs" and "logprob_sum" in calls.answer:
        os.kill(os.getpid(), signal.SIGKILL)

Calls._keep = keep_and_die
sys.argv = ["cpmi", "run", "-p", sys.argv[1], "--only", "labels", "--shards", "0", "--quiet"]
main()
"""
MAY_BE_EMPTY = {
    "labels/rejected_trajectories",
    "sources/questions",
    "sources/sampled_solutions",
    "sources/step_labels",
    "benchmarks/judge_predictions",
}


def test_every_relation_has_rows_and_opens_from_plain_duckdb(finished):
    with duckdb.connect(str(finished.home / "cpmi.duckdb"), read_only=True) as connection:
        counts = {
            key: connection.sql(f'select count(*) from {table.group}."{table.name}"').fetchall()[0][0]
            for key, table in TABLES.items()
        }
        artifacts = connection.sql("select count(distinct artifact) from reports.paper_comparison").fetchall()[0][0]
    assert {key for key, count in counts.items() if not count} <= MAY_BE_EMPTY
    assert artifacts == len(ARTIFACT_NAMES)


def test_every_source_row_is_kept_or_rejected_with_a_reason(finished):
    lake = Lake.of(finished)
    source = lake.read("sources/math_shepherd")["row_number"].sort()
    rejected = lake.read("alignment/rejected_rows")
    kept = lake.read("alignment/trajectories")["row_number"]
    assert pl.concat([kept, rejected["row_number"]]).sort().equals(source)
    assert rejected.height == 4
    assert rejected["reason"].str.len_chars().min() > 10


def test_every_row_can_be_traced_to_its_run_and_code(finished):
    lake = Lake.of(finished)
    for key in TABLES:
        for partition in lake.partitions(key) if TABLES[key].partitioning else [None]:
            names = list(provenance_of(TABLES[key]))
            stored = pl.read_parquet(lake.path(key, partition), columns=names)
            record = lake.record(key, partition)
            assert record is not None
            assert stored.unique().rows() in ([], [tuple(getattr(record, name) for name in names)])


def test_the_report_shows_every_artifact_and_fetches_nothing(finished):
    page = (finished.home / "report" / "index.html").read_text(encoding="utf-8")
    assert "miniature:labeler@" in page
    assert 'src="http' not in page
    assert page.count('<details class="artifact"') == len(ARTIFACT_NAMES)


def lake_times(settings) -> dict[str, int]:
    """When each file of the lake was written, but for what stood there before."""
    root = settings.home / "lake"
    paths = (path for path in root.glob("**/*.parquet") if EARLIER not in path.parts)
    return {str(path.relative_to(root)): path.stat().st_mtime_ns for path in paths}


def test_a_second_run_makes_nothing_and_a_moved_home_is_published_anew(own_copy):
    as_made = lake_times(own_copy)
    assert not run_all(own_copy).failures
    assert lake_times(own_copy) == as_made
    with duckdb.connect(str(own_copy.home / "cpmi.duckdb"), read_only=True) as connection:
        views = connection.sql("select sql from duckdb_views() where not internal").pl()["sql"]
    assert views.str.contains(str(own_copy.home), literal=True).any()


def tables_made_by(settings: Settings, **options) -> set[str]:
    """The tables of which a run writes files."""
    before = lake_times(settings)
    assert not run_all(settings, **options).failures
    after = lake_times(settings)
    return {str(Path(name).parent) for name, time in after.items() if before.get(name) != time}


def test_a_changed_setting_makes_exactly_what_follows_from_it_again(own_copy):
    rewards = own_copy.rewards.model_copy(update={"alpha": 0.3})
    changed = own_copy.model_copy(update={"rewards": rewards})
    only = ("sources", "alignment", "selection", "labels", "dataset")
    made = tables_made_by(changed, only=only)
    assert made == {REWARDS, "dataset/soft_labels", "dataset/cpmi_80k"}
    assert tables_made_by(changed, only=only) == set()


def test_code_that_gives_equal_rows_makes_nothing_after_them_again(own_copy, monkeypatch):
    aligning = MAKERS["alignment/trajectories"]
    edited = replace(aligning, code_version=f"{aligning.code_version} edited")
    for table in aligning.tables:
        monkeypatch.setitem(MAKERS, table, edited)
    monkeypatch.setattr(definitions, "STAGES", [edited if stage is aligning else stage for stage in definitions.STAGES])
    only = ("alignment", "selection", "labels", "dataset")
    assert tables_made_by(own_copy, only=only) == {*aligning.tables}


def test_a_deleted_shard_is_made_again_with_the_same_rows(own_copy):
    lake = Lake.of(own_copy)
    before = lake.read("labels/answer_logprobs", "001")
    lake.path("labels/answer_logprobs", "001").unlink()
    assert not run_all(own_copy, only=("labels",)).failures
    assert lake.read("labels/answer_logprobs", "001").equals(before)


def test_a_subset_of_shards_is_labelled_and_the_data_set_waits(own_copy):
    lake = Lake.of(own_copy)
    shutil.rmtree(lake.root / "labels")
    outcome = run_all(own_copy, shards=["002"])
    assert lake.partitions("labels/step_rewards") == ["002"]
    assert "wait for shards 000, 001, 003" in outcome.waiting[0]


@pytest.fixture
def tick(own_copy):
    """Evaluates one tick of the schedule under a profile."""
    with open_instance(own_copy) as instance:

        def evaluate(settings):
            built = build_definitions(home_of(settings))
            context = dg.build_schedule_context(
                instance=instance,
                scheduled_execution_time=datetime(2026, 1, 1, tzinfo=UTC),
                repository_def=built.get_repository_def(),
            )
            return built.resolve_schedule_def("missing_or_failed_shards").evaluate_tick(context)

        yield evaluate


def test_the_schedule_asks_for_deleted_shards_and_no_others(own_copy, tick):
    lake = Lake.of(own_copy)
    assert "every shard is labelled" in (tick(own_copy).skip_message or "")
    for shard in ("001", "003"):
        lake.path("labels/step_rewards", shard).unlink()
    assert [request.partition_key for request in tick(own_copy).run_requests or []] == ["001", "003"]


def test_the_schedule_asks_for_no_more_than_a_tick_allows(own_copy, tick):
    shutil.rmtree(Lake.of(own_copy).root / "labels")
    orchestration = own_copy.orchestration.model_copy(update={"shards_per_tick": 3})
    limited = own_copy.model_copy(update={"orchestration": orchestration})
    assert [request.tags[SHARDS_TAG] for request in tick(limited).run_requests or []] == ["000", "001", "002"]


def test_a_killed_run_resumes_and_ends_with_the_tables_of_an_undisturbed_one(own_copy, small_profile):
    lake = Lake.of(own_copy)
    undisturbed = {key: lake.read(key, SHARD) for key in LABEL_TABLES}
    shutil.rmtree(lake.root / "labels")
    environment = {"PATH": "/usr/bin:/bin", "CPMI_HOME": str(own_copy.home)}
    killed = subprocess.run([sys.executable, "-c", KILLED_AFTER_A_CHUNK, small_profile], env=environment)
    assert killed.returncode == -signal.SIGKILL
    kept = {path: path.read_bytes() for path in (lake.root / LOGPROBS / CALLS).glob("**/*.parquet")}
    assert kept and not lake.has(LOGPROBS, SHARD)
    settings = load_settings(small_profile, own_copy.home)
    assert not run_all(settings, only=("labels",), shards=[SHARD]).failures
    assert all(path.read_bytes() == answers for path, answers in kept.items())
    answers = [pl.read_parquet(path) for path in (lake.root / LOGPROBS / CALLS).glob("**/*.parquet")]
    scores = pl.concat(frame for frame in answers if "logprob_sum" in frame.columns)
    assert not scores.select("prompt", "answer").is_duplicated().any(), "a question was asked twice"
    measured = {"labels/labeling_costs": ["wall_seconds"]}
    for key, before in undisturbed.items():
        drop = measured.get(key, [])
        assert lake.read(key, SHARD).drop(drop).equals(before.drop(drop)), key


def test_a_reader_holding_the_database_does_not_stop_labeling(own_copy):
    lake = Lake.of(own_copy)
    shutil.rmtree(lake.root / "labels" / "template_scores")
    publish(lake, own_copy)
    with duckdb.connect(str(own_copy.home / "cpmi.duckdb"), read_only=True) as reader:
        assert not run_all(own_copy, only=("labels",)).failures
        assert reader.sql("select count(*) from labels.step_rewards").fetchall()[0][0] > 0
    assert lake.read("labels/template_scores").height > 0


def test_a_conditioning_asked_for_later_adds_its_contexts_and_keeps_every_other_row(own_copy, scored):
    lake = Lake.of(own_copy)
    before, cost = lake.read(LOGPROBS, SHARD), lake.record(LOGPROBS, SHARD).cost
    conditionings = (*own_copy.scoring.conditionings, "leave_one_out")
    scoring = own_copy.scoring.model_copy(update={"conditionings": conditionings})
    asked = own_copy.model_copy(update={"scoring": scoring})
    assert not run_all(asked, only=(LOGPROBS,), shards=[SHARD]).failures
    after = lake.read(LOGPROBS, SHARD)
    assert set(after["context"]) == {*before["context"], "all_but"}
    assert after.filter(pl.col("context") != "all_but").equals(before)
    assert {context for context, _ in scored} == {"all_but"}
    assert lake.record(LOGPROBS, SHARD).cost["forward_tokens"] > cost["forward_tokens"]
    scored.clear()
    assert not run_all(own_copy, only=(LOGPROBS,), shards=[SHARD]).failures
    assert not scored
    assert lake.read(LOGPROBS, SHARD).equals(before) and lake.record(LOGPROBS, SHARD).cost == pytest.approx(cost)


def test_two_templates_then_four_then_two_ask_the_labeler_for_each_once(own_copy, scored):
    lake = Lake.of(own_copy)
    shutil.rmtree(lake.root / "labels")
    few, many = (
        own_copy.model_copy(update={"scoring": own_copy.scoring.model_copy(update={"templates": count})})
        for count in (2, 4)
    )
    tables, asked = [], []
    for settings in (few, many, few, many):
        scored.clear()
        assert not run_all(settings, only=(NEGATIVES, LOGPROBS), shards=[SHARD]).failures
        tables.append(lake.read(LOGPROBS, SHARD))
        asked.append({template for _, template in scored})
    assert asked == [{0, 1}, {2, 3}, set(), set()]
    assert tables[0].equals(tables[2]) and tables[1].equals(tables[3])
    assert tables[1].filter(pl.col("template") < 2).equals(tables[0])


@pytest.fixture
def scored(monkeypatch) -> set[tuple[str, int]]:
    """Context and template of everything that the labeler is asked for."""
    found: set[tuple[str, int]] = set()

    def counted(*arguments, wanted, **options):
        scores = answer_logprobs(*arguments, wanted=wanted, **options)
        found.update(scores.logprobs.select("context", "template").unique().iter_rows())
        return scores

    answer_logprobs = kept_answers.answer_logprobs
    monkeypatch.setattr(kept_answers, "answer_logprobs", counted)
    return found
