"""`cpmi run`: bring a profile's home up to date."""

from collections.abc import Sequence
from functools import partial

from rich.console import Console

from assets.idle_runs import IdleRuns
from assets.label_processes import Builder, label_on_gpus
from assets.runs import Outcome, check_shards, chosen_tables, run_phases
from assets.sources import SPOOL
from cpmi_dagster.profiles.settings import Settings
from resources.dagster_home import open_instance
from resources.lake import Lake
from resources.profile_at_work import profile_at_work
from resources.shard_spool import remove_spools
from resources.stage import Stage
from resources.stage_run import partitions_of
from resources.terminal import TerminalProgress


def run_profile(
    build: Builder,
    stages: Sequence[Stage],
    settings: Settings,
    shards: Sequence[str],
    only: Sequence[str],
    force: bool,
    console: Console,
    quiet: bool,
) -> Outcome:
    """Materialize what is missing or stale, with a line for every stage that is done.

    Args:
        only: `group/asset` keys or group names; all tables where empty.

    Raises:
        SettingsError: `only` names no asset, or the home was made with more shards.
        LakeError: a run of another profile is at work on this home.
    """
    wanted = chosen_tables(only, [stage.tables for stage in stages])
    lake = Lake(settings.home)
    check_shards(lake, settings)
    expected = {stage.name: _partition_count(stage, settings, shards) for stage in stages}
    with (
        open_instance(settings) as instance,
        profile_at_work(settings),
        TerminalProgress(console, expected, quiet) as progress,
    ):
        remake = frozenset(wanted if force else ())
        definitions = build(settings, progress, remake)
        several = min(settings.orchestration.gpus, len(shards)) > 1
        label = partial(label_on_gpus, build, settings, shards, remake, progress) if several else None
        idle = IdleRuns(instance, settings, {key: stage for stage in stages for key in stage.tables}, progress, remake)
        outcome = run_phases(definitions, settings, lake, instance, shards, wanted, label, idle)
        if not outcome.failures and not outcome.waiting:
            progress.summary()
    remove_spools(lake.work_folder(SPOOL))
    return outcome


def _partition_count(stage: Stage, settings: Settings, shards: Sequence[str]) -> int:
    if stage.tables[0].startswith("labels/"):
        return len(shards)
    return len(partitions_of(stage.tables[0], settings) or [None])
