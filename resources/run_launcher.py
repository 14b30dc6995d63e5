"""The launcher that the `dagster.yaml` of a home names: Dagster's own, which also sees that a run's process is gone.

With it, Dagster's run monitoring marks a run as failed whose process was killed, also where the code server that
started it is gone, and starts it again as `run_retries` says. Other launchers (Kubernetes, Ray) have health checks of
their own.
"""

from pathlib import Path

import dagster as dg
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus

from cpmi_dagster.resources.history_owner import is_of_another_home
from cpmi_dagster.resources.run_life import DIED, surely_dead


class WatchedRunLauncher(dg.DefaultRunLauncher):
    """Dagster's default launcher, with a health check: does the run's process hold the run's lock?"""

    @property
    def supports_check_run_worker_health(self) -> bool:
        """See `dagster.RunLauncher`."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """See `dagster.RunLauncher`."""
        folder = Path(self._instance.root_directory)
        if is_of_another_home(self._instance, folder):
            return CheckRunHealthResult(WorkerStatus.RUNNING)  # its locks are not seen from here
        record = self._instance.get_run_record_by_id(run.run_id)
        if record is not None and surely_dead(folder, [record]):
            return CheckRunHealthResult(WorkerStatus.FAILED, DIED)
        return CheckRunHealthResult(WorkerStatus.RUNNING)
