"""The DAG from end to end on a small part of the embedded world."""

import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime

import dagster as dg
import duckdb
import polars as pl
import pytest
from small_run import run_all

from cpmi_dagster.contracts.report_tables import ARTIFACT_NAMES
from cpmi_dagster.contracts.tables import TABLES, provenance_of
from cpmi_dagster.definitions import build_definitions
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag.automation import LABEL_TABLES, SHARDS_TAG
from cpmi_dagster.resources.dag.dagster_home import open_instance
from cpmi_dagster.resources.lake.database import Database
from cpmi_dagster.resources.lake.lake import Lake

pytestmark = pytest.mark.slow

LOGPROBS, SHARD = "labels/answer_logprobs", "000"
# `cpmi run` of the labels in a process that nobody can stop later: it dies once the first chunk of scores is saved
KILLED_AFTER_A_CHUNK = """
import os, signal, sys
from cpmi_dagster.cli.commands import main
from cpmi_dagster.resources.lake.chunk_store import ChunkStore

save = ChunkStore.save

def save_and_die(store, chunk, frames, facts):
    save(store, chunk, frames, facts)
    if store.folder.parent.name == "answer_logprobs":
        os.kill(os.getpid(), signal.SIGKILL)

ChunkStore.save = save_and_die
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
            stored = pl.read_parquet(lake.paths(key, partition)[0], columns=names)
            record = lake.record(key, partition)
            assert record is not None
            assert stored.unique().rows() in ([], [tuple(getattr(record, name) for name in names)])


def test_the_report_shows_every_artifact_and_fetches_nothing(finished):
    page = (finished.home / "report" / "index.html").read_text(encoding="utf-8")
    assert "miniature:labeler@" in page
    assert 'src="http' not in page
    assert page.count('<details class="artifact"') == len(ARTIFACT_NAMES)


def lake_times(settings) -> dict[str, int]:
    """When each file of the lake was written."""
    root = settings.home / "lake"
    return {str(path.relative_to(root)): path.stat().st_mtime_ns for path in root.glob("**/*.parquet")}


def test_a_second_run_computes_nothing_and_a_moved_home_is_published_anew(own_copy):
    as_made = lake_times(own_copy)
    assert not run_all(own_copy).failures
    moved = lake_times(own_copy)
    made = {key for key in moved if moved[key] != as_made.get(key)}
    assert {key.partition("/all/")[0] for key in made} == {"reports/results_database"}
    with duckdb.connect(str(own_copy.home / "cpmi.duckdb"), read_only=True) as connection:
        views = connection.sql("select sql from duckdb_views() where not internal").pl()["sql"]
    assert views.str.contains(str(own_copy.home), literal=True).any()
    assert not run_all(own_copy).failures
    assert lake_times(own_copy) == moved


def test_a_deleted_shard_is_made_again_with_the_same_rows(own_copy):
    lake = Lake.of(own_copy)
    before = lake.read("labels/answer_logprobs", "001")
    lake.paths("labels/answer_logprobs", "001")[0].unlink()
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
            definitions = build_definitions(settings)
            context = dg.build_schedule_context(
                instance=instance,
                scheduled_execution_time=datetime(2026, 1, 1, tzinfo=UTC),
                repository_def=definitions.get_repository_def(),
                resources={"lake": Lake.of(settings)},
            )
            return definitions.resolve_schedule_def("missing_or_failed_shards").evaluate_tick(context)

        yield evaluate


def test_the_schedule_asks_for_deleted_shards_and_no_others(own_copy, tick):
    lake = Lake.of(own_copy)
    assert "every shard is labelled" in (tick(own_copy).skip_message or "")
    for shard in ("001", "003"):
        lake.paths("labels/step_rewards", shard)[0].unlink()
    assert [request.partition_key for request in tick(own_copy).run_requests or []] == ["001", "003"]


def test_the_schedule_asks_for_no_more_than_a_tick_allows(own_copy, tick):
    shutil.rmtree(Lake.of(own_copy).root / "labels")
    orchestration = own_copy.orchestration.model_copy(update={"shards_per_tick": 3})
    limited = own_copy.model_copy(update={"orchestration": orchestration})
    (request,) = tick(limited).run_requests or []
    assert request.tags[SHARDS_TAG] == "000-002"


def test_a_killed_run_resumes_and_ends_with_the_tables_of_an_undisturbed_one(own_copy, small_profile):
    lake = Lake.of(own_copy)
    undisturbed = {key: lake.read(key, SHARD) for key in LABEL_TABLES}
    shutil.rmtree(lake.root / "labels")
    environment = {"PATH": "/usr/bin:/bin", "CPMI_HOME": str(own_copy.home)}
    killed = subprocess.run([sys.executable, "-c", KILLED_AFTER_A_CHUNK, small_profile], env=environment)
    assert killed.returncode == -signal.SIGKILL
    chunks = lake.root / ".work" / "labels" / "answer_logprobs"
    finished_chunks = [path.read_bytes() for path in chunks.glob("*/*.parquet")]
    assert finished_chunks
    settings = load_settings(small_profile, own_copy.home)
    assert not run_all(settings, only=("labels",), shards=[SHARD]).failures
    measured = {"labels/labeling_costs": ["wall_seconds"]}
    for key, before in undisturbed.items():
        drop = measured.get(key, [])
        assert lake.read(key, SHARD).drop(drop).equals(before.drop(drop)), key


def test_a_reader_holding_the_database_does_not_stop_labeling(own_copy):
    lake = Lake.of(own_copy)
    shutil.rmtree(lake.root / "labels" / "template_scores")
    Database(lake, own_copy).publish()
    with duckdb.connect(str(own_copy.home / "cpmi.duckdb"), read_only=True) as reader:
        assert not run_all(own_copy, only=("labels",)).failures
        assert reader.sql("select count(*) from labels.step_rewards").fetchall()[0][0] > 0
    assert Database(lake, own_copy).row_counts().filter(relation='labels."template_scores"')["rows"][0] > 0


def test_a_conditioning_asked_for_later_adds_its_contexts_and_keeps_every_other_row(own_copy):
    lake = Lake.of(own_copy)
    before, cost, files = lake.read(LOGPROBS), lake.record(LOGPROBS, "000").cost, lake.entry(LOGPROBS, "000")
    conditionings = (*own_copy.scoring.conditionings, "leave_one_out")
    asked = own_copy.model_copy(
        update={"scoring": own_copy.scoring.model_copy(update={"conditionings": conditionings})}
    )
    assert not run_all(asked, only=(LOGPROBS,)).failures
    lake = Lake.of(asked)
    after = lake.read(LOGPROBS)
    assert set(after["context"]) == {*before["context"], "all_but"}
    assert after.filter(pl.col("context") != "all_but").equals(before)
    assert lake.record(LOGPROBS, "000").cost["forward_tokens"] > cost["forward_tokens"]
    assert not run_all(own_copy, only=(LOGPROBS,)).failures
    assert Lake.of(own_copy).entry(LOGPROBS, "000") == files
