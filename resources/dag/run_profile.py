"""`cpmi run`: bring a profile's home up to date."""

from collections.abc import Callable, Sequence

import dagster as dg
from rich.console import Console

from cpmi_dagster.contracts.report_tables import ARTIFACT_NAMES
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.dagster_home import open_instance, storage_errors
from cpmi_dagster.resources.dag.idle_runs import IdleRuns
from cpmi_dagster.resources.dag.progress import Progress
from cpmi_dagster.resources.dag.runs import Outcome, chosen_tables, run_phases
from cpmi_dagster.resources.dag.stage import Stage
from cpmi_dagster.resources.dag.terminal import TerminalProgress
from cpmi_dagster.resources.lake.database import Database
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.parts import partitions_of
from cpmi_dagster.resources.sources.shard_spool import SPOOL, remove_spools

Builder = Callable[[Settings, Progress, frozenset[str]], dg.Definitions]
"""The code location of a profile that reports its progress; the tables named are remade even where nothing changed."""


def run_profile(
    build: Builder,
    stages: Sequence[Stage],
    settings: Settings,
    shards: Sequence[str],
    only: Sequence[str],
    force: bool,
    console: Console,
    quiet: bool,
    until: Sequence[str] = (),
) -> Outcome:
    """Materialize what is missing or stale, with a line for every stage that made rows.

    Args:
        only: `group/asset` keys or group names; all tables where neither is given.
        until: likewise, with all that these are made from.

    Raises:
        UsageError: a name is no asset, or the disk of its history is full.
    """
    wanted = chosen_tables(only, until, stages)
    lake = Lake.of(settings)
    if lake.counted:  # an earlier version has not noted whose results they are
        lake.claim()
    expected = {stage.name: _partition_count(stage, settings, shards) for stage in stages}
    small = [stage.name for stage in stages if stage.table.removeprefix("reports/") in ARTIFACT_NAMES]
    with (
        storage_errors(settings),
        open_instance(settings) as instance,
        TerminalProgress(console, expected, quiet, small) as progress,
    ):
        remake = frozenset(wanted if force else ())
        definitions = build(settings, progress, remake)
        idle = IdleRuns(instance, settings, {key: stage for stage in stages for key in stage.tables}, progress, remake)

        def labelled() -> None:
            database = Database(lake, settings)
            database.publish_changes()
            progress.say(f"  the labels can be read: labels.step_rewards in {database.path}; reward models follow")

        outcome = run_phases(definitions, settings, lake, instance, shards, wanted, idle, labelled)
        if not outcome.failures and not outcome.waiting:
            progress.summary()
    Database(lake, settings).publish_changes()
    remove_spools(lake.work_folder(SPOOL))
    return outcome


def _partition_count(stage: Stage, settings: Settings, shards: Sequence[str]) -> int:
    if stage.tables[0].startswith("labels/"):
        return len(shards)
    return len(partitions_of(stage.tables[0], settings) or [None])
