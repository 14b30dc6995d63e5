"""Orphaned runs: their process has ended, and Dagster has no record of that.

The process of a run holds the lock `<home>/dagster/alive/RUN_ID.lock`, which the system frees however the process ends.
`cpmi run` takes it before the run exists, a run of the UI or a backfill in its first step. An unfinished run whose lock
is free is orphaned, on any machine that shares the home. It is marked as failed when `cpmi run` or `cpmi ui` begins,
and by each tick of the sensor `watch_home`, which is on by default, and of the schedule.
"""

import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import dagster as dg

from cpmi_dagster.files.life_locks import LifeLock, hold, life_of

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


def hold_run(dagster_home: Path, run_id: str, prefix: Sequence[str] = ()) -> None:
    """Hold the lock of the run of this process, until the process ends or begins another run.

    With the prefix of a user's project, none is taken: its Dagster watches its runs, and nothing here reads the lock.
    """
    if run_id not in _held and not prefix:
        _held[run_id] = hold(dagster_home / ALIVE / f"{run_id}.lock")
        for other in [name for name in _held if name != run_id]:
            _held.pop(other).close()


def is_orphaned(dagster_home: Path, record: dg.RunRecord) -> bool:
    """Whether an unfinished run has no process any more."""
    life = life_of(dagster_home / ALIVE / f"{record.dagster_run.run_id}.lock")
    if life != "absent":
        return life == "free"
    return record.start_time is not None and time.time() - record.start_time > SECONDS_TO_TAKE_LOCK


def was_interrupted(run: dg.DagsterRun) -> bool:
    """Whether a run that did not succeed was cancelled, or ended with its process, and not by an error."""
    return run.status == dg.DagsterRunStatus.CANCELED or run.tags.get(FAILURE_REASON) == STOPPED


def at_work(instance: dg.DagsterInstance, dagster_home: Path) -> str:
    """A sentence on the other process that makes tables of this home now; empty if there is none."""
    for record in instance.get_run_records(dg.RunsFilter(statuses=AT_WORK)):
        if record.dagster_run.run_id not in _held and not is_orphaned(dagster_home, record):
            process = record.dagster_run.tags.get(PROCESS_TAG)
            started = datetime.fromtimestamp(record.start_time or record.create_timestamp.timestamp())
            who = f"process {process}" if process else "launched by Dagster"
            return (
                f"another run of this home is at work ({who}, on {record.dagster_run.job_name} since "
                f"{started:%H:%M:%S}); this one waits for each table that it makes (Ctrl-C to stop waiting)"
            )
    return ""


def end_orphaned_runs(instance: dg.DagsterInstance, dagster_home: Path) -> None:
    """Mark orphaned runs as failed or cancelled, and remove their lock files.

    A launcher that checks its runs itself (Kubernetes, Ray) may resume them: of its runs none is marked here.
    """
    has_checks = instance.run_launcher.supports_check_run_worker_health
    for record in instance.get_run_records(dg.RunsFilter(statuses=AT_WORK)):
        if has_checks and PROCESS_TAG not in record.dagster_run.tags:
            continue
        run = instance.get_run_by_id(record.dagster_run.run_id) if is_orphaned(dagster_home, record) else None
        # a run that finished after it was listed has freed its lock too
        if run is not None and not run.is_finished:
            is_cancelled = run.status == dg.DagsterRunStatus.CANCELING
            (instance.report_run_canceled if is_cancelled else instance.report_run_failed)(run, ORPHANED)
            instance.add_run_tags(run.run_id, {FAILURE_REASON: STOPPED})
    # the lock of an unfinished run stays: whoever resumes the run takes it again
    for path in (dagster_home / ALIVE).glob("*.lock"):
        run = instance.get_run_by_id(path.stem)
        if (run is None or run.is_finished) and life_of(path) == "free":
            path.unlink(missing_ok=True)
