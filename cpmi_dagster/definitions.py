"""Binds the rooms: the code location of a profile, and the functions behind the commands.

`workspace.yaml` and `[tool.dg]` load `defs` with the profile of `CPMI_PROFILE` and `CPMI_HOME`; a project that has
other assets loads `part_of_project` through `component`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import dagster as dg

from cpmi_dagster.assets import alignment, benchmarks, dataset, labels, models, reports, selection, sources
from cpmi_dagster.contracts.keys import QUESTIONS, SHEPHERD
from cpmi_dagster.profiles.partitions import needed_tables
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.commands import plan as plans
from cpmi_dagster.resources.commands import summary
from cpmi_dagster.resources.commands.given_rows import read_file
from cpmi_dagster.resources.commands.label import count_unknown, labeling_settings, write_labelled
from cpmi_dagster.resources.commands.ui import check_port, serve_ui
from cpmi_dagster.resources.dag import checks, jobs, run, sensors, status
from cpmi_dagster.resources.dag.general_checks import currency_check
from cpmi_dagster.resources.dag.home_resources import INPUTS, TableInputs, shown_resources
from cpmi_dagster.resources.dag.making import asset_of
from cpmi_dagster.resources.dag.progress import Progress
from cpmi_dagster.resources.dag.sensors import check_schedule
from cpmi_dagster.resources.dag.stage import Stage, distinct, prefixed
from cpmi_dagster.resources.dag.stage_run import Home
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.models.language_models import LanguageModels
from cpmi_dagster.resources.sources.data_sources import DataSources

__all__ = [
    "check_port", "check_schedule", "count_unknown", "defs", "describe_labels", "dry_run", "home_status",
    "labeling_settings", "load_settings", "narrow_pilot", "part_of_project", "plan", "read_file", "run_with_progress",
    "serve_ui", "summarise", "what_is_stale", "write_labelled",
]  # fmt: skip

ROOMS = (sources, alignment, selection, labels, dataset, models, benchmarks, reports)
STAGES: tuple[Stage, ...] = tuple(stage for room in ROOMS for stage in room.STAGES)
STAGE_BY_TABLE = {key: stage for stage in STAGES for key in stage.tables}
GROUPS = tuple(room.__name__.rpartition(".")[2] for room in ROOMS)


def home_of(
    settings: Settings,
    progress: Progress | None = None,
    stages: Mapping[str, Stage] = STAGE_BY_TABLE,
    prefix: Sequence[str] = (),
) -> Home:
    """Resources of the stages of a profile.

    Args:
        progress: progress of long stages; the run's log by default.
        stages: stage of each table; those that the profile does not ask for are left out.
        prefix: of the asset keys.
    """
    models, sources = LanguageModels(settings), DataSources(settings)
    needed = {key: stages[key] for key in needed_tables(settings) if key in stages}
    return Home(settings, Lake.of(settings, prefix), models, sources, progress or Progress(), needed)


def build_definitions(home: Home, judge: Callable[[], States] | None = None) -> dg.Definitions:
    """The code location of a profile. A run is one process, so that models are loaded once.

    Args:
        judge: the states of all partitions, judged anew; by default by the settings of the home.
    """
    settings, job_by_name, judge = home.settings, jobs.define_jobs(home.settings), judge or home.states
    return dg.Definitions(
        assets=_assets_of(home),
        asset_checks=_checks_of(home, judge),
        jobs=[*job_by_name.values()],
        schedules=[sensors.shard_schedule(settings, judge, job_by_name[jobs.LABEL])],
        sensors=[
            sensors.failed_runs(settings),
            sensors.watch_home(settings, judge, job_by_name[jobs.JUDGE_FILES]),
            *sensors.followers(judge, job_by_name),
        ],
        resources=shown_resources(home),
        executor=dg.in_process_executor,
    )


def _assets_of(home: Home) -> list[dg.AssetsDefinition]:
    return [asset_of(stage, home) for stage in distinct(home.stages.values())]


def _checks_of(home: Home, judge: Callable[[], States], prefix: Sequence[str] = ()) -> list[dg.AssetsDefinition]:
    there = [check for check in checks.CHECKS if check.table in home.stages]
    return [
        *(check.bind(home.lake, home.settings, prefix) for check in there),
        currency_check([key for stage in distinct(home.stages.values()) for key in stage.assets], judge, prefix),
    ]


def part_of_project(
    settings: Settings, prefix: Sequence[str], last_group: str, upstream: Sequence[dg.AssetKey] = ()
) -> dg.Definitions:
    """The assets and checks of a profile for a project that has other assets.

    No jobs, schedules or sensors.

    Args:
        prefix: of asset keys, and of names of ops and resources.
        last_group: of `GROUPS`; later groups are left out.
        upstream: assets that write the trajectories.
    """
    first = QUESTIONS if settings.sources.sample else SHEPHERD
    stages = [
        replace(stage, upstream=tuple(upstream) if stage.table == first else (), prefix=tuple(prefix))
        for room in ROOMS[: GROUPS.index(last_group) + 1]
        for stage in room.STAGES
    ]
    home = home_of(settings, stages={key: stage for stage in stages for key in stage.tables}, prefix=prefix)
    return dg.Definitions(
        assets=_assets_of(home),
        asset_checks=_checks_of(home, home.states, prefix),
        resources={prefixed(INPUTS, prefix): TableInputs(home.lake, prefix), **shown_resources(home, prefix)},
    )


home_status = partial(status.home_status, stages=STAGE_BY_TABLE)
what_is_stale = partial(status.what_is_stale, stages=STAGE_BY_TABLE)
describe_labels = status.describe_labels
summarise = partial(summary.summarise, stages=STAGE_BY_TABLE)
plan = partial(plans.plan, stage_by_table=STAGE_BY_TABLE)
narrow_pilot = partial(run.narrow_pilot, stages=STAGE_BY_TABLE)
run_with_progress = partial(run.run_profile, home_of, build_definitions)
dry_run = partial(run.dry_run, home_of)


@dg.definitions
def defs() -> dg.Definitions:
    """The code location that Dagster loads."""
    return build_definitions(home_of(load_settings()), lambda: home_of(load_settings()).states())
