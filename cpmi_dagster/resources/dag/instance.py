"""Dagster's folder, `<home>/dagster`: its `dagster.yaml`, the instance opened from it, and runs whose process has died.

    dagster.yaml                of `cpmi ui`, the daemon and their runs; `in-process.yaml` of runs in this process
    alive/7f3a….lock            held by the process of run 7f3a…; the system frees it, however the process ends

An unfinished run whose lock is free is orphaned, on any machine that shares the home: Dagster has no record of its end.
`cpmi run` takes the lock before the run exists, a run of the UI or a backfill in its first step. An orphaned run is
marked as failed when `cpmi run` or `cpmi ui` begins, and by each tick of the sensor `watch_home`, which is on by
default, and of the schedule.
"""

import logging
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import dagster as dg
import yaml

from cpmi_dagster.errors import SettingsError, first_line
from cpmi_dagster.files.locks import LifeLock, hold, life_of
from cpmi_dagster.files.whole_files import try_to_write, write_whole
from cpmi_dagster.profiles.settings import Settings

LOG = logging.getLogger(__name__)
OURS = "# written from the profile; without this line, the file stays as you write it\n"
FILE_NAME, IN_PROCESS = "dagster.yaml", "in-process.yaml"
# capturing the output of steps starts helper processes, which a Ctrl-C ends in tracebacks; Dagster documents the class,
# but exports it nowhere else
UNCAPTURED = {
    "compute_logs": {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"}
}
ALIVE = "alive"
PARTITION_TAG, PROCESS_TAG = "dagster/partition", "cpmi/process"
"""The tags of a run: its partition, and the process id of `cpmi run`."""
AT_WORK = [
    dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]  # fmt: skip
"""States of runs that may have a process; a queued run has none."""
ORPHANED = "The process of this run ended silently (killed, or out of memory); run again to continue where it stopped."
FAILURE_REASON, STOPPED = "dagster/failure_reason", "UNEXPECTED_TERMINATION"
"""The tag and value by which Dagster marks a run that a signal ended, and `end_orphaned_runs` one without a process."""
SECONDS_TO_TAKE_LOCK = 60.0
"""From the start of a run to its first step."""
_held: dict[str, LifeLock] = {}
"""The lock of this process by run id: of its run, or of the last run of `cpmi run`."""


def dagster_folder(settings: Settings) -> Path:
    """`DAGSTER_HOME` of a profile's home."""
    return settings.home / "dagster"


def write_dagster_yaml(settings: Settings) -> Path:
    """Write `dagster.yaml` if it is missing or the profile has changed; the user's own stays.

    Returns:
        The folder to use as `DAGSTER_HOME`.

    Raises:
        SettingsError: the home is a file, or cannot be written.
    """
    folder = dagster_folder(settings)
    try:
        try_to_write(folder)
    except OSError as error:
        raise SettingsError(
            f"the home {folder.parent} cannot be written ({error.strerror}); make it a folder that you may write to, "
            "or set CPMI_HOME to another"
        ) from error
    text = OURS + yaml.safe_dump(_configuration(settings), sort_keys=False)
    file = folder / FILE_NAME
    before = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else OURS
    if before.startswith(OURS) and before != text:
        write_whole(file, text)
    return folder


def open_instance(settings: Settings) -> dg.DagsterInstance:
    """The Dagster instance of a home; orphaned runs are marked as failed, and the output of steps is not captured.

    Raises:
        SettingsError: the home cannot be written, Dagster's database cannot be used, or the user's `dagster.yaml` is
            not valid.
    """
    folder = write_dagster_yaml(settings)
    configuration = yaml.safe_load((folder / FILE_NAME).read_text(encoding="utf-8")) or {}
    text = OURS + yaml.safe_dump({**configuration, **UNCAPTURED}, sort_keys=False)
    file = folder / IN_PROCESS
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        write_whole(file, text)
    instance = _open(settings, IN_PROCESS)
    end_orphaned_runs(instance, settings)
    return instance


def recorded_instance(settings: Settings) -> dg.DagsterInstance:
    """The Dagster instance of a home as the last run left it; one without runs if there is none. No file is written.

    Raises:
        SettingsError: as `open_instance`.
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


def hold_run(settings: Settings, run_id: str, prefix: Sequence[str] = ()) -> None:
    """Hold the lock of the run of this process, until the process ends or begins another run.

    With the prefix of a user's project, none is taken: its Dagster watches its runs, and nothing here reads the lock.
    """
    if run_id not in _held and not prefix:
        _held[run_id] = hold(dagster_folder(settings) / ALIVE / f"{run_id}.lock")
        for other in [name for name in _held if name != run_id]:
            _held.pop(other).close()


def is_orphaned(settings: Settings, record: dg.RunRecord) -> bool:
    """Whether an unfinished run has no process any more."""
    life = life_of(dagster_folder(settings) / ALIVE / f"{record.dagster_run.run_id}.lock")
    if life != "absent":
        return life == "free"
    return record.start_time is not None and time.time() - record.start_time > SECONDS_TO_TAKE_LOCK


def was_interrupted(run: dg.DagsterRun) -> bool:
    """Whether a run that did not succeed was cancelled, or ended with its process, and not by an error."""
    return run.status == dg.DagsterRunStatus.CANCELED or run.tags.get(FAILURE_REASON) == STOPPED


def at_work(instance: dg.DagsterInstance, settings: Settings) -> str:
    """A sentence on the other process that makes tables of this home now; empty if there is none."""
    for record in instance.get_run_records(dg.RunsFilter(statuses=AT_WORK)):
        if record.dagster_run.run_id not in _held and not is_orphaned(settings, record):
            process = record.dagster_run.tags.get(PROCESS_TAG)
            started = datetime.fromtimestamp(record.start_time or record.create_timestamp.timestamp())
            who = f"process {process}" if process else "launched by Dagster"
            return (
                f"another run of this home is at work ({who}, on {record.dagster_run.job_name} since "
                f"{started:%H:%M:%S}); this one waits for each table that it makes (Ctrl-C to stop waiting)"
            )
    return ""


def end_orphaned_runs(instance: dg.DagsterInstance, settings: Settings) -> None:
    """Mark orphaned runs as failed or cancelled, and remove their lock files.

    A launcher that checks its runs itself (Kubernetes, Ray) may resume them: of its runs none is marked here.
    """
    has_checks = instance.run_launcher.supports_check_run_worker_health
    for record in instance.get_run_records(dg.RunsFilter(statuses=AT_WORK)):
        if has_checks and PROCESS_TAG not in record.dagster_run.tags:
            continue
        run = instance.get_run_by_id(record.dagster_run.run_id) if is_orphaned(settings, record) else None
        # a run that finished after it was listed has freed its lock too
        if run is not None and not run.is_finished:
            is_cancelled = run.status == dg.DagsterRunStatus.CANCELING
            (instance.report_run_canceled if is_cancelled else instance.report_run_failed)(run, ORPHANED)
            instance.add_run_tags(run.run_id, {FAILURE_REASON: STOPPED})
    # the lock of an unfinished run stays: whoever resumes the run takes it again
    for path in (dagster_folder(settings) / ALIVE).glob("*.lock"):
        run = instance.get_run_by_id(path.stem)
        if (run is None or run.is_finished) and life_of(path) == "free":
            path.unlink(missing_ok=True)
