"""Dagster's own staleness agrees with the lake: exactly the shard of a changed row, and all that follows a setting."""

import json

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest
from small_run import run_all

from cpmi_dagster.definitions import MAKERS, build_definitions
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.dag.dagster_home import open_instance
from cpmi_dagster.resources.dag.presentation import ON_CHANGED_ROWS
from cpmi_dagster.resources.dag.spec_version import spec_version
from cpmi_dagster.resources.sources.data_sources import DataSources

SOURCE, ALIGNED, SELECTED = "sources/math_shepherd", "alignment/trajectories", "selection/selected_trajectories"
MODELS = "models/process_reward_models"
INGEST = ("sources", "alignment", "selection")


@pytest.fixture
def rows(tmp_path, monkeypatch) -> list[dict]:
    """Rows of the embedded world, written to the file that the profile reads."""
    settings = load_settings("miniature", tmp_path / "world")
    read = DataSources(settings).stream_all(settings.sources.trajectories)
    rows = [row for (row, _), _ in zip(read, range(40), strict=False)]
    monkeypatch.setenv("CPMI_SOURCES__MATH_SHEPHERD", json.dumps({"path": str(tmp_path / "rows.jsonl")}))
    return rows


def write(tmp_path, rows: list[dict]) -> Settings:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return load_settings("miniature", tmp_path / "home")


def stale(settings: Settings) -> set[str]:
    """Partitions of the three tables that Dagster shows as stale."""
    graph = build_definitions(settings).resolve_asset_graph()
    keys = [(table, shard) for table in (SOURCE, ALIGNED) for shard in settings.shard_keys] + [(SELECTED, None)]
    with open_instance(settings) as instance:
        resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
        states = {key: resolver.get_status(dg.AssetKey(key[0].split("/")), key[1]).value for key in keys}
    assert "MISSING" not in states.values()
    return {f"{table} {shard or ''}".strip() for (table, shard), state in states.items() if state == "STALE"}


def test_a_changed_row_makes_its_shard_stale_and_running_makes_it_current(tmp_path, rows):
    settings = write(tmp_path, rows)
    run_all(settings, only=INGEST)
    assert not stale(settings)
    rows[3] = {**rows[3], "input": rows[3]["input"].replace("Step 1:", "Step 1: So")}
    rows[3]["label"] = rows[3]["label"].replace("Step 1:", "Step 1: So")
    write(tmp_path, rows)
    assert stale(settings) == {f"{SOURCE} {shard}" for shard in settings.shard_keys}
    run_all(settings, only=(SOURCE,))
    [changed] = stale(settings)
    assert changed.startswith(ALIGNED)
    run_all(settings, only=(ALIGNED,))
    assert stale(settings) == {SELECTED}
    run_all(settings, only=INGEST)
    assert not stale(settings)


def test_a_setting_changes_the_version_of_its_stage_and_of_all_that_follow(tmp_path):
    settings = load_settings("miniature", tmp_path)
    scoring = settings.scoring.model_copy(update={"templates": settings.scoring.templates - 1})
    changed = settings.model_copy(update={"scoring": scoring})
    differing = {
        key
        for key, stage in MAKERS.items()
        if spec_version(stage, settings, MAKERS) != spec_version(stage, changed, MAKERS)
    }
    assert {"labels/answer_logprobs", "labels/step_rewards", "dataset/cpmi_80k", "reports/report"} <= differing
    assert not differing & {SOURCE, ALIGNED, SELECTED, "labels/hard_negatives", "labels/policy_rollouts"}


def test_another_recipe_or_training_changes_the_version_of_models(tmp_path):
    settings = load_settings("miniature", tmp_path)
    training = settings.training.model_copy(update={"learning_rate": 0.5})
    changed = [
        settings.model_copy(update={"training": training}),
        settings.model_copy(update={"recipes": settings.recipes[:1]}),
    ]
    versions = {spec_version(MAKERS[MODELS], one, MAKERS) for one in (settings, *changed)}
    assert len(versions) == 3


def test_a_missing_benchmark_file_does_not_keep_the_graph_from_being_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("CPMI_SOURCES__BENCHMARKS", json.dumps({"logicnli": {"path": str(tmp_path / "gone.json")}}))
    settings = load_settings("miniature", tmp_path / "home")
    build_definitions(settings)
    (failure,) = run_all(settings, only=("sources/benchmark_problems",)).failures
    assert "gone.json" in failure


def test_the_version_of_a_source_changes_with_its_file(tmp_path, rows):
    settings = write(tmp_path, rows)
    before = spec_version(MAKERS[SOURCE], settings, MAKERS), spec_version(MAKERS[ALIGNED], settings, MAKERS)
    write(tmp_path, rows[1:])
    assert spec_version(MAKERS[SOURCE], settings, MAKERS) != before[0]
    assert spec_version(MAKERS[ALIGNED], settings, MAKERS) == before[1]


def test_what_follows_runs_by_itself_after_changed_rows_and_not_after_a_skip(tmp_path):
    versions = iter(["one", "two", "two", "three"])

    @dg.asset
    def made(context: dg.AssetExecutionContext):
        return dg.MaterializeResult(data_version=dg.DataVersion(next(versions)))

    @dg.asset(deps=[made], automation_condition=ON_CHANGED_ROWS)
    def follows() -> None: ...

    requested, cursor = [], None
    with dg.DagsterInstance.ephemeral() as instance:
        dg.materialize([made, follows], instance=instance)
        for _ in range(4):
            result = dg.evaluate_automation_conditions([made, follows], instance, cursor=cursor)
            cursor = result.cursor
            requested.append(result.total_requested)
            if result.total_requested:
                dg.materialize([made, follows], instance=instance, selection=[follows])
            if len(requested) < 4:
                dg.materialize([made, follows], instance=instance, selection=[made])
    assert requested == [0, 1, 0, 1]
