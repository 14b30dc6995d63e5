"""Which shards a run was started for, and how many runs of each shard failed since its labels were last made."""

from collections.abc import Sequence
from datetime import UTC, datetime

import dagster as dg

from cpmi_dagster.contracts.keys import STEP_REWARDS
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.asset_keys import asset_key
from cpmi_dagster.resources.dag.automation import LABEL_TABLES

PARTITION_TAG = "dagster/partition"
FIRST_TAG, LAST_TAG = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
MOST_RUNS = 5_000


def shards_of(run: dg.DagsterRun, settings: Settings) -> list[str]:
    """The shards that a run was started for; none for a run that is not of shards."""
    first, last = (run.tags.get(tag, run.tags.get(PARTITION_TAG, "")) for tag in (FIRST_TAG, LAST_TAG))
    return [shard for shard in settings.shard_keys if first <= shard <= last]


def failures_of(instance: dg.DagsterInstance, settings: Settings, shards: Sequence[str], job: str) -> dict[str, int]:
    """Failed labeling runs of each shard since its labels were last made; a run and its restarts count as one.

    Args:
        job: the labeling job; runs of its assets count however they were started.
    """
    since = {shard: _made_at(instance, shard) for shard in shards}
    earliest = min(since.values(), default=0.0)
    failed = dg.RunsFilter(
        statuses=[dg.DagsterRunStatus.FAILURE],
        created_after=datetime.fromtimestamp(earliest, UTC) if earliest else None,
    )
    failures: dict[str, set[str]] = {shard: set() for shard in shards}
    labels = set(map(asset_key, LABEL_TABLES))
    for record in instance.get_run_records(failed, limit=MOST_RUNS):
        run = record.dagster_run
        if run.job_name == job or labels & set(run.asset_selection or ()):
            for shard in shards_of(run, settings):
                if shard in failures and record.create_timestamp.timestamp() > since[shard]:
                    failures[shard].add(run.root_run_id or run.run_id)
    return {shard: len(runs) for shard, runs in failures.items()}


def _made_at(instance: dg.DagsterInstance, shard: str) -> float:
    chosen = dg.AssetRecordsFilter(asset_key=asset_key(STEP_REWARDS), asset_partitions=[shard])
    records = instance.fetch_materializations(chosen, limit=1).records
    return records[0].timestamp if records else 0.0
