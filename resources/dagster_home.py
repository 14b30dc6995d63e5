"""Dagster's own folder, `<home>/dagster`: its database, its logs and the `dagster.yaml` written here."""

import logging
import os
import sys
import time
from pathlib import Path

import dagster as dg
import yaml

from cpmi_dagster.errors import CpmiError, SettingsError
from cpmi_dagster.files.process_identity import has_died
from cpmi_dagster.files.whole_files import try_to_write, write_whole
from cpmi_dagster.profiles.settings import Settings

WORKSPACE = Path(__file__).parents[1] / "workspace.yaml"
PROCESS_TAG = "cpmi/process"
SIDE_BY_SIDE = "side_by_side.yaml"
NO_COMPUTE_LOGS = {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"}
LOG = logging.getLogger(__name__)
DIED = "The process of this run ended silently (killed, or out of memory); run again to continue where it stopped."


def write_dagster_yaml(settings: Settings) -> Path:
    """Write `dagster.yaml` if it is missing or the profile changed it.

    Returns:
        The folder to use as `DAGSTER_HOME`.

    Raises:
        SettingsError: the home is a file, or cannot be written.
    """
    folder = settings.home / "dagster"
    _check_writable(folder)
    text = yaml.safe_dump(_configuration(settings), sort_keys=False)
    file = folder / "dagster.yaml"
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        write_whole(file, text)
    return folder


def _check_writable(folder: Path) -> None:
    try:
        try_to_write(folder)
    except OSError as error:
        raise SettingsError(
            f"the home {folder.parent} cannot be written ({error.strerror}); make it a folder that you may write to, "
            "or set CPMI_HOME to another"
        ) from error


def open_instance(settings: Settings) -> dg.DagsterInstance:
    """The Dagster instance of a home; runs whose process is gone are marked as failed, and their pool slots freed."""
    instance = dg.DagsterInstance.from_config(str(write_dagster_yaml(settings)))
    end_dead_runs(instance)
    return instance


def open_side_by_side(settings: Settings, runs: int) -> dg.DagsterInstance:
    """The Dagster instance of a home for several runs at once in threads of this process.

    Its pools have room for them. What they print is not kept: Dagster captures it for the whole process, one run at a
    time.
    """
    folder = write_dagster_yaml(settings)
    configuration = _configuration(settings)
    pools = {"granularity": "op", "default_limit": runs}
    configuration["concurrency"] = {"runs": {"max_concurrent_runs": runs}, "pools": pools}
    configuration["compute_logs"] = NO_COMPUTE_LOGS
    write_whole(folder / SIDE_BY_SIDE, yaml.safe_dump(configuration, sort_keys=False))
    return dg.DagsterInstance.from_config(str(folder), SIDE_BY_SIDE)


def wait_for_pool(instance: dg.DagsterInstance, pool: str) -> None:
    """Wait until a pool has a free slot. Dagster would wait without a message, and for runs that were killed.

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
            end_dead_runs(instance)
    except KeyboardInterrupt:
        raise CpmiError("interrupted while another run on this home was at work; run again when it has ended") from None


def _is_full(instance: dg.DagsterInstance, pool: str) -> bool:
    state = instance.event_log_storage.get_concurrency_info(pool)
    return state.limit is not None and state.active_slot_count >= state.limit


def end_dead_runs(instance: dg.DagsterInstance) -> None:
    """Mark runs whose process is gone as failed, and free their pool slots."""
    for record in instance.get_run_records(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
        run = record.dagster_run
        if has_died(run.tags.get(PROCESS_TAG, "")):
            instance.report_run_failed(run, DIED)
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)


def serve_ui(settings: Settings, profile: str | None, port: int) -> None:
    """Replace this process with `dagster dev`: the webserver on 127.0.0.1 and the daemon, for this home.

    Args:
        profile: name or path that the user gave, for the code location.
    """
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(write_dagster_yaml(settings)),
        "CPMI_HOME": str(settings.home),
        "CPMI_PROFILE": profile or os.environ.get("CPMI_PROFILE") or settings.profile,
        # `dg dev` replaces `dagster dev`, but takes no workspace file
        "PYTHONWARNINGS": "ignore:Function `dev_command`",
    }
    arguments = ["dagster", "dev", "-w", str(WORKSPACE), "-h", "127.0.0.1", "-p", str(port)]
    os.execve(sys.executable, [sys.executable, "-m", *arguments], environment)


def _configuration(settings: Settings) -> dict[str, object]:
    gpus = settings.orchestration.gpus
    return {
        "telemetry": {"enabled": False},
        "nux": {"enabled": False},
        "concurrency": {
            "runs": {"max_concurrent_runs": max(2, gpus)},
            "pools": {"granularity": "op", "default_limit": gpus},
        },
        "run_monitoring": {"enabled": True, "free_slots_after_run_end_seconds": 30},
        "run_retries": {"enabled": True, "max_retries": 1, "retry_on_asset_or_op_failure": False},
    }
