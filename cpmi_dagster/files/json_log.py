"""Log lines as JSON, an object a line, where the environment has CPMI_LOG_FORMAT=json.

{"time": "2026-03-02T09:15:04.120+00:00", "level": "WARNING", "logger": "cpmi_dagster.resources.lake.lake",
 "message": "a chunk …", "run_id": "7c0e…", "stage": "labels.answer_logprobs", "shard": "003"}

What a line is about is said once, around the work: `with logged_as(stage="…", shard="003"): …`. Every line that is
logged by that thread meanwhile carries it.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files.environment import LOG_FORMAT, environment_variable

TEXT, JSON = "text", "json"
_ABOUT: ContextVar[Mapping[str, Any]] = ContextVar("about")


def logs_are_json() -> bool:
    """Whether log lines of this process are to be JSON."""
    return environment_variable(LOG_FORMAT) == JSON


def check_log_format() -> None:
    """Refuse a format that there is not.

    Raises:
        SettingsError: the environment names another than `text` or `json`.
    """
    if environment_variable(LOG_FORMAT) not in ("", TEXT, JSON):
        raise SettingsError(f"{LOG_FORMAT}={environment_variable(LOG_FORMAT)}: log lines are `{TEXT}` or `{JSON}`")


@contextmanager
def logged_as(**facts: Any) -> Iterator[None]:
    """Have every line that this thread logs within the block carry these facts; an inner block adds to them."""
    token = _ABOUT.set({**_ABOUT.get({}), **facts})
    try:
        yield
    finally:
        _ABOUT.reset(token)


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON, in ASCII: no text in it ends the line or acts on a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            **self.facts(record),
            **_ABOUT.get({}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)

    def facts(self, record: logging.LogRecord) -> dict[str, Any]:
        """What the record itself says."""
        return {"message": record.getMessage()}


def log_as_json() -> None:
    """Have this process write what is logged, and Python's warnings, to stderr as JSON Lines."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(handlers=[handler], force=True)
    logging.captureWarnings(True)
