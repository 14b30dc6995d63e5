"""What Dagster records and shows of a stage."""

from dataclasses import replace
from typing import Any

import dagster as dg
import polars as pl
import pytest
from stage_examples import SHARD, bring, count_selected, rewards, select, with_stages

from cpmi_dagster.contracts.keys import NEGATIVES, REJECTED_TRAJECTORIES, SELECTED, STEP_REWARDS
from cpmi_dagster.errors import ScoringError
from cpmi_dagster.resources.dag.declaration import StageOutput
from cpmi_dagster.resources.dag.stage import Stage, stage
from cpmi_dagster.resources.dag.stage_run import Home, StageRun


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def materialize(declared: Stage, home: Home, instance: dg.DagsterInstance, **options: Any):
    bound = declared.bind(with_stages(home, declared))
    return dg.materialize([bound], instance=instance, partition_key=SHARD, raise_on_error=False, **options)


def test_a_shard_is_one_event_with_the_hash_of_its_rows_as_data_version(home, instance):
    select(home, "t1")
    for _ in ("made", "skipped"):
        result = materialize(count_selected, home, instance)
        [event] = result.asset_materializations_for_node("count_selected")
        assert event.partition == SHARD
        assert event.tags["dagster/data_version"] == home.lake.content(NEGATIVES, SHARD)
    assert event.metadata["skipped"].value == "unchanged"


def test_a_shard_that_fails_says_why_and_is_not_recorded(home, instance):
    @stage(NEGATIVES)
    def fails(run: StageRun) -> StageOutput:
        """Fails."""
        raise ScoringError("trajectory t7 cannot be scored")

    result = materialize(fails, home, instance)
    assert not instance.get_materialized_partitions(dg.AssetKey(NEGATIVES.split("/")))
    failure = result.get_step_failure_events()[0].step_failure_data.user_failure_data
    assert failure and failure.description == "trajectory t7 cannot be scored"


def test_dagster_shows_schema_lineage_rows_and_preview(home, instance):
    select(home, "t1")
    result = materialize(count_selected, home, instance)
    metadata = result.asset_materializations_for_node("count_selected")[-1].metadata
    assert metadata["dagster/row_count"].value == 1
    assert "| t1 | 1 | 3 | model |" in str(metadata["preview"].value)
    lineage = metadata["dagster/column_lineage"].value.deps_by_column
    assert lineage["trajectory_id"][0].asset_key == dg.AssetKey(SELECTED.split("/"))
    [spec] = count_selected.bind(home).specs
    columns = {column.name: column for column in spec.metadata["dagster/column_schema"].columns}
    assert columns["rank"].type == "Int64"
    assert {"run_id", "model", "code_version"} <= set(columns)


def test_both_tables_of_a_stage_are_recorded(home, instance):
    @stage(STEP_REWARDS, also=[REJECTED_TRAJECTORIES])
    def makes_two(run: StageRun) -> StageOutput:
        """Two tables."""
        rejected = pl.DataFrame({"trajectory_id": ["t1"], "stage": ["scoring"], "reason": ["too long"]})
        return StageOutput({STEP_REWARDS: rewards("t2"), REJECTED_TRAJECTORIES: rejected})

    assert materialize(makes_two, home, instance).success
    keys = [dg.AssetKey(key.split("/")) for key in makes_two.tables]
    assert [instance.get_materialized_partitions(key) for key in keys] == [{SHARD}, {SHARD}]


def test_a_backfill_starts_a_run_for_each_shard(home):
    assert count_selected.bind(home).backfill_policy == dg.BackfillPolicy.multi_run(1)


def test_what_is_made_of_the_same_rows_has_the_same_data_version(home, instance):
    select(home, "t1")
    bring(home, count_selected)
    before = home.lake.content(NEGATIVES, SHARD)
    result = materialize(replace(count_selected, code_version="2"), home, instance)
    [event] = result.asset_materializations_for_node("count_selected")
    assert "skipped" not in event.metadata and event.tags["dagster/data_version"] == before
