"""What Dagster shows as stale: what was made of other rows, and the stages that have a changed setting."""

import json

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest
from small_run import run_all

from cpmi_dagster.definitions import build_definitions, home_of
from cpmi_dagster.errors import SourceError
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.dag.asset_keys import asset_key
from cpmi_dagster.resources.dag.dagster_home import open_instance
from cpmi_dagster.resources.dag.presentation import ON_CHANGED_ROWS
from cpmi_dagster.resources.sources.data_sources import DataSources

SOURCE, ALIGNED, SELECTED = "sources/math_shepherd", "alignment/trajectories", "selection/selected_trajectories"
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


def stale(settings: Settings, *tables: str) -> set[str]:
    """The tables, or shards of them, that Dagster shows as stale."""
    definitions = build_definitions(home_of(settings))
    graph = definitions.resolve_asset_graph()
    keys = [(table, shard) for table in tables for shard in shards_of(graph, table)]
    with open_instance(settings) as instance:
        resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
        states = {key: resolver.get_status(asset_key(key[0]), key[1]).value for key in keys}
    assert "MISSING" not in states.values()
    return {f"{table} {shard or ''}".strip() for (table, shard), state in states.items() if state == "STALE"}


def shards_of(graph, table: str) -> list[str | None]:
    partitions = graph.get(asset_key(table)).partitions_def
    return [None] if partitions is None else partitions.get_partition_keys()


def test_a_changed_row_makes_what_is_made_of_it_stale_and_running_makes_it_current(tmp_path, rows):
    settings = write(tmp_path, rows)
    run_all(settings, only=INGEST)
    assert not stale(settings, SOURCE, ALIGNED, SELECTED)
    rows[3] = {**rows[3], "input": rows[3]["input"].replace("Step 1:", "Step 1: So")}
    rows[3]["label"] = rows[3]["label"].replace("Step 1:", "Step 1: So")
    write(tmp_path, rows)
    run_all(settings, only=(SOURCE,))
    assert stale(settings, SOURCE, ALIGNED) == {f"{ALIGNED} {shard}" for shard in settings.shard_keys}
    run_all(settings, only=(ALIGNED,))
    assert stale(settings, SOURCE, ALIGNED, SELECTED) == {SELECTED}
    run_all(settings, only=INGEST)
    assert not stale(settings, SOURCE, ALIGNED, SELECTED)


def test_a_setting_makes_the_stages_stale_that_have_it(tmp_path, rows):
    settings = write(tmp_path, rows)
    run_all(settings, only=INGEST)
    selection = settings.selection.model_copy(update={"trajectories": settings.selection.trajectories - 1})
    assert stale(settings.model_copy(update={"selection": selection}), SOURCE, ALIGNED, SELECTED) == {SELECTED}


def test_a_missing_benchmark_file_does_not_keep_the_graph_from_being_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("CPMI_SOURCES__BENCHMARKS", json.dumps({"logicnli": {"path": str(tmp_path / "gone.json")}}))
    settings = load_settings("miniature", tmp_path / "home")
    build_definitions(home_of(settings))
    with pytest.raises(SourceError, match=r"gone\.json"):
        run_all(settings, only=("sources/benchmark_problems",))


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
