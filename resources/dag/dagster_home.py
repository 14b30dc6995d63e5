"""Dagster's own folder, `<home>/dagster`: the `dagster.yaml` written there, and the instance opened from it."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import sqlalchemy.exc
import yaml
from dagster._core.instance.ref import InstanceRef
from dagster_shared.check import CheckError

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.files.whole_files import try_to_write, write_whole
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.dagster_storage import storage_configuration, unusable_storage
from cpmi_dagster.resources.dag.history_owner import claim_history
from cpmi_dagster.resources.dag.run_life import end_orphaned_runs
from cpmi_dagster.resources.lake.shared_locks import note_locks

LAUNCHER, LAUNCHER_CLASS = "cpmi_dagster.resources.dag.run_life", "WatchedRunLauncher"
# a step in this process writes to the terminal itself: captured, each has processes that a Ctrl-C ends in tracebacks
UNCAPTURED = {
    "compute_logs": {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"}
}


class UnwritableHome(SettingsError):
    """The home is a file, or on a disk that takes no files."""


def dagster_folder(settings: Settings) -> Path:
    """`DAGSTER_HOME` of a profile's home; for one on an object store, that of the environment if it is set."""
    chosen = environment_variable("DAGSTER_HOME") if isinstance(settings.home, str) else ""
    return Path(chosen) if chosen else settings.folder / "dagster"


def write_dagster_yaml(settings: Settings) -> Path:
    """Write `dagster.yaml` if it is missing or the profile changed it; one that somebody else wrote stays.

    Returns:
        The folder to use as `DAGSTER_HOME`.

    Raises:
        UnwritableHome: the home is a file, or cannot be written.
    """
    folder = dagster_folder(settings)
    _check_writable(folder)
    text = yaml.safe_dump(_configuration(settings), sort_keys=False)
    file = folder / "dagster.yaml"
    found = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    is_ours = not found or folder == settings.folder / "dagster" or LAUNCHER_CLASS in found
    if is_ours and found != text:
        write_whole(file, text)
    note_locks(settings, folder)
    return folder


def _check_writable(folder: Path) -> None:
    try:
        try_to_write(folder)
    except OSError as error:
        raise UnwritableHome(
            f"the home {folder.parent} cannot be written ({error.strerror}); make it a folder that you may write to, "
            "or set CPMI_HOME to another"
        ) from error


def view_instance(settings: Settings) -> dg.DagsterInstance:
    """The Dagster instance of a home, to look at: no run is changed. What runs in this process is not captured.

    Raises:
        UnwritableHome: the home cannot be written.
        SettingsError: Dagster's database is damaged, its disk is full, or its server refuses; or somebody else's
            `dagster.yaml` is not one.
    """
    folder = write_dagster_yaml(settings)
    try:
        with storage_errors(settings):
            instance = dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(folder), overrides=UNCAPTURED))
            instance.get_runs_count()
            instance.event_log_storage.get_concurrency_keys()
    except (dg.DagsterError, CheckError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split()).partition(" Expected: ")[0]
        raise SettingsError(
            f"Dagster cannot use {folder / 'dagster.yaml'} ({reason}); correct it, or move it away, and run again"
        ) from error
    return instance


@contextmanager
def storage_errors(settings: Settings) -> Iterator[None]:
    """Say in one sentence what is wrong with Dagster's database, or with the disk that it is on.

    Raises:
        SettingsError: see `unusable_storage`.
    """
    try:
        yield
    except (sqlalchemy.exc.DatabaseError, sqlite3.DatabaseError) as error:
        raise unusable_storage(dagster_folder(settings), settings.orchestration.postgres, error) from error


def open_instance(settings: Settings) -> dg.DagsterInstance:
    """The Dagster instance of a home; orphaned runs are marked as failed, and their pool slots freed.

    Raises:
        SettingsError: see `view_instance`; or the history is another home's.
    """
    instance, folder = view_instance(settings), dagster_folder(settings)
    claim_history(instance, settings, folder)
    end_orphaned_runs(instance, folder)
    return instance


def _configuration(settings: Settings) -> dict[str, object]:
    gpus = settings.orchestration.gpus
    return {
        **storage_configuration(settings.orchestration.postgres),
        "telemetry": {"enabled": False},
        "nux": {"enabled": False},
        "concurrency": {
            "runs": {"max_concurrent_runs": max(2, gpus)},
            "pools": {"granularity": "op", "default_limit": gpus},
        },
        "run_launcher": {"module": LAUNCHER, "class": LAUNCHER_CLASS},
        "run_monitoring": {"enabled": True, "free_slots_after_run_end_seconds": 30, "poll_interval_seconds": 30},
        "run_retries": {"enabled": True, "max_retries": 1, "retry_on_asset_or_op_failure": False},
    }
