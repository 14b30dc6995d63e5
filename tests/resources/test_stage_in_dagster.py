"""What Dagster records and shows of a stage."""

from dataclasses import replace

import dagster as dg
import pytest
from stage_examples import SHARD, count_selected, select, with_stages

from cpmi_dagster.contracts.keys import NEGATIVES, SELECTED
from cpmi_dagster.errors import ScoringError
from cpmi_dagster.resources.dag.declaration import StageOutput
from cpmi_dagster.resources.dag.stage import Stage, stage
from cpmi_dagster.resources.dag.stage_run import Home, StageRun


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def materialize(declared: Stage, home: Home, instance: dg.DagsterInstance):
    bound = declared.bind(with_stages(home, declared))
    return dg.materialize([bound], instance=instance, partition_key=SHARD, raise_on_error=False)


def test_equal_rows_have_the_same_data_version_whether_they_were_made_again_or_not(home, instance):
    select(home, "t1")
    versions, skipped = set(), []
    for declared in (count_selected, count_selected, replace(count_selected, code_version="2")):
        result = materialize(declared, home, instance)
        [event] = result.asset_materializations_for_node("count_selected")
        assert event.partition == SHARD
        versions.add(event.tags["dagster/data_version"])
        skipped.append("skipped" in event.metadata)
    assert versions == {home.lake.content(NEGATIVES, SHARD)} and skipped == [False, True, False]


def test_a_shard_that_fails_says_why_and_is_not_recorded(home, instance):
    @stage(NEGATIVES)
    def fails(run: StageRun) -> StageOutput:
        """Fails."""
        raise ScoringError("trajectory t7 cannot be scored")

    result = materialize(fails, home, instance)
    assert not instance.get_materialized_partitions(dg.AssetKey(NEGATIVES.split("/")))
    failure = result.get_step_failure_events()[0].step_failure_data.user_failure_data
    assert failure and failure.description == "trajectory t7 cannot be scored"


def test_dagster_shows_schema_lineage_rows_and_preview_and_backfills_a_run_a_shard(home, instance):
    select(home, "t1")
    result = materialize(count_selected, home, instance)
    metadata = result.asset_materializations_for_node("count_selected")[-1].metadata
    assert metadata["dagster/row_count"].value == 1
    assert "| t1 | 1 | 3 | model |" in str(metadata["preview"].value)
    lineage = metadata["dagster/column_lineage"].value.deps_by_column
    assert lineage["trajectory_id"][0].asset_key == dg.AssetKey(SELECTED.split("/"))
    bound = count_selected.bind(home)
    [spec] = bound.specs
    columns = {column.name: column for column in spec.metadata["dagster/column_schema"].columns}
    assert columns["rank"].type == "Int64" and {"run_id", "model", "code_version"} <= set(columns)
    assert bound.backfill_policy == dg.BackfillPolicy.multi_run(1)
