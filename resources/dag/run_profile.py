"""`cpmi run`: bring a profile's home up to date."""

from collections.abc import Callable, Sequence

import dagster as dg
from rich.console import Console

from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.dagster_home import open_instance, storage_errors
from cpmi_dagster.resources.dag.declaration import Declaration, distinct
from cpmi_dagster.resources.dag.progress import Progress
from cpmi_dagster.resources.dag.runs import Outcome, Runner, chosen_tables
from cpmi_dagster.resources.dag.stage_run import Home
from cpmi_dagster.resources.dag.terminal import TerminalProgress
from cpmi_dagster.resources.lake.database import FILE_NAME, publish
from cpmi_dagster.resources.lake.home_file import note_home
from cpmi_dagster.resources.lake.lake import Lake, partitions_of

HomeOf = Callable[[Settings, Progress], Home]
Builder = Callable[[Home], dg.Definitions]


def run_profile(
    home_of: HomeOf,
    build: Builder,
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
        home_of: what the stages of a profile use.
        build: the code location of it.
        only: `group/asset` keys or group names; all tables where neither is given.
        until: likewise, with all that these are made from.
        force: make tables again even where nothing changed; what models have answered is kept.

    Raises:
        UsageError: a name is no asset, or the disk of its history is full.
    """
    note_home(settings, Lake(settings.home).remove_shards)
    expected: dict[str, int] = {}
    progress = TerminalProgress(console, expected, quiet)
    home = home_of(settings, progress)
    stages = distinct(home.stages.values())
    wanted = chosen_tables(only, until, stages)
    expected.update({stage.name: len(_partitions(stage, settings, shards)) for stage in stages})
    if force:
        chosen = (stage for stage in stages if set(stage.tables) & wanted)
        home.remake.update(f"{each.table} {name}" for each in chosen for name in _partitions(each, settings, shards))
    with storage_errors(settings), open_instance(settings) as instance, progress:

        def labelled() -> None:
            publish(home.lake, settings)
            path = settings.home / FILE_NAME
            progress.say(f"  the labels can be read: labels.step_rewards in {path}; reward models follow")

        outcome = Runner(build(home), home, instance).run(shards, wanted, labelled)
        if not outcome.failures and not outcome.waiting:
            progress.summary()
    publish(home.lake, settings)
    return outcome


def _partitions(stage: Declaration, settings: Settings, shards: Sequence[str]) -> Sequence[str | None]:
    if stage.table.startswith("labels/"):
        return shards
    return (partitions_of(stage.table, settings) if stage.partitioning else None) or [None]
