"""What Dagster records and shows of a stage."""

import dagster as dg
import polars as pl
from stage_examples import NEGATIVES, REJECTED, SCORES, counting_stage, rewards, select

from cpmi_dagster.contracts.keys import SELECTED
from cpmi_dagster.errors import ScoringError
from cpmi_dagster.resources.dag.stage import Stage, stage
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.workers.chunks import StageOutput


def materialize(declared: Stage, run: StageRun, instance: dg.DagsterInstance, **options: object):
    return dg.materialize(
        [declared.bind(run.settings, {})],
        instance=instance,
        resources={
            "settings": run.settings,
            "lake": run.lake,
            "models": run.models,
            "sources": run.sources,
            "database": run.database,
            "progress": run.progress,
        },
        raise_on_error=False,
        **options,
    )


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    failure = result.get_step_failure_events()[0].step_failure_data.user_failure_data
    return failure.description if failure and failure.description else ""


def test_a_shard_is_one_event_with_the_hash_of_its_rows_as_data_version(run_of):
    declared = counting_stage([])
    run = run_of(declared)
    select(run, {"t1": "000"})
    with dg.DagsterInstance.ephemeral() as instance:
        for _ in ("made", "skipped"):
            result = materialize(declared, run, instance, partition_key="000")
            [event] = result.asset_materializations_for_node("make")
            record = run.lake.record(NEGATIVES, "000")
            assert record and event.partition == "000"
            assert event.tags["dagster/data_version"] == record.content
    assert "skipped" in event.metadata


def test_a_shard_that_fails_says_why_and_is_not_reported(run_of):
    @stage(NEGATIVES)
    def fails(run: StageRun, shard: str) -> StageOutput:
        """Fails."""
        raise ScoringError("trajectory t7 cannot be scored")

    run = run_of(fails)
    with dg.DagsterInstance.ephemeral() as instance:
        result = materialize(fails, run, instance, partition_key="000")
        assert not instance.get_materialized_partitions(dg.AssetKey(NEGATIVES.split("/")))
    assert failure_of(result) == "trajectory t7 cannot be scored"


def test_a_run_over_a_range_of_shards_is_refused(run_of):
    declared = counting_stage([])
    tags = {"dagster/asset_partition_range_start": "000", "dagster/asset_partition_range_end": "001"}
    with dg.DagsterInstance.ephemeral() as instance:
        result = materialize(declared, run_of(declared), instance, tags=tags)
    assert "one run per partition" in failure_of(result)


def test_dagster_shows_schema_lineage_rows_and_preview(run_of):
    declared = counting_stage([])
    run = run_of(declared)
    select(run, {"t1": "000"})
    with dg.DagsterInstance.ephemeral() as instance:
        result = materialize(declared, run, instance, partition_key="000")
    metadata = result.asset_materializations_for_node("make")[-1].metadata
    assert metadata["dagster/row_count"].value == 1
    assert "| t1 | 1 | 3 | model |" in str(metadata["preview"].value)
    lineage = metadata["dagster/column_lineage"].value.deps_by_column
    assert lineage["trajectory_id"][0].asset_key == dg.AssetKey(SELECTED.split("/"))
    spec = next(iter(declared.bind(run.settings, {}).specs))
    columns = {column.name: column for column in spec.metadata["dagster/column_schema"].columns}
    assert columns["rank"].type == "Int64"
    assert {"run_id", "model", "code_version"} <= set(columns)


def test_one_table_of_two_can_be_asked_for_and_both_are_recorded(run_of):
    @stage(SCORES, also=[REJECTED])
    def makes_two(run: StageRun, shard: str) -> StageOutput:
        """Two tables."""
        rejected = pl.DataFrame({"trajectory_id": ["t1"], "stage": ["scoring"], "reason": ["too long"]})
        return StageOutput({SCORES: rewards("t2"), REJECTED: rejected})

    run, keys = run_of(makes_two), [dg.AssetKey(key.split("/")) for key in (SCORES, REJECTED)]
    with dg.DagsterInstance.ephemeral() as instance:
        assert materialize(makes_two, run, instance, partition_key="000", selection=[keys[0]]).success
        assert [instance.get_materialized_partitions(key) for key in keys] == [{"000"}, {"000"}]
