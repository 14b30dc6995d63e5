"""How often labeling a shard has failed since it was last made.

a run failed by an error of its own       Dagster tags it with the reason: STEP_FAILURE, RUN_EXCEPTION, …
a run whose process was killed            marked as failed by another process, without a reason of these
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import dagster as dg
from dagster._core.events import RunFailureReason
from dagster._core.storage.tags import RUN_FAILURE_REASON_TAG

from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.labeling_budget import LABEL_TABLES, LAST_LABELS
from cpmi_dagster.resources.materializations import asset_key, latest

PARTITION_TAG = "dagster/partition"
FIRST_TAG, LAST_TAG = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
MOST_RUNS = 5_000
KILLS_A_FAILURE = 5
"""Killed runs that count as one that failed: preemptions give no shard up, one that kills its process each time is."""
OWN_FAILURES = {
    reason.value
    for reason in (
        RunFailureReason.STEP_FAILURE,
        RunFailureReason.RUN_EXCEPTION,
        RunFailureReason.JOB_INITIALIZATION_FAILURE,
    )
}


def shards_of(run: dg.DagsterRun, settings: Settings) -> list[str]:
    """The shards that a run was started for; none for a run that is not of shards."""
    first, last = (run.tags.get(tag, run.tags.get(PARTITION_TAG, "")) for tag in (FIRST_TAG, LAST_TAG))
    return [shard for shard in settings.shard_keys if first <= shard <= last]


def range_tags(shards: Sequence[str]) -> dict[str, str]:
    """The tags of a run over a stretch of shards."""
    return {FIRST_TAG: shards[0], LAST_TAG: shards[-1]}


def failures_of(instance: dg.DagsterInstance, settings: Settings, shards: Sequence[str], job: str) -> dict[str, float]:
    """Failed labeling runs of each shard since its labels were last made; a killed one counts as a fifth.

    Args:
        job: the labeling job; runs of its assets count however they were started.
    """
    made = {shard: latest(instance, LAST_LABELS, shard) for shard in shards}
    since = {shard: record.timestamp if record else 0.0 for shard, record in made.items()}
    failures, kills = dict.fromkeys(shards, 0), dict.fromkeys(shards, 0)
    for record in _failed(instance, job, min(since.values(), default=0.0)):
        own = record.dagster_run.tags.get(RUN_FAILURE_REASON_TAG) in OWN_FAILURES
        counts = failures if own else kills
        for shard in shards_of(record.dagster_run, settings):
            if shard in counts and record.create_timestamp.timestamp() > since[shard]:
                counts[shard] += 1
    return {shard: failures[shard] + kills[shard] / KILLS_A_FAILURE for shard in shards}


def _failed(instance: dg.DagsterInstance, job: str, since: float) -> Iterator[dg.RunRecord]:
    labels = set(map(asset_key, LABEL_TABLES))
    failed = dg.RunsFilter(
        statuses=[dg.DagsterRunStatus.FAILURE], created_after=datetime.fromtimestamp(since, UTC) if since else None
    )
    for record in instance.get_run_records(failed, limit=MOST_RUNS):
        run = record.dagster_run
        if run.job_name == job or labels & set(run.asset_selection or ()):
            yield record
