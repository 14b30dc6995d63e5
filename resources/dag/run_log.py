"""The log of Dagster's runs on the console, as JSON where that is asked for: under `cpmi run`, and in compute logs.

{"time": "…", "level": "INFO", "logger": "dagster", "message": "answer_logprobs 003: skipped, unchanged",
 "run_id": "7c0e…", "stage": "labels.answer_logprobs", "shard": "003"}
{"time": "…", "level": "DEBUG", "logger": "dagster", "message": "Started execution of step \"labels\".",
 "run_id": "7c0e…", "stage": "labels", "event": "STEP_START"}
"""

import logging
from collections.abc import Mapping
from typing import Any

import dagster as dg
from dagster._core.execution.context.system import PlanOrchestrationContext
from dagster._core.log_manager import get_log_record_metadata, has_log_record_metadata

from cpmi_dagster.files.json_log import JsonFormatter, log_as_json, logs_are_json

COMMANDS = "cpmi"
"""The logger of the commands; quiet ones have raised its level."""


class RunFormatter(JsonFormatter):
    """A record of Dagster's as a line of JSON: its message without the names that Dagster puts before it."""

    def facts(self, record: logging.LogRecord) -> dict[str, Any]:
        """See `JsonFormatter.facts`; the run, the step as `stage`, and of an event its kind and error."""
        if not has_log_record_metadata(record):
            return super().facts(record)
        known = get_log_record_metadata(record)
        event = known["dagster_event"]
        error = getattr(event.event_specific_data, "error", None) if event else None
        facts = {
            "message": known["orig_message"],
            "run_id": known["run_id"],
            "stage": known["step_key"],
            "event": event.event_type_value if event else None,
            "error": error.to_string() if error else None,
        }
        return {name: value for name, value in facts.items() if value is not None}


@dg.logger(dg.Field({"log_level": dg.Field(str, is_required=False, default_value="INFO")}))
def json_console(context: dg.InitLoggerContext) -> logging.Logger:
    """Writes a run's log to stderr as JSON Lines."""
    console = logging.getLoggerClass()("dagster", context.logger_config["log_level"].upper())
    handler = logging.StreamHandler()
    handler.setFormatter(RunFormatter())
    console.addHandler(handler)
    return console


def console_loggers() -> dict[str, dg.LoggerDefinition] | None:
    """The loggers of a code location's jobs; None for Dagster's own."""
    return {"console": json_console} if logs_are_json() else None


def log_of_this_process() -> dict[str, Any]:
    """Run configuration of runs in this process: people see progress in its place, so the log is only for programs."""
    level = logging.getLevelName(logging.getLogger(COMMANDS).getEffectiveLevel()) if logs_are_json() else "CRITICAL"
    return _console(level)


def with_console(context: PlanOrchestrationContext) -> PlanOrchestrationContext:
    """What an executor is given of a launched run: its log is JSON if that is asked for, and so is all of its process.

    Dagster gives a run without a configuration its own coloured console, whatever loggers the job has.
    """
    if not logs_are_json():
        return context
    log_as_json()
    return _JsonContext(
        context.plan_data, context.log, context.executor, context.output_capture, context.resume_from_failure
    )


class _JsonContext(PlanOrchestrationContext):
    """A run whose configuration names the job's own console."""

    @property
    def run_config(self) -> Mapping[str, object]:
        return {**_console("DEBUG"), **super().run_config}


def _console(level: str) -> dict[str, Any]:
    return {"loggers": {"console": {"config": {"log_level": level}}}}
