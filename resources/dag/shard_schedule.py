"""The schedule that requests missing, stale and failed shards: a few per tick, a run each.

tick at 10:20      000-003 missing, 007 stale, 009 failed, 004 being labelled
run requests       000, 001, 002, 003, 007, 009
"""

from datetime import datetime
from typing import Any

import dagster as dg

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.automation import INGEST, Judge, label_tables, phases, reasons_to_make
from cpmi_dagster.resources.dag.dagster_home import dagster_folder
from cpmi_dagster.resources.dag.declaration import ancestors
from cpmi_dagster.resources.dag.run_life import end_orphaned_runs
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.dag.status import partition_states

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


def shard_schedule(settings: Settings, judge: Judge, job: Any) -> dg.ScheduleDefinition:
    """Requests shards whose labels are missing, stale or failed: a few per tick.

    Args:
        judge: the states of all partitions, judged anew.
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
        states = judge()
        read = {above for key in label_tables(settings) for above in ancestors(key, states.stages)}
        if before := next(reasons_to_make(states, [key for key in phases(settings)[INGEST] if key in read]), ""):
            return dg.SkipReason(f"{before}; run the job `{INGEST}` first, or switch on the sensor `follow_sources`")
        tick = context.scheduled_execution_time
        due = due_shards(context.instance, settings, states)
        return [_request(shard, tick) for shard in due] or dg.SkipReason(NOTHING_TO_DO)

    return missing_or_failed_shards


def due_shards(instance: dg.DagsterInstance, settings: Settings, states: States) -> list[str]:
    """The shards to label now, at most `shards_per_tick`; those whose last run failed come last."""
    tables = label_tables(settings)
    by_table = [partition_states(instance, states.lake, settings, table, states) for table in tables]
    kinds = {shard: {table[shard] for table in by_table} for shard in settings.shard_keys}
    wanted = [shard for shard, theirs in kinds.items() if "running" not in theirs and theirs != {"done"}]
    return sorted(wanted, key=lambda shard: "failed" in kinds[shard])[: settings.orchestration.shards_per_tick]


def _request(shard: str, tick: datetime) -> dg.RunRequest:
    # with the tick in the run key, a shard that fails again is requested again
    return dg.RunRequest(run_key=f"{tick.isoformat()} {shard}", partition_key=shard)
