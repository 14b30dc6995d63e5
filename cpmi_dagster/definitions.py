"""Binds the rooms: stages, resources, jobs, schedules and checks of a profile, and what the commands do with them.

`workspace.yaml` and `[tool.dg]` load `defs`; the profile comes from `CPMI_PROFILE` and `CPMI_HOME`.
"""

from collections.abc import Sequence
from typing import Any

import dagster as dg
import polars as pl
from rich.console import Console

from assets import alignment, automation, benchmarks, checks, dataset, labels, models, reports, selection, sources
from assets.runs import Outcome, check_shards, chosen_tables, run_phases
from assets.sources import SPOOL
from cpmi_dagster.settings import Settings, load_settings
from cpmi_dagster.tables import TABLES
from resources.dagster_home import open_instance, serve_ui
from resources.data_sources import DataSources
from resources.database import Database, ask
from resources.lake import Lake
from resources.language_models import LanguageModels
from resources.progress import LoggedProgress, Progress
from resources.shard_spool import remove_abandoned
from resources.stage import Stage
from resources.stage_run import partitions_of
from resources.status import AssetStatus, asset_status
from resources.terminal import TerminalProgress
from resources.trace import Trace
from resources.trace import trace as follow

ROOMS = (sources, alignment, selection, labels, dataset, models, benchmarks, reports)
STAGES: tuple[Stage, ...] = tuple(stage for room in ROOMS for stage in room.STAGES)


def build_resources(settings: Settings, progress: Progress, forget: frozenset[str] = frozenset()) -> dict[str, Any]:
    """What stages touch, by name.

    Args:
        settings: the profile.
        progress: where the progress of long work goes.
        forget: tables to make again even where nothing changed.
    """
    lake = Lake(settings.home, forget)
    return {
        "settings": settings,
        "lake": lake,
        "models": LanguageModels(settings),
        "sources": DataSources(settings),
        "database": Database(lake),
        "progress": progress,
    }


def build_definitions(
    settings: Settings, progress: Progress | None = None, forget: frozenset[str] = frozenset()
) -> dg.Definitions:
    """The code location of a profile. A run is one process: its models are loaded once."""
    return dg.Definitions(
        assets=[stage.bind(settings) for stage in STAGES],
        asset_checks=list(checks.CHECKS),
        resources=build_resources(settings, progress or LoggedProgress(), forget),
        jobs=list(automation.JOBS.values()),
        schedules=[automation.shard_schedule(settings)],
        executor=dg.in_process_executor,
    )


def run_with_progress(
    settings: Settings, shards: Sequence[str], only: Sequence[str], force: bool, console: Console, quiet: bool
) -> Outcome:
    """Materialize what is missing or stale in this process, with a line for every stage that is done.

    Raises:
        SettingsError: `only` names no asset, or the home was made with more shards.
    """
    wanted = chosen_tables(only, [stage.tables for stage in STAGES])
    lake = Lake(settings.home)
    check_shards(lake, settings)
    remove_abandoned(lake.work_folder(SPOOL))
    expected = {stage.name: _partition_count(stage, settings, shards) for stage in STAGES}
    with open_instance(settings) as instance, TerminalProgress(console, expected, quiet) as progress:
        definitions = build_definitions(settings, progress, frozenset(wanted if force else ()))
        outcome = run_phases(definitions, settings, lake, instance, shards, wanted)
        progress.summary()
    return outcome


def _partition_count(stage: Stage, settings: Settings, shards: Sequence[str]) -> int:
    if stage.tables[0].startswith("labels/"):
        return len(shards)
    return len(partitions_of(stage.tables[0], settings) or [None])


def headline(settings: Settings) -> pl.DataFrame:
    """The headline table as text; empty where the report has not been made."""
    return reports.headline(Lake(settings.home))


def status(settings: Settings) -> list[AssetStatus]:
    """Every asset's partitions: done, failed, missing."""
    lake = Lake(settings.home)
    with open_instance(settings) as instance:
        states = {key: automation.partition_states(instance, lake, settings, key) for key in TABLES}
    return [asset_status(key, found, lake) for key, found in states.items()]


def query(settings: Settings, sql: str) -> pl.DataFrame:
    """The rows of a read-only query.

    Raises:
        CpmiError: nothing has been published yet, or DuckDB refuses the query.
    """
    with Database(Lake(settings.home)).reader() as connection:
        return ask(connection, sql)


def trace(settings: Settings, trajectory_id: str, step: int | None) -> Trace:
    """Everything a trajectory's labels came from.

    Raises:
        CpmiError: there is no such trajectory or step.
    """
    lake = Lake(settings.home)
    return follow(Database(lake), lake, settings, trajectory_id, step)


def serve(settings: Settings, profile: str | None, port: int) -> None:
    """Replace this process with the Dagster UI and its daemon on 127.0.0.1."""
    serve_ui(settings, profile, port)


@dg.definitions
def defs() -> dg.Definitions:
    """The code location that Dagster loads."""
    return build_definitions(load_settings())
