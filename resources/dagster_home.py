"""Dagster's own folder, `<home>/dagster`: its database, its logs and the `dagster.yaml` written here."""

import os
import sys
from pathlib import Path

import dagster as dg
import yaml

from cpmi_dagster.settings import Settings

WORKSPACE = Path(__file__).parents[1] / "workspace.yaml"
PID_TAG = "cpmi/pid"
DIED = (
    "The process of this run ended without a word (killed, or out of memory); run again to continue where it stopped."
)


def dagster_folder(settings: Settings) -> Path:
    """Where Dagster keeps its state for a home; what `DAGSTER_HOME` is set to."""
    return settings.home / "dagster"


def write_dagster_yaml(settings: Settings) -> Path:
    """Write `dagster.yaml` if it is missing or the profile changed it.

    Returns:
        The folder to use as `DAGSTER_HOME`.
    """
    folder = dagster_folder(settings)
    folder.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(_configuration(settings), sort_keys=False)
    file = folder / "dagster.yaml"
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        temporary = folder / f".dagster.yaml.{os.getpid()}"
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, file)
    return folder


def open_instance(settings: Settings) -> dg.DagsterInstance:
    """The Dagster instance of a home; runs whose process is gone are marked failed and give back their pool slots."""
    instance = dg.DagsterInstance.from_config(str(write_dagster_yaml(settings)))
    for record in instance.get_run_records(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
        run = record.dagster_run
        if PID_TAG in run.tags and not _is_alive(int(run.tags[PID_TAG])):
            instance.report_run_failed(run, DIED)
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    return instance


def serve_ui(settings: Settings, profile: str | None, port: int) -> None:
    """Replace this process with `dg dev`: the webserver on 127.0.0.1 and the daemon, for this home.

    Args:
        settings: the profile.
        profile: what the user named it by, handed on to the code location.
        port: of the webserver.
    """
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(write_dagster_yaml(settings)),
        "CPMI_HOME": str(settings.home),
        "CPMI_PROFILE": profile or settings.profile,
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


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
