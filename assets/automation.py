"""Jobs in the order of `cpmi run`, and the schedule that requests shards that are missing or failed."""

from collections.abc import Mapping
from typing import Literal

import dagster as dg

from assets.home_checks import KEYS as HOME_CHECKS
from assets.home_checks import REWARDS_ARE_CURRENT
from cpmi_dagster.contracts.tables import TABLES, Partitioning
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.profiles.settings import Settings
from resources.lake import Lake
from resources.stage_run import SELECTED
from resources.staleness import Maker, Staleness
from resources.status import partition_states, staleness_of

INGEST, LABEL, DATASET, CANDIDATES, TRAIN, REPORT = (
    "ingest", "label_shards", "build_dataset", "sample_candidates", "train_and_evaluate", "build_reports",
)  # fmt: skip
LABEL_TABLES = [key for key, table in TABLES.items() if table.group == "labels"]


def _tables(*groups: str, partitioning: Literal["any"] | Partitioning | None = "any") -> list[str]:
    return [
        key for key, table in TABLES.items() if table.group in groups and partitioning in ("any", table.partitioning)
    ]


PHASES: dict[str, list[str]] = {
    INGEST: [*_tables("sources", "alignment", "selection"), *_tables("benchmarks", partitioning=None)],
    LABEL: LABEL_TABLES,
    DATASET: _tables("dataset"),
    CANDIDATES: _tables("benchmarks", partitioning="benchmark"),
    TRAIN: _tables("models", "benchmarks", partitioning="recipe"),
    REPORT: _tables("reports"),
}


JOBS = {
    name: dg.define_asset_job(
        name,
        dg.AssetSelection.assets(*(key.split("/") for key in tables)) - dg.AssetSelection.checks(*HOME_CHECKS)
        | dg.AssetSelection.checks(*([REWARDS_ARE_CURRENT] if name == DATASET else [])),
    )
    for name, tables in PHASES.items()
}
CHECK_JOB = dg.define_asset_job(
    "check_home", dg.AssetSelection.checks(*HOME_CHECKS), description="Is every file still there, and current?"
)
CHECK_SCHEDULE = dg.ScheduleDefinition(job=CHECK_JOB, cron_schedule="0 6 * * *", description="Every morning.")


def shard_schedule(settings: Settings, makers: Mapping[str, Maker]) -> dg.ScheduleDefinition:
    """Each tick requests at most `orchestration.shards_per_tick` shards whose labels are missing, stale or failed."""

    def missing_or_failed_shards(
        context: dg.ScheduleEvaluationContext, lake: dg.ResourceParam[Lake]
    ) -> list[dg.RunRequest] | dg.SkipReason:
        if not lake.exists(SELECTED):
            return dg.SkipReason(f"{SELECTED} has not been made yet; run the job `{INGEST}` first")
        # what is stale before labeling is not made current by labeling again
        staleness = staleness_of(settings, {key: makers[key] for key in LABEL_TABLES})
        wanted = shards_to_label(context.instance, lake, settings, staleness)
        if not wanted:
            return dg.SkipReason("every shard is labelled, or being labelled")
        # the tick is in the run key, so that a shard that fails again is requested again
        tick = context.scheduled_execution_time.isoformat()
        chosen = wanted[: settings.orchestration.shards_per_tick]
        return [dg.RunRequest(run_key=f"{tick} {shard}", partition_key=shard) for shard in chosen]

    cron = settings.orchestration.schedule
    decorate = dg.schedule(job=JOBS[LABEL], cron_schedule=cron, description=shard_schedule.__doc__)
    try:
        return decorate(missing_or_failed_shards)
    except dg.DagsterInvalidDefinitionError as error:
        raise SettingsError(
            f"profile `{settings.profile}`: `orchestration.schedule` is `{cron}`, no cron expression of five fields; "
            "write one such as */10 * * * *"
        ) from error


def shards_to_label(
    instance: dg.DagsterInstance, lake: Lake, settings: Settings, staleness: Staleness | None = None
) -> list[str]:
    """Shards of which a label table is missing or stale, then those whose last run failed; not those that are running.

    Failed ones come last, so that shards that always fail do not delay the others.
    """
    by_table = [partition_states(instance, lake, settings, table, staleness) for table in LABEL_TABLES]
    states = {shard: {table[shard] for table in by_table} for shard in settings.shard_keys}
    idle = [shard for shard, found in states.items() if "running" not in found]
    failed = [shard for shard in idle if "failed" in states[shard]]
    return [shard for shard in idle if {"missing", "stale"} & states[shard] and shard not in failed] + failed
