"""Checks of every table, which somebody or a schedule runs: are its files still there, and what the profile would give?

    labels/answer_logprobs   on_disk   failed   002: the file is gone
    labels/answer_logprobs   current   failed   001: labels/answer_logprobs 001 has scoring.templates: 2, the profile …

They look at the whole home; in the run of a single shard they only warn. The job that builds the data set asks first
whether the rewards of all shards are current, and does nothing where they are not.
"""

from collections.abc import Iterator, Mapping

import dagster as dg

from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.declaration import Declaration
from cpmi_dagster.resources.dag.failed_runs import FIRST_TAG, PARTITION_TAG
from cpmi_dagster.resources.dag.materializations import asset_key
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.parts import partitions_of

ON_DISK, CURRENT = "on_disk", "current"
MEANINGS = {
    ON_DISK: "Everything Dagster lists as materialized is on disk.",
    CURRENT: "The files on disk match the profile's current settings, models, sources and code.",
}
REWARDS_ARE_CURRENT = dg.AssetCheckKey(dg.AssetKey(["labels", "step_rewards"]), CURRENT)
KEYS = [dg.AssetCheckKey(asset_key(key), name) for key in TABLES for name in MEANINGS]


def home_checks(stages: Mapping[str, Declaration]) -> dg.AssetChecksDefinition:
    """The two checks of every table.

    Args:
        stages: the stage behind each table.
    """
    specs = [
        dg.AssetCheckSpec(
            key.name, asset=key.asset_key, description=MEANINGS[key.name], blocking=key == REWARDS_ARE_CURRENT
        )
        for key in KEYS
    ]

    @dg.multi_asset_check(name="home_checks", specs=specs, can_subset=True)
    def compute(
        context: dg.AssetCheckExecutionContext, lake: dg.ResourceParam[Lake], settings: dg.ResourceParam[Settings]
    ) -> Iterator[dg.AssetCheckResult]:
        states = States.of(settings, stages)
        # the run of one shard has not failed because others are stale
        is_part = bool({PARTITION_TAG, FIRST_TAG} & set(context.run.tags))
        severity = dg.AssetCheckSeverity.WARN if is_part else dg.AssetCheckSeverity.ERROR
        for key in sorted(context.selected_asset_check_keys):
            table = "/".join(key.asset_key.path)
            found = _gone(context.instance, lake, settings, table) if key.name == ON_DISK else states.stale(table)
            yield dg.AssetCheckResult(
                passed=not found, asset_key=key.asset_key, check_name=key.name, metadata=found, severity=severity
            )

    return compute


def _gone(instance: dg.DagsterInstance, lake: Lake, settings: Settings, table: str) -> dict[str, str]:
    """Partitions that Dagster has as materialized, and which are not on disk whole."""
    key, partitions = asset_key(table), partitions_of(table, settings)
    if partitions is None:
        made: list[str | None] = [None] if instance.get_latest_materialization_event(key) else []
    else:
        materialized = instance.get_materialized_partitions(key)
        made = [name for name in partitions if name in materialized]
    return {
        name or "all": "the file, or one that it refers to, is missing or damaged; run `cpmi run` again"
        for name in made
        if not _is_there(lake, table, name)
    }


def _is_there(lake: Lake, table: str, partition: str | None) -> bool:
    record = lake.intact_record(table, partition)
    return record is not None and lake.tables.has_files(record)
