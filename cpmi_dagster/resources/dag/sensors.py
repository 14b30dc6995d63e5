"""What starts jobs when something is missing or stale, keeps Dagster's pages true, and tells of failed runs.

watch_home                  on     marks runs whose process died; has `is_current` evaluated if it would say otherwise
failed_runs                 on     logs each failed run in one line, and posts it to the profile's webhook
follow_sources              off    ingest, if a source, a setting or a file has changed
missing_or_failed_shards    off    label_shards, a run each for a few missing, stale or failed shards a tick
follow_labels               off    build_dataset, if the labels of all shards are current
follow_dataset              off    sample_candidates, train_and_evaluate, build_reports: hours on GPUs

With all of them on, an empty home ends in a report. They ask `States`, as `cpmi run` does: Dagster's own conditions
compare events, and would begin the data set of old labels while other shards are labelled again.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import dagster as dg
import httpx2

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.profiles.partitions import needed_assets, partition_name, partitions_of
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.general_checks import unreported
from cpmi_dagster.resources.dag.instance import ORPHANED, PARTITION_TAG, end_orphaned_runs
from cpmi_dagster.resources.dag.jobs import (
    CANDIDATES,
    DATASET,
    INGEST,
    JUDGE_FILES,
    REPORT,
    TRAIN,
    label_tables,
    phases,
)
from cpmi_dagster.resources.dag.making import reason_of
from cpmi_dagster.resources.dag.stage import ancestors
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.dag.status import partition_states
from cpmi_dagster.resources.lake.parquet import hash_of

REQUEST_TAG = "cpmi/request"
"""The hash of what a sensor found missing or stale; what failed is not requested again for the same reason."""
SECONDS_BETWEEN_TICKS = 30
UNFINISHED = [
    dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING,
]  # fmt: skip
NOTHING_TO_DO = "every shard is labelled, or being labelled"
SECONDS_TO_POST = 10.0
OUTSIDE = "from outside the execution context"
Judge = Callable[[], States]
"""Gives the states of all partitions, judged anew."""


class Due(NamedTuple):
    """A run that would make something: its job, its partition, and the reason."""

    job: str
    partition: str | None
    reason: str


def due_runs(states: States, names: Sequence[str]) -> Iterator[Due | dg.SkipReason]:
    """The runs of some jobs that would make what is missing or stale, or why they wait.

    They end with the first phase of which something is due: all later ones are made of its rows.
    """
    for name, tables in phases(states.settings).items():
        partitions = states.settings.recipe_names if name == TRAIN else [None]
        reasons = {partition: [*reasons_to_make(states, tables, partition)] for partition in partitions}
        due = [Due(name, partition, "; ".join(each)) for partition, each in reasons.items() if each]
        if due and name not in names:
            yield dg.SkipReason(f"waits for `{name}`: {next(each[0] for each in reasons.values() if each)}")
            return
        yield from due
        if due:
            return


def reasons_to_make(states: States, tables: Sequence[str], recipe: str | None = None) -> Iterator[str]:
    """What is missing or stale of some tables; of those by recipe only one, if it is given."""
    for key in tables:
        for partition in [recipe] if recipe else partitions_of(key, states.settings) or [None]:
            state = states.state(key, partition)
            if state.kind != "current":
                yield state.reason or f"{partition_name(key, partition)} is not made yet"


def requests_of(
    instance: dg.DagsterInstance, due: Iterator[Due | dg.SkipReason]
) -> list[dg.RunRequest] | dg.SkipReason:
    """Requests for the runs that are due, but for those that are at work, or failed for the same reason."""
    requests, waiting = [], "everything is made, and current"
    for each in due:
        if isinstance(each, dg.SkipReason):
            waiting = each.skip_message or ""
            continue
        asked = hash_of(each)
        last = instance.get_runs(dg.RunsFilter(tags={REQUEST_TAG: asked}), limit=1)
        at_work = instance.get_runs(dg.RunsFilter(job_name=each.job, statuses=UNFINISHED), limit=100)
        where = f"{each.job}{f' {each.partition}' if each.partition else ''}"
        if any(run.tags.get(PARTITION_TAG) == each.partition for run in at_work):
            waiting = f"`{where}` is at work"
        elif last and last[0].is_failure_or_canceled:
            waiting = f"`{where}` failed in run {last[0].run_id[:8]}; correct its reason, and launch it again"
        else:
            requests.append(dg.RunRequest(job_name=each.job, partition_key=each.partition, tags={REQUEST_TAG: asked}))
    return requests or dg.SkipReason(waiting)


def followers(judge: Judge, made: dict[str, Any]) -> list[dg.SensorDefinition]:
    """The sensors that start jobs, off by default.

    Args:
        made: the jobs by name.
    """
    chosen = {
        "follow_sources": ([INGEST], "Reads, aligns and selects again when a source or a setting has changed."),
        "follow_labels": ([DATASET], "Builds the data set when labels have changed, of all shards. Trains nothing."),
        "follow_dataset": (
            [CANDIDATES, TRAIN, REPORT],
            "Trains every recipe, scores the benchmarks, and builds the report, when the data set has changed: hours "
            "on GPUs.",
        ),
    }
    sensors = []
    for name, (names, description) in chosen.items():
        there = [each for each in names if each in made]
        if there:

            def evaluate(context: dg.SensorEvaluationContext, names: Sequence[str]) -> Any:
                return requests_of(context.instance, due_runs(judge(), names))

            sensors.append(
                dg.SensorDefinition(
                    name=name,
                    evaluation_fn=partial(evaluate, names=there),
                    jobs=[made[each] for each in there],
                    minimum_interval_seconds=SECONDS_BETWEEN_TICKS,
                    description=description,
                )
            )
    return sensors


def watch_home(settings: Settings, judge: Judge, job: Any) -> dg.SensorDefinition:
    """The sensor that keeps Dagster's pages true, on by default.

    Args:
        job: evaluates `is_current`.
    """

    @dg.sensor(
        job=job,
        name="watch_home",
        description="Marks runs as failed whose process has died, and has `is_current` evaluated when a setting, a "
        "source or a file has changed.",
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=SECONDS_BETWEEN_TICKS,
    )
    def evaluate(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        end_orphaned_runs(context.instance, settings)
        states = judge()
        changed = unreported(context.instance, needed_assets(states.settings), states)
        if not changed:
            return dg.SkipReason("`is_current` of every asset says what is so")
        asked = hash_of(changed)
        last = context.instance.get_runs(dg.RunsFilter(job_name=JUDGE_FILES), limit=1)
        if last and not last[0].is_finished:
            return dg.SkipReason(f"`{JUDGE_FILES}` is at work")
        if last and last[0].tags.get(REQUEST_TAG) == asked:  # it failed, or its machine sees other files
            return dg.SkipReason(f"run {last[0].run_id[:8]} of `{JUDGE_FILES}` failed, or said otherwise; look at it")
        return dg.RunRequest(tags={REQUEST_TAG: asked})

    return evaluate


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
        end_orphaned_runs(context.instance, settings)
        states = judge()
        read = {above for key in label_tables(settings) for above in ancestors(key, states.stages)}
        if before := next(reasons_to_make(states, [key for key in phases(settings)[INGEST] if key in read]), ""):
            return dg.SkipReason(f"{before}; run the job `{INGEST}` first, or switch on the sensor `follow_sources`")
        tick = context.scheduled_execution_time.isoformat()
        due = due_shards(context.instance, settings, states)
        # with the tick in the run key, a shard that fails again is requested again
        requests = [dg.RunRequest(run_key=f"{tick} {shard}", partition_key=shard) for shard in due]
        return requests or dg.SkipReason(NOTHING_TO_DO)

    return missing_or_failed_shards


def due_shards(instance: dg.DagsterInstance, settings: Settings, states: States) -> list[str]:
    """The shards to label now, at most `shards_per_tick`; those whose last run failed come last."""
    tables = label_tables(settings)
    by_table = [partition_states(instance, states.lake, settings, table, states) for table in tables]
    kinds = {shard: {table[shard] for table in by_table} for shard in settings.shard_keys}
    wanted = [shard for shard, theirs in kinds.items() if "running" not in theirs and theirs != {"done"}]
    return sorted(wanted, key=lambda shard: "failed" in kinds[shard])[: settings.orchestration.shards_per_tick]


def failed_runs(settings: Settings) -> dg.SensorDefinition:
    """The sensor that logs each failed run in one line, and posts it to the profile's webhook."""

    @dg.run_failure_sensor(
        name="failed_runs",
        description="Logs every failed run in one line, and posts it to `orchestration.webhook_variable`.",
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=SECONDS_BETWEEN_TICKS,
    )
    def compute(context: dg.RunFailureSensorContext) -> None:
        facts = failure_facts(context, settings)
        context.log.error(json.dumps(facts))
        if variable := settings.orchestration.webhook_variable:
            problem = post(environment_variable(variable), facts)
            if problem:
                context.log.warning(f"the failure was not posted to the webhook in {variable}: {problem}")

    return compute


def failure_facts(context: dg.RunFailureSensorContext, settings: Settings) -> dict[str, object]:
    """The JSON that is posted for a failed run; chat servers show its `text`."""
    run = context.dagster_run
    steps = {event.step_key: reason_of(event) for event in context.get_step_failure_events()}
    said = context.failure_event.message or "unknown"
    # Dagster's words for a process that was killed say nothing of that
    reasons = [f"{step}: {reason}" for step, reason in steps.items()] or [ORPHANED if OUTSIDE in said else said]
    partition = run.tags.get(PARTITION_TAG, "")
    shards = [partition] if partition in settings.shard_keys else []
    where = f" of shard {partition}" if shards else f" of {partition}" if partition else ""
    name = "a materialization" if run.job_name.startswith("__") else run.job_name
    return {
        "text": f"CPMI profile {settings.profile}: {name}{where} failed: {'; '.join(reasons)}",
        "profile": settings.profile,
        "job": run.job_name,
        "run_id": run.run_id,
        "shards": shards,
        "steps": steps,
    }


def post(url: str, facts: Mapping[str, object]) -> str:
    """Post facts as JSON.

    Returns:
        Why that failed, without the address, which is a secret; empty if it did not.
    """
    if not url:
        return "the variable is not set"
    try:
        reply = httpx2.post(url, json=facts, timeout=SECONDS_TO_POST)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return type(error).__name__
    return "" if reply.is_success else f"the server answered with status {reply.status_code}"
