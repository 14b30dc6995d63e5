"""Dagster's folder, `<home>/dagster`: its `dagster.yaml`, and the instance opened from it."""

import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import yaml

from cpmi_dagster.errors import SettingsError, first_line
from cpmi_dagster.files.whole_files import try_to_write, write_whole
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.run_life import end_orphaned_runs

LOG = logging.getLogger(__name__)
OURS = "# written from the profile; without this line, the file stays as you write it\n"
FILE_NAME, IN_PROCESS = "dagster.yaml", "in-process.yaml"
# capturing the output of steps starts helper processes, which a Ctrl-C ends in tracebacks; Dagster documents the class,
# but exports it nowhere else
UNCAPTURED = {
    "compute_logs": {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"}
}


class UnwritableHome(SettingsError):
    """The home is a file, or its disk cannot be written."""


def dagster_folder(settings: Settings) -> Path:
    """`DAGSTER_HOME` of a profile's home."""
    return settings.home / "dagster"


def write_dagster_yaml(settings: Settings) -> Path:
    """Write `dagster.yaml` if it is missing or the profile has changed; the user's own stays.

    Returns:
        The folder to use as `DAGSTER_HOME`.

    Raises:
        UnwritableHome: the home is a file, or cannot be written.
    """
    folder = dagster_folder(settings)
    try:
        try_to_write(folder)
    except OSError as error:
        raise UnwritableHome(
            f"the home {folder.parent} cannot be written ({error.strerror}); make it a folder that you may write to, "
            "or set CPMI_HOME to another"
        ) from error
    text = OURS + yaml.safe_dump(_configuration(settings), sort_keys=False)
    file = folder / FILE_NAME
    before = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else OURS
    if before.startswith(OURS) and before != text:
        write_whole(file, text)
    return folder


def view_instance(settings: Settings) -> dg.DagsterInstance:
    """The Dagster instance of a home; runs are not changed, and the output of steps here is not captured.

    Raises:
        UnwritableHome: the home cannot be written.
        SettingsError: Dagster's database cannot be used, or the user's `dagster.yaml` is not valid.
    """
    folder = write_dagster_yaml(settings)
    return _open(settings, _write_in_process(folder))


def recorded_instance(settings: Settings) -> dg.DagsterInstance:
    """The Dagster instance of a home as the last run left it; one without runs if there is none. No file is written.

    Raises:
        SettingsError: as `view_instance`.
    """
    folder = dagster_folder(settings)
    if not (folder / FILE_NAME).is_file():
        return dg.DagsterInstance.ephemeral()
    if not os.access(folder, os.W_OK):  # SQLite reads only where it may write
        LOG.warning(
            f"{folder} cannot be written, so its history of runs is not read: none is shown as running or failed"
        )
        return dg.DagsterInstance.ephemeral()
    return _open(settings, FILE_NAME)


def _open(settings: Settings, configuration: str) -> dg.DagsterInstance:
    folder = dagster_folder(settings)
    try:
        with storage_errors(settings):
            instance = dg.DagsterInstance.from_config(str(folder), configuration)
            instance.get_runs_count()
            instance.event_log_storage.get_concurrency_keys()
    except SettingsError:
        raise
    except Exception as error:  # Dagster has no class for an invalid value
        reason = " ".join(str(error).split()).partition(" Expected: ")[0]
        raise SettingsError(
            f"Dagster cannot use {folder / 'dagster.yaml'} ({reason}); correct it, or move it away, and run again"
        ) from error
    return instance


def _write_in_process(folder: Path) -> str:
    """Write the configuration of runs in this process: that of the folder with `UNCAPTURED`."""
    configuration = yaml.safe_load((folder / FILE_NAME).read_text(encoding="utf-8")) or {}
    text = OURS + yaml.safe_dump({**configuration, **UNCAPTURED}, sort_keys=False)
    file = folder / IN_PROCESS
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        write_whole(file, text)
    return IN_PROCESS


@contextmanager
def storage_errors(settings: Settings) -> Iterator[None]:
    """Turn errors of Dagster's database, or of its disk, into one sentence: a `SettingsError`."""
    try:
        yield
    except Exception as error:
        # by name, since dagster-postgres may not be installed; SQLAlchemy's errors have `orig`
        is_of_server = type(error).__name__ == "DagsterPostgresException"
        if not (is_of_server or hasattr(error, "orig") or isinstance(error, sqlite3.DatabaseError)):
            raise
        cause = first_line(getattr(error, "orig", None) or error)
        raise SettingsError(
            f"Dagster's database of {dagster_folder(settings)} cannot be used ({cause}); mend it, or move that folder "
            "away, which loses the history of runs and no result, and run again"
        ) from error


def open_instance(settings: Settings) -> dg.DagsterInstance:
    """The Dagster instance of a home; orphaned runs are marked as failed.

    Raises:
        SettingsError: see `view_instance`.
    """
    instance = view_instance(settings)
    end_orphaned_runs(instance, dagster_folder(settings))
    return instance


def _configuration(settings: Settings) -> dict[str, object]:
    gpus = settings.orchestration.gpus
    return {
        "telemetry": {"enabled": False},
        "nux": {"enabled": False},
        "concurrency": {
            "runs": {"max_concurrent_runs": gpus + 2},
            # with granularity `op`, a killed run would keep its slots
            "pools": {"granularity": "run", "default_limit": gpus},
        },
        # runs stay queued while the code server restarts; by default they fail at once
        "run_queue": {"max_user_code_failure_retries": 30, "user_code_failure_retry_delay": 10},
        "run_monitoring": {"enabled": True, "poll_interval_seconds": 30},
        "run_retries": {"enabled": True, "max_retries": 1, "retry_on_asset_or_op_failure": False},
    }
