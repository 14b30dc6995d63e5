"""Which runs of a home still have a process: each holds a lock, `<home>/dagster/alive/RUN_ID.lock`, while it lives.

cpmi run                          takes the lock before the run exists
UI, schedule, backfill, `dg`      the executor takes it as the run's first act

A free lock of an unfinished run means that its process has exited, on this machine or another that shares the home. For
a home on an object store the lock is one of PostgreSQL, where the profile names it; without it, nothing is known of
runs of other machines, and none is taken for orphaned.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Set
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from cpmi_dagster.errors import StorageError
from cpmi_dagster.files.life_locks import LifeLock, hold, life_of
from cpmi_dagster.resources.postgres_locks import LOOK_SECONDS, SharedLock
from cpmi_dagster.resources.run_log import with_console
from cpmi_dagster.resources.shared_locks import SharedLocks, noted_locks

if TYPE_CHECKING:
    from dagster._core.execution.context.system import PlanOrchestrationContext
    from dagster._core.execution.plan.plan import ExecutionPlan
    from dagster._core.execution.retries import RetryMode
    from dagster._core.execution.step_dependency_config import StepDependencyConfig

ALIVE = "alive"
AT_WORK = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
# a run is started a moment before its executor takes the lock
SECONDS_TO_TAKE_LOCK = 60.0
Claim = Callable[[dg.DagsterInstance], None]
SECONDS_TO_RETAKE_LOCK = 6 * LOOK_SECONDS
DIED = "The process of this run ended silently (killed, or out of memory); run again to continue where it stopped."


def hold_run(folder: Path, run_id: str, locks: SharedLocks | None = None) -> LifeLock | SharedLock:
    """Hold the lock of a run that this process executes.

    Args:
        folder: the home's `dagster`.
        locks: of a home on an object store; those noted in the folder by default.
    """
    locks = locks or noted_locks(folder)
    if locks is None or locks.postgres is None:
        return hold(_lock(folder, run_id))
    lock = locks.keep(_name(run_id))
    if lock is None:
        raise StorageError(f"another process is executing the run {run_id}; wait for it to end")
    return lock


def has_died(folder: Path, record: dg.RunRecord) -> bool:
    """Whether a run that is at work has no process any more.

    Args:
        folder: the home's `dagster`.
    """
    run_id, locks = record.dagster_run.run_id, noted_locks(folder)
    life = life_of(_lock(folder, run_id)) if locks is None or locks.postgres is None else _shared_life(locks, run_id)
    if life != "absent":
        return life == "free"
    if locks is not None and locks.postgres is None:
        return False  # it may live on another machine, of whose locks nothing is known
    return record.start_time is not None and time.time() - record.start_time > SECONDS_TO_TAKE_LOCK


def surely_dead(folder: Path, records: Iterable[dg.RunRecord]) -> list[dg.RunRecord]:
    """The runs that have died, looked at twice where a restarted database may have freed the locks of some that live.

    Args:
        folder: the home's `dagster`.
    """
    dead, locks = [record for record in records if has_died(folder, record)], noted_locks(folder)
    if dead and locks is not None and locks.postgres is not None:
        time.sleep(SECONDS_TO_RETAKE_LOCK)
        dead = [record for record in dead if has_died(folder, record)]
    return dead


def _shared_life(locks: SharedLocks, run_id: str) -> str:
    """As `life_of`; PostgreSQL keeps nothing of a lock that is free."""
    return "held" if locks.is_held(_name(run_id)) else "absent"


def dead_runs(instance: dg.DagsterInstance, folder: Path) -> Iterator[dg.RunRecord]:
    """Runs that Dagster has as at work, and whose process is gone."""
    for record in surely_dead(folder, instance.get_run_records(dg.RunsFilter(statuses=AT_WORK))):
        # a run that ended after it was listed has freed its lock too
        if _is_unfinished(instance, record.dagster_run.run_id):
            yield record


def _is_unfinished(instance: dg.DagsterInstance, run_id: str) -> bool:
    run = instance.get_run_by_id(run_id)
    return run is not None and not run.is_finished


def end_dead_runs(instance: dg.DagsterInstance, folder: Path) -> None:
    """Mark runs whose process is gone as failed or cancelled, and free their pool slots."""
    for record in dead_runs(instance, folder):
        run = record.dagster_run
        if run.status == dg.DagsterRunStatus.CANCELING:
            instance.report_run_canceled(run, DIED)
        else:
            instance.report_run_failed(run, DIED)
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    _remove_ended(instance, folder)


def free_slots_of_ended_runs(instance: dg.DagsterInstance, run_ids: Set[str]) -> None:
    """Free the pool slots that runs hold which have ended: they were killed before they could."""
    for run_id in run_ids:
        run = instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            instance.event_log_storage.free_concurrency_slots_for_run(run_id)


def _remove_ended(instance: dg.DagsterInstance, folder: Path) -> None:
    """Remove the lock files of runs that have ended, or were deleted."""
    free = [path for path in (folder / ALIVE).glob("*.lock") if life_of(path) == "free"]
    if not free:
        return
    runs = instance.get_runs(dg.RunsFilter(run_ids=[path.stem for path in free]))
    unfinished = {run.run_id for run in runs if not run.is_finished}
    for path in free:
        if path.stem not in unfinished:
            path.unlink(missing_ok=True)


def _lock(folder: Path, run_id: str) -> Path:
    return folder / ALIVE / f"{run_id}.lock"


def _name(run_id: str) -> str:
    return f"run {run_id}"


def watched_executor(
    folder: Path, locks: SharedLocks | None = None, claim: Claim | None = None
) -> dg.ExecutorDefinition:
    """Dagster's in-process executor; whoever executes a run of the home by it holds the run's lock.

    Args:
        folder: the home's `dagster`.
        locks: of a home on an object store.
        claim: raises where the instance's history of runs is of another home.
    """
    plain = dg.in_process_executor
    create = plain.executor_creation_fn
    assert create is not None

    def watched(context: dg.InitExecutorContext) -> dg.Executor:
        return _WatchedExecutor(create(context), folder, locks, claim)

    schema = plain.config_schema
    return dg.ExecutorDefinition(plain.name, schema, executor_creation_fn=watched)  # pyright: ignore[reportArgumentType]


class _WatchedExecutor(dg.Executor):
    """An executor that holds the run's lock until the run has been recorded as ended."""

    def __init__(self, executor: dg.Executor, folder: Path, locks: SharedLocks | None, claim: Claim | None) -> None:
        self._executor = executor
        self._folder = folder
        self._locks = locks
        self._claim = claim
        self._lock: LifeLock | SharedLock | None = None

    @property
    def retries(self) -> "RetryMode":
        """See `dagster.Executor`."""
        return self._executor.retries

    @property
    def step_dependency_config(self) -> "StepDependencyConfig":
        """See `dagster.Executor`."""
        return self._executor.step_dependency_config

    def execute(
        self, plan_context: "PlanOrchestrationContext", execution_plan: "ExecutionPlan"
    ) -> Iterator[dg.DagsterEvent]:
        """See `dagster.Executor`."""
        if self._claim:
            self._claim(plan_context.instance)
        # kept after the last step: the run is recorded as ended later
        self._lock = hold_run(self._folder, plan_context.run_id, self._locks)
        yield from self._executor.execute(with_console(plan_context), execution_plan)
