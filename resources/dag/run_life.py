"""Which runs of a home are orphaned: their process has ended, and nobody has recorded that.

The process of a run holds a lock for as long as it lives, `<home>/dagster/alive/RUN_ID.lock`:

cpmi run                          takes the lock before the run exists
UI, schedule, backfill, `dg`      the executor takes it as the run's first act

An unfinished run whose lock is free is orphaned, on this machine or another that shares the home.

Dagster does the rest: its run monitoring asks the launcher of a home about each run, and its run retries start an
orphaned run again. `cpmi run` works without a daemon, and ends orphaned runs itself.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from dagster._core.execution.retries import RetryMode
from dagster._core.executor.in_process import InProcessExecutor
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus

from cpmi_dagster.files.life_locks import LifeLock, hold, life_of

if TYPE_CHECKING:
    from dagster._core.execution.context.system import PlanOrchestrationContext
    from dagster._core.execution.plan.plan import ExecutionPlan

ALIVE = "alive"
AT_WORK = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
# a run is started a moment before its executor takes the lock
SECONDS_TO_TAKE_LOCK = 60.0
ORPHANED = "The process of this run ended silently (killed, or out of memory); run again to continue where it stopped."


def hold_run(dagster_home: Path, run_id: str) -> LifeLock:
    """Hold the lock of a run that this process executes."""
    return hold(dagster_home / ALIVE / f"{run_id}.lock")


def is_orphaned(dagster_home: Path, record: dg.RunRecord) -> bool:
    """Whether a run that is at work has no process any more."""
    life = life_of(dagster_home / ALIVE / f"{record.dagster_run.run_id}.lock")
    if life != "absent":
        return life == "free"
    return record.start_time is not None and time.time() - record.start_time > SECONDS_TO_TAKE_LOCK


def end_orphaned_runs(instance: dg.DagsterInstance, dagster_home: Path) -> None:
    """Mark orphaned runs as failed or cancelled, and remove their lock files."""
    free = [path for path in (dagster_home / ALIVE).glob("*.lock") if life_of(path) == "free"]
    for record in instance.get_run_records(dg.RunsFilter(statuses=AT_WORK)):
        run = instance.get_run_by_id(record.dagster_run.run_id) if is_orphaned(dagster_home, record) else None
        # a run that ended after it was listed has freed its lock too
        if run is not None and not run.is_finished:
            is_cancelled = run.status == dg.DagsterRunStatus.CANCELING
            (instance.report_run_canceled if is_cancelled else instance.report_run_failed)(run, ORPHANED)
    for path in free:
        path.unlink(missing_ok=True)


class WatchedExecutor(InProcessExecutor):
    """Dagster's in-process executor, which holds the run's lock until the process ends."""

    def __init__(self, dagster_home: Path) -> None:
        super().__init__(RetryMode.ENABLED)
        self._dagster_home = dagster_home
        self._lock: LifeLock | None = None

    def execute(
        self, plan_context: "PlanOrchestrationContext", execution_plan: "ExecutionPlan"
    ) -> Iterator[dg.DagsterEvent]:
        """See `dagster.Executor`."""
        # kept after the last step: the run is recorded as ended later
        self._lock = hold_run(self._dagster_home, plan_context.run_id)
        yield from super().execute(plan_context, execution_plan)


class WatchedRunLauncher(dg.DefaultRunLauncher):
    """Dagster's default launcher with a health check, named in the `dagster.yaml` of a home.

    Without one, Dagster's run monitoring does not check runs. A code server fails the runs whose process it sees die,
    but not those that die with it, nor those of `cpmi run`. Other launchers (Kubernetes, Ray) have checks of their own.
    """

    @property
    def supports_check_run_worker_health(self) -> bool:
        """See `dagster.RunLauncher`."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """See `dagster.RunLauncher`."""
        record = self._instance.get_run_record_by_id(run.run_id)
        if record and is_orphaned(Path(self._instance.root_directory), record):
            return CheckRunHealthResult(WorkerStatus.FAILED, ORPHANED)
        return CheckRunHealthResult(WorkerStatus.RUNNING)
