"""Binds the rooms: stages, resources, jobs, schedules and checks of a profile, and the functions behind the commands.

`workspace.yaml` and `[tool.dg]` load `defs`; the profile comes from `CPMI_PROFILE` and `CPMI_HOME`. In a project of
somebody else's, `component` loads `part_of_project`.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import dagster as dg

from cpmi_dagster.assets import alignment, benchmarks, dataset, labels, models, reports, selection, sources
from cpmi_dagster.assets.reports import headline, judged_so_far, labels_made, left_out
from cpmi_dagster.contracts.keys import QUESTIONS, SAMPLED, SHEPHERD
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.commands import labeling_plan
from cpmi_dagster.resources.commands.calibrate import calibrate, write_labels
from cpmi_dagster.resources.commands.doctor import examine
from cpmi_dagster.resources.commands.export import export
from cpmi_dagster.resources.commands.judge_evaluation import evaluate
from cpmi_dagster.resources.commands.trace import trace
from cpmi_dagster.resources.commands.verification import verify_home
from cpmi_dagster.resources.dag import automation, checks, run_sensors, status
from cpmi_dagster.resources.dag.dagster_home import dagster_folder
from cpmi_dagster.resources.dag.materializations import prefixed
from cpmi_dagster.resources.dag.presentation import INPUTS
from cpmi_dagster.resources.dag.progress import LoggedProgress, Progress
from cpmi_dagster.resources.dag.run_life import WatchedExecutor
from cpmi_dagster.resources.dag.run_profile import run_profile
from cpmi_dagster.resources.dag.shard_op import ShardOp
from cpmi_dagster.resources.dag.shard_schedule import check_schedule, shard_schedule
from cpmi_dagster.resources.dag.stage import Stage
from cpmi_dagster.resources.dag.starter import starter_for
from cpmi_dagster.resources.dag.table_inputs import TableInputs
from cpmi_dagster.resources.lake.database import Database, query
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.resources.web.dagster_server import check_port, serve_ui
from cpmi_dagster.resources.web.explorer import serve_explorer
from cpmi_dagster.resources.workers.language_models import LanguageModels

__all__ = [
    "calibrate", "check_port", "check_schedule", "defs",
    "evaluate", "examine", "export", "headline", "home_status", "judged_so_far", "labels_made", "left_out",
    "load_settings", "of_earlier_runs", "part_of_project", "plan", "query", "run_with_progress", "serve_explorer",
    "serve_ui", "starter_for", "trace", "verify_home", "write_labels",
]  # fmt: skip

ROOMS = (sources, alignment, selection, labels, dataset, models, benchmarks, reports)
STAGES: tuple[Stage, ...] = tuple(stage for room in ROOMS for stage in room.STAGES)
MAKERS = {key: stage for stage in STAGES for key in stage.tables}
GROUPS = tuple(room.__name__.rpartition(".")[2] for room in ROOMS)


def build_definitions(
    settings: Settings, progress: Progress | None = None, remake: frozenset[str] = frozenset()
) -> dg.Definitions:
    """The code location of a profile. A run is one process: its models are loaded once.

    Args:
        settings: the profile.
        progress: receives the progress of long stages; the run's log by default.
        remake: tables to rebuild even where nothing changed.
    """
    lake, jobs = Lake.of(settings, remake), automation.jobs(settings)
    return dg.Definitions(
        assets=_assets(settings),
        asset_checks=[check.bind() for check in checks.CHECKS],
        resources=_resources(settings, lake, progress),
        jobs=[*jobs.values()],
        schedules=[shard_schedule(settings, MAKERS, jobs[automation.LABEL])],
        sensors=[
            run_sensors.failed_runs(settings),
            run_sensors.changed_sources(settings, MAKERS),
            *automation.AUTOMATION,
        ],
        executor=WatchedExecutor(dagster_folder(settings)),
    )


def part_of_project(
    settings: Settings, prefix: Sequence[str], last_group: str, upstream: Sequence[dg.AssetKey] = ()
) -> dg.Definitions:
    """The assets of a profile, with their checks and resources, in a code location that has others.

    Jobs, schedules, sensors and the executor are the project's own, and so is what happens by itself.

    Args:
        prefix: what the keys of all assets, and the names of ops and resources, begin with.
        last_group: of `GROUPS`; those after it are left out.
        upstream: the assets that write the trajectories.
    """
    lake, rooms = Lake.of(settings), ROOMS[: GROUPS.index(last_group) + 1]
    resources = _resources(settings, lake) | {INPUTS: TableInputs(lake, prefix)}
    made = {key for room in rooms for stage in room.STAGES for key in stage.tables}
    return dg.Definitions(
        assets=_assets(settings, rooms, prefix, upstream),
        asset_checks=[check.bind(prefix) for check in checks.CHECKS if check.table in made],
        resources={prefixed(name, prefix): value for name, value in resources.items()},
    )


def _assets(
    settings: Settings,
    rooms: Sequence[Any] = ROOMS,
    prefix: Sequence[str] = (),
    upstream: Sequence[dg.AssetKey] = (),
) -> list[dg.AssetsDefinition]:
    """The assets of some groups; those of the labels are one op.

    Somebody else's project has those of questions only where solutions are sampled.
    """
    own, ops = {"prefix": tuple(prefix)}, list[Stage | ShardOp]()
    first, left_out = (QUESTIONS, ()) if settings.sources.sample else (SHEPHERD, (QUESTIONS, SAMPLED) if prefix else ())
    for room in rooms:
        stages = [
            replace(
                stage,
                inputs=[key for key in stage.inputs if key not in left_out],
                upstream=tuple(upstream) if stage.table == first else (),
                **own,
            )
            for stage in room.STAGES
            if stage.table not in left_out
        ]
        label_checks = [replace(check, **own) for check in checks.LABEL_CHECKS]
        ops += [ShardOp("labels", stages, label_checks, **own)] if room is labels else stages
    makers = {key: stage for op in ops for stage in getattr(op, "stages", [op]) for key in stage.tables}
    return [op.bind(settings, makers) for op in ops]


def _resources(settings: Settings, lake: Lake, progress: Progress | None = None) -> dict[str, Any]:
    return {
        "settings": settings,
        "lake": lake,
        "models": LanguageModels(settings),
        "sources": DataSources(settings),
        "database": Database(lake, settings, is_of_run=progress is not None),
        "progress": progress or LoggedProgress(),
    }


home_status = partial(status.home_status, stages=MAKERS)
of_earlier_runs = partial(reports.of_earlier_runs, stages=MAKERS)
plan = partial(labeling_plan.plan, makers=MAKERS)
run_with_progress = partial(run_profile, build_definitions, STAGES)


@dg.definitions
def defs() -> dg.Definitions:
    """The code location that Dagster loads."""
    return build_definitions(load_settings())
