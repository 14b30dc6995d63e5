"""Dagster's own folder, `<home>/dagster`: its database, its logs and the `dagster.yaml` written here."""

import logging
import os
import socket
import sqlite3
import sys
import time
from pathlib import Path

import dagster as dg
import sqlalchemy.exc
import yaml
from dagster._utils.schedules import is_valid_cron_schedule

from cpmi_dagster.errors import CpmiError, SettingsError
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.files.json_log import logs_are_json
from cpmi_dagster.files.whole_files import try_to_write, write_whole
from cpmi_dagster.profiles.settings import Settings
from resources.dagster_storage import storage_configuration, unusable_storage
from resources.guarded_webserver import AS_MODULE
from resources.history_owner import claim_history
from resources.run_life import end_dead_runs, free_slots_of_ended_runs
from resources.shared_locks import note_locks

WORKSPACE = Path(__file__).parents[1] / "workspace.yaml"
LOCALHOST = "127.0.0.1"
LAUNCHER = "resources.run_launcher"
LOG = logging.getLogger(__name__)


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
    found = file.read_text(encoding="utf-8") if file.is_file() else ""
    is_ours = not found or folder == settings.folder / "dagster" or LAUNCHER in found
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
    """The Dagster instance of a home, to look at: no run is changed.

    Raises:
        UnwritableHome: the home cannot be written.
        SettingsError: Dagster's database is damaged, or its server refuses.
    """
    folder = write_dagster_yaml(settings)
    try:
        instance = dg.DagsterInstance.from_config(str(folder))
        instance.get_runs_count()
        instance.event_log_storage.get_concurrency_keys()
    except (sqlalchemy.exc.DatabaseError, sqlite3.DatabaseError) as error:
        raise unusable_storage(folder, settings.orchestration.postgres, error) from error
    return instance


def open_instance(settings: Settings) -> dg.DagsterInstance:
    """The Dagster instance of a home; runs whose process is gone are marked as failed, and their pool slots freed.

    Raises:
        SettingsError: see `view_instance`; or the history is another home's.
    """
    instance, folder = view_instance(settings), dagster_folder(settings)
    claim_history(instance, settings, folder)
    end_dead_runs(instance, folder)
    return instance


def wait_for_pool(instance: dg.DagsterInstance, pool: str, folder: Path) -> None:
    """Wait until a pool has a free slot. Dagster would wait without a message, and for runs that were killed.

    Args:
        folder: the home's `dagster`.

    Raises:
        CpmiError: the wait was interrupted.
    """
    warned = False
    try:
        while _is_full(instance, pool):
            if not warned:
                LOG.warning("another run on this home is at work; waiting for it to end (Ctrl-C ends the wait)")
                warned = True
            time.sleep(1)
            end_dead_runs(instance, folder)
            free_slots_of_ended_runs(instance, instance.event_log_storage.get_concurrency_info(pool).active_run_ids)
    except KeyboardInterrupt:
        raise CpmiError("interrupted while another run on this home was at work; run again when it has ended") from None


def _is_full(instance: dg.DagsterInstance, pool: str) -> bool:
    state = instance.event_log_storage.get_concurrency_info(pool)
    return state.limit is not None and state.active_slot_count >= state.limit


def check_schedule(settings: Settings) -> None:
    """Refuse a schedule that Dagster could not follow.

    Raises:
        SettingsError: it is not a cron expression.
    """
    cron = settings.orchestration.schedule
    if not is_valid_cron_schedule(cron):
        raise SettingsError(
            f"profile `{settings.profile}`: `orchestration.schedule` is `{cron}`, which is not a cron expression of "
            "five fields; write one such as */10 * * * *"
        )


def check_port(port: int) -> None:
    """Refuse a port that a server could not take: another server, perhaps of another home, would answer on it.

    Raises:
        SettingsError: it is in use, or not ours to take.
    """
    try:
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((LOCALHOST, port))
    except OSError as error:
        raise SettingsError(
            f"--port {port} cannot be used ({error.strerror}); whatever answers there is not the UI of this home: "
            "give another port"
        ) from error


def serve_ui(settings: Settings, profile: str | None, port: int) -> None:
    """Replace this process with `dagster dev`: the webserver on 127.0.0.1 and the daemon, for this home.

    Its pages alone may ask the webserver for anything; see `own_pages_only`.

    Args:
        profile: name or path that the user gave, for the code location.

    Raises:
        SettingsError: the home cannot be written.
    """
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(write_dagster_yaml(settings)),
        "CPMI_HOME": str(settings.home),
        "CPMI_PROFILE": profile or os.environ.get("CPMI_PROFILE") or settings.profile,
        # `dg dev` replaces `dagster dev`, but takes no workspace file
        "PYTHONWARNINGS": "ignore:Function `dev_command`",
    }
    arguments = ["dev", "-w", str(WORKSPACE), "-h", LOCALHOST, "-p", str(port)]
    if logs_are_json():
        arguments += ["--log-format", "json"]
    os.execve(sys.executable, [sys.executable, *AS_MODULE, *arguments], environment)


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
        "run_launcher": {"module": LAUNCHER, "class": "WatchedRunLauncher"},
        "run_monitoring": {"enabled": True, "free_slots_after_run_end_seconds": 30, "poll_interval_seconds": 30},
        "run_retries": {"enabled": True, "max_retries": 1, "retry_on_asset_or_op_failure": False},
    }
