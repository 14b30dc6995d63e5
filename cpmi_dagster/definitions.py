"""Binds the rooms: stages, resources, jobs, schedules and checks of a profile, and the functions behind the commands.

`workspace.yaml` and `[tool.dg]` load `defs`; the profile comes from `CPMI_PROFILE` and `CPMI_HOME`.
"""

from functools import partial

import dagster as dg

from cpmi_dagster.assets import alignment, benchmarks, dataset, labels, models, reports, selection, sources
from cpmi_dagster.assets.reports import headline, labels_made
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.commands import labeling_plan
from cpmi_dagster.resources.commands.calibrate import calibrate, write_labels
from cpmi_dagster.resources.commands.clean import remove_unused, unused_files
from cpmi_dagster.resources.commands.doctor import examine
from cpmi_dagster.resources.commands.export import ExportRequest, export
from cpmi_dagster.resources.commands.judge_evaluation import evaluate
from cpmi_dagster.resources.commands.trace import trace
from cpmi_dagster.resources.commands.verification import verify_home
from cpmi_dagster.resources.dag import automation, checks, run_sensors, status
from cpmi_dagster.resources.dag.column_origins import column_origins as origins_of_column
from cpmi_dagster.resources.dag.dagster_home import dagster_folder
from cpmi_dagster.resources.dag.history_owner import claim_history
from cpmi_dagster.resources.dag.home_checks import home_checks
from cpmi_dagster.resources.dag.progress import LoggedProgress, Progress
from cpmi_dagster.resources.dag.run_life import WatchedExecutor
from cpmi_dagster.resources.dag.run_log import console_loggers
from cpmi_dagster.resources.dag.run_profile import run_profile
from cpmi_dagster.resources.dag.shard_op import ShardOp
from cpmi_dagster.resources.dag.shard_schedule import check_schedule, shard_schedule
from cpmi_dagster.resources.dag.stage import Stage
from cpmi_dagster.resources.dag.starter import starter_for
from cpmi_dagster.resources.lake.database import Database, query
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.shared_locks import shared_locks
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.resources.web.dagster_server import check_port, serve_ui
from cpmi_dagster.resources.web.explorer import serve_explorer
from cpmi_dagster.resources.web.judge_server import JudgeServerRequest, serve_judge
from cpmi_dagster.resources.workers.language_models import LanguageModels

__all__ = [
    "ExportRequest", "JudgeServerRequest", "calibrate", "check_port", "check_schedule", "column_origins", "defs",
    "evaluate", "examine", "export", "headline", "home_status", "labels_made", "load_settings", "plan", "query",
    "remove_unused", "run_with_progress", "serve_explorer", "serve_judge", "serve_ui", "starter_for", "trace",
    "unused_files", "verify_home", "write_labels",
]  # fmt: skip

ROOMS = (sources, alignment, selection, labels, dataset, models, benchmarks, reports)
STAGES: tuple[Stage, ...] = tuple(stage for room in ROOMS for stage in room.STAGES)
MAKERS = {key: stage for stage in STAGES for key in stage.tables}
LABELS = ShardOp("labels", labels.STAGES, checks.LABEL_CHECKS)


def build_definitions(
    settings: Settings, progress: Progress | None = None, remake: frozenset[str] = frozenset()
) -> dg.Definitions:
    """The code location of a profile. A run is one process: its models are loaded once.

    Args:
        settings: the profile.
        progress: receives the progress of long stages; the run's log by default.
        remake: tables to rebuild even where nothing changed.
    """
    locks, folder = shared_locks(settings), dagster_folder(settings)
    lake, jobs = Lake.of(settings, remake), automation.jobs(settings)
    claim = partial(claim_history, settings=settings, folder=folder)
    others = (stage for room in ROOMS if room is not labels for stage in room.STAGES)
    return dg.Definitions(
        assets=[LABELS.bind(settings, MAKERS), *(stage.bind(settings, MAKERS) for stage in others)],
        asset_checks=[*checks.CHECKS, home_checks(MAKERS)],
        resources={
            "settings": settings,
            "lake": lake,
            "models": LanguageModels(settings),
            "sources": DataSources(settings),
            "database": Database(lake, settings, is_of_run=progress is not None),
            "progress": progress or LoggedProgress(),
        },
        jobs=[*jobs.values(), automation.CHECK_JOB],
        schedules=[shard_schedule(settings, MAKERS, jobs[automation.LABEL]), automation.CHECK_SCHEDULE],
        sensors=[
            run_sensors.failed_runs(settings),
            run_sensors.changed_sources(settings, MAKERS),
            *automation.AUTOMATION,
        ],
        executor=WatchedExecutor(folder, locks, claim),
        loggers=console_loggers(),
    )


column_origins = partial(origins_of_column, MAKERS)
home_status = partial(status.home_status, stages=MAKERS)
plan = partial(labeling_plan.plan, makers=MAKERS)
run_with_progress = partial(run_profile, build_definitions, STAGES)


@dg.definitions
def defs() -> dg.Definitions:
    """The code location that Dagster loads."""
    return build_definitions(load_settings())
