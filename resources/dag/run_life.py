"""Which runs of a home are orphaned: their process has ended, and nobody has recorded that.

The process of a run holds a lock for as long as it lives, `<home>/dagster/alive/RUN_ID.lock`:

cpmi run                          takes the lock before the run exists
UI, schedule, backfill, `dg`      the executor takes it as the run's first act

An unfinished run whose lock is free is orphaned, on this machine or another that shares the home. For a home on an
object store the lock is one of PostgreSQL, where the profile names it; without it, nothing is known of runs of other
machines, and none is taken for orphaned.

Dagster does the rest: its run monitoring asks the launcher of a home about each run, and its run retries start an
orphaned run again. `cpmi run` works without a daemon, and ends orphaned runs itself.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from dagster._core.execution.retries import RetryMode
from dagster._core.executor.in_process import InProcessExecutor
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus

from cpmi_dagster.errors import CpmiError, StorageError
from cpmi_dagster.files.life_locks import LifeLock, hold, life_of
from cpmi_dagster.resources.dag.history_owner import is_of_another_home
from cpmi_dagster.resources.lake.postgres_locks import LOOK_SECONDS, SharedLock
from cpmi_dagster.resources.lake.shared_locks import SharedLocks, noted_locks

if TYPE_CHECKING:
    from dagster._core.execution.context.system import PlanOrchestrationContext
    from dagster._core.execution.plan.plan import ExecutionPlan

ALIVE = "alive"
AT_WORK = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
# a run is started a moment before its executor takes the lock
SECONDS_TO_TAKE_LOCK = 60.0
SECONDS_TO_RETAKE_LOCK = 6 * LOOK_SECONDS
ORPHANED = "The process of this run ended silently (killed, or out of memory); run again to continue where it stopped."
LOG = logging.getLogger(__name__)


def hold_run(dagster_home: Path, run_id: str, locks: SharedLocks | None = None) -> LifeLock | SharedLock:
    """Hold the lock of a run that this process executes.

    Args:
        locks: of a home on an object store; those noted in its `dagster` folder by default.
    """
    locks = locks or noted_locks(dagster_home)
    if locks is None or locks.postgres is None:
        return hold(dagster_home / ALIVE / f"{run_id}.lock")
    lock = locks.hold(f"run {run_id}")
    if lock is None:
        raise StorageError(f"another process is executing the run {run_id}; wait for it to end")
    return lock


def is_orphaned(dagster_home: Path, record: dg.RunRecord) -> bool:
    """Whether a run that is at work has no process any more."""
    run_id, locks = record.dagster_run.run_id, noted_locks(dagster_home)
    if locks is not None and locks.postgres is not None:
        # PostgreSQL keeps nothing of a lock that is free
        life = "held" if locks.is_held(f"run {run_id}") else "absent"
    else:
        life = life_of(dagster_home / ALIVE / f"{run_id}.lock")
    if life != "absent":
        return life == "free"
    if locks is not None and locks.postgres is None:
        return False  # it may live on another machine, of whose locks nothing is known
    return record.start_time is not None and time.time() - record.start_time > SECONDS_TO_TAKE_LOCK


def orphaned(dagster_home: Path, records: Iterable[dg.RunRecord]) -> list[dg.RunRecord]:
    """The runs that are orphaned, checked twice where a restarted PostgreSQL may have freed the locks of live ones."""
    found, locks = [record for record in records if is_orphaned(dagster_home, record)], noted_locks(dagster_home)
    if found and locks is not None and locks.postgres is not None:
        time.sleep(SECONDS_TO_RETAKE_LOCK)
        found = [record for record in found if is_orphaned(dagster_home, record)]
    return found


def end_orphaned_runs(instance: dg.DagsterInstance, dagster_home: Path) -> None:
    """Mark orphaned runs as failed or cancelled, remove their lock files, and free pool slots of ended runs."""
    free = [path for path in (dagster_home / ALIVE).glob("*.lock") if life_of(path) == "free"]
    for record in orphaned(dagster_home, instance.get_run_records(dg.RunsFilter(statuses=AT_WORK))):
        run = instance.get_run_by_id(record.dagster_run.run_id)
        # a run that ended after it was listed has freed its lock too
        if run is not None and not run.is_finished:
            is_cancelled = run.status == dg.DagsterRunStatus.CANCELING
            (instance.report_run_canceled if is_cancelled else instance.report_run_failed)(run, ORPHANED)
    for path in free:
        path.unlink(missing_ok=True)
    for run_id in instance.event_log_storage.get_concurrency_run_ids():
        run = instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            instance.event_log_storage.free_concurrency_slots_for_run(run_id)


def wait_for_pool(instance: dg.DagsterInstance, pool: str, dagster_home: Path) -> None:
    """Wait until a pool has a free slot. Dagster would wait without a message, and for orphaned runs.

    Raises:
        CpmiError: the wait was interrupted.
    """
    warned = False
    try:
        while _is_full(instance, pool):
            end_orphaned_runs(instance, dagster_home)
            if not _is_full(instance, pool):
                return
            if not warned:
                LOG.warning("another run on this home is at work; waiting for it to end (Ctrl-C ends the wait)")
                warned = True
            time.sleep(1)
    except KeyboardInterrupt:
        raise CpmiError("interrupted while another run on this home was at work; run again when it has ended") from None


def _is_full(instance: dg.DagsterInstance, pool: str) -> bool:
    state = instance.event_log_storage.get_concurrency_info(pool)
    return state.limit is not None and state.active_slot_count >= state.limit


class WatchedExecutor(InProcessExecutor):
    """Dagster's in-process executor, which holds the run's lock until the process ends.

    Args:
        locks: of a home on an object store.
        claim: raises where the instance's history of runs is of another home.
    """

    def __init__(
        self,
        dagster_home: Path,
        locks: SharedLocks | None = None,
        claim: Callable[[dg.DagsterInstance], None] = lambda _: None,
    ) -> None:
        super().__init__(RetryMode.ENABLED)
        self._dagster_home = dagster_home
        self._locks = locks
        self._claim = claim
        self._lock: LifeLock | SharedLock | None = None

    def execute(
        self, plan_context: "PlanOrchestrationContext", execution_plan: "ExecutionPlan"
    ) -> Iterator[dg.DagsterEvent]:
        """See `dagster.Executor`."""
        self._claim(plan_context.instance)
        # kept after the last step: the run is recorded as ended later
        self._lock = hold_run(self._dagster_home, plan_context.run_id, self._locks)
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
        folder = Path(self._instance.root_directory)
        record = self._instance.get_run_record_by_id(run.run_id)
        if record and not is_of_another_home(self._instance, folder) and orphaned(folder, [record]):
            return CheckRunHealthResult(WorkerStatus.FAILED, ORPHANED)
        return CheckRunHealthResult(WorkerStatus.RUNNING)
