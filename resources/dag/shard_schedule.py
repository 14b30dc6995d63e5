"""The schedule that requests missing, stale and failed shards: a few per tick, a run each.

tick at 10:20      000-003 missing, 007 stale, 009 failed, 004 being labelled
run requests       000, 001, 002, 003, 007, 009
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import dagster as dg

from cpmi_dagster.contracts.keys import SELECTED
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.automation import INGEST, LABEL_TABLES, SHARDS_TAG
from cpmi_dagster.resources.dag.dagster_home import dagster_folder
from cpmi_dagster.resources.dag.declaration import Declaration
from cpmi_dagster.resources.dag.run_life import end_orphaned_runs
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.dag.status import partition_states
from cpmi_dagster.resources.lake.lake import Lake

NOTHING_TO_DO = "every shard is labelled, or being labelled"


def check_schedule(settings: Settings) -> None:
    """Check the profile's schedule.

    Raises:
        SettingsError: it is not a cron expression.
    """
    cron = settings.orchestration.schedule
    try:
        dg.ScheduleDefinition(name="cron", job_name="any", cron_schedule=cron)
    except dg.DagsterInvalidDefinitionError as error:
        raise SettingsError(
            f"profile `{settings.profile}`: `orchestration.schedule` is `{cron}`, which is not a cron expression of "
            "five fields; write one such as */10 * * * *"
        ) from error


def shard_schedule(settings: Settings, stages: Mapping[str, Declaration], job: Any) -> dg.ScheduleDefinition:
    """Requests shards whose labels are missing, stale or failed: a few per tick.

    Args:
        stages: the stage behind each table.
        job: labels shards.

    Raises:
        SettingsError: the profile's schedule is not a cron expression.
    """
    check_schedule(settings)

    @dg.schedule(
        job=job,
        cron_schedule=settings.orchestration.schedule,
        description=(shard_schedule.__doc__ or "").partition("\n")[0],
    )
    def missing_or_failed_shards(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        end_orphaned_runs(context.instance, dagster_folder(settings))
        lake = Lake.of(settings)
        if not lake.exists(SELECTED):
            return dg.SkipReason(f"{SELECTED} has not been made yet; run the job `{INGEST}` first")
        # only the stages of labels: labeling again would not make an earlier stage current
        judged = States.of(settings, {key: stages[key] for key in LABEL_TABLES})
        tick = context.scheduled_execution_time
        due = due_shards(context.instance, lake, settings, judged)
        return [_request(shard, tick) for shard in due] or dg.SkipReason(NOTHING_TO_DO)

    return missing_or_failed_shards


def due_shards(instance: dg.DagsterInstance, lake: Lake, settings: Settings, judged: States) -> list[str]:
    """The shards to label now, at most `shards_per_tick`; those whose last run failed come last."""
    by_table = [partition_states(instance, lake, settings, table, judged) for table in LABEL_TABLES]
    states = {shard: {table[shard] for table in by_table} for shard in settings.shard_keys}
    wanted = [shard for shard, kinds in states.items() if "running" not in kinds and kinds != {"done"}]
    return sorted(wanted, key=lambda shard: "failed" in states[shard])[: settings.orchestration.shards_per_tick]


def _request(shard: str, tick: datetime) -> dg.RunRequest:
    # with the tick in the run key, a shard that fails again is requested again
    return dg.RunRequest(run_key=f"{tick.isoformat()} {shard}", partition_key=shard, tags={SHARDS_TAG: shard})
