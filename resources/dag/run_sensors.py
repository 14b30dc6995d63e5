"""A sensor for failed runs."""

import json
from collections.abc import Mapping

import dagster as dg
import httpx2

from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.automation import PARTITION_TAG
from cpmi_dagster.resources.dag.run_life import ORPHANED
from cpmi_dagster.resources.dag.step_errors import reason_of

SECONDS_TO_POST = 10.0
OUTSIDE = "from outside the execution context"


def failed_runs(settings: Settings) -> dg.SensorDefinition:
    """The sensor that logs each failed run in one line, and posts it to the profile's webhook."""

    @dg.run_failure_sensor(
        name="failed_runs",
        description="Logs every failed run in one line, and posts it to `orchestration.webhook_variable`.",
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=30,
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
