"""Sensors for failed runs and changed sources."""

import json
from collections.abc import Iterable, Mapping

import dagster as dg
import httpx2

from cpmi_dagster.assets.automation import INGEST
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import first_line
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.failed_runs import shards_of
from cpmi_dagster.resources.fingerprints import fingerprint_of
from cpmi_dagster.resources.spec_version import source_states
from cpmi_dagster.resources.staleness import Maker, staleness_of

SECONDS_TO_POST = 10.0
MOST_NAMED = 20


def failed_runs(settings: Settings) -> dg.SensorDefinition:
    """Logs every failed run in one line, and posts it to the webhook that the profile names."""

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
    """What is posted of a failed run; `text` is what chat servers show."""
    run = context.dagster_run
    steps = {event.step_key: _reason(event) for event in context.get_step_failure_events()}
    reasons = [f"{step}: {reason}" for step, reason in steps.items()] or [context.failure_event.message or "unknown"]
    shards = shards_of(run, settings)
    where = f" of shards {', '.join(shards)}" if shards else ""
    return {
        "text": f"CPMI profile {settings.profile}: {run.job_name}{where} failed: {'; '.join(reasons)}",
        "profile": settings.profile,
        "job": run.job_name,
        "run_id": run.run_id,
        "shards": shards,
        "steps": steps,
    }


def post(url: str, facts: Mapping[str, object]) -> str:
    """Post facts as JSON.

    Returns:
        Why it could not be done; empty where it was. The address, which is a secret, is not in it.
    """
    if not url:
        return "the variable is not set"
    try:
        reply = httpx2.post(url, json=facts, timeout=SECONDS_TO_POST)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return type(error).__name__
    return "" if reply.is_success else f"the server answered with status {reply.status_code}"


def changed_sources(settings: Settings, makers: Mapping[str, Maker]) -> dg.SensorDefinition:
    """Notices that a source has changed or is new, and names what it makes stale."""

    @dg.sensor(
        name="changed_sources",
        description="Detects new and changed sources, and names the shards and tables that become stale.",
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=300,
    )
    def compute(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        states = {key: source_states(maker, settings) for key, maker in makers.items()}
        readers = [key for key, found in states.items() if found]
        state = fingerprint_of(states)
        if state == context.cursor:
            return dg.SensorResult(skip_reason="no source has changed", cursor=state)
        stale = stale_readers(settings, makers, readers)
        message = words_on_stale(stale) if stale else "no source differs from what its table was made from"
        if stale:
            context.log.warning(message)
        return dg.SensorResult(skip_reason=message, cursor=state)

    return compute


def stale_readers(settings: Settings, makers: Mapping[str, Maker], readers: Iterable[str]) -> dict[str, list[str]]:
    """The tables that were made from another version of their source, and which partitions of them (`all` of one)."""
    staleness = staleness_of(settings, makers)
    found = {
        key: ["all"] * bool(staleness.of(key, None))
        if TABLES[key].partitioning is None
        else [*staleness.partitions(key)]
        for key in readers
    }
    return {key: partitions for key, partitions in found.items() if partitions}


def words_on_stale(stale: Mapping[str, list[str]]) -> str:
    """A sentence that names what is stale, and what to run."""
    parts = []
    for key, partitions in stale.items():
        more = f" and {len(partitions) - MOST_NAMED} more" if len(partitions) > MOST_NAMED else ""
        named = f" of shards {', '.join(partitions[:MOST_NAMED])}{more}" if partitions != ["all"] else ""
        parts.append(f"{key}{named}")
    return (
        f"a source has changed, so these are stale: {'; '.join(parts)}; run the job `{INGEST}`: labels follow for the "
        "shards whose rows differ"
    )


def _reason(event: dg.DagsterEvent) -> str:
    data = event.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        return data.user_failure_data.description
    error = data.error
    return first_line(Exception((error.cause or error).message)) if error else "unknown"
