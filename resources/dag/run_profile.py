"""`cpmi run`: bring a profile's home up to date."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product

import dagster as dg
from rich.console import Console

from cpmi_dagster.contracts.keys import QUESTIONS, SHEPHERD
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.dagster_home import dagster_folder, open_instance, storage_errors
from cpmi_dagster.resources.dag.declaration import Declaration, distinct
from cpmi_dagster.resources.dag.progress import LoggedProgress, Progress, TerminalProgress
from cpmi_dagster.resources.dag.run_life import at_work
from cpmi_dagster.resources.dag.runs import Outcome, Runner, chosen_tables
from cpmi_dagster.resources.dag.stage_run import Home
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.lake.database import FILE_NAME, publish
from cpmi_dagster.resources.lake.home_file import note_home
from cpmi_dagster.resources.lake.lake import Lake, partitions_of

ROWS_LOOKED_AT = 4
"""For each trajectory that a pilot labels: some rows are rejected, and a selection has shares to keep."""
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
    """Materialize what is missing or stale, with a line for each stage that made rows.

    Args:
        home_of: makes the home that the stages use.
        build: makes the definitions of a home.
        only: `group/asset` keys or group names; all tables if neither this nor `until` is given.
        until: keys or group names, which are made with all of their inputs.
        force: make tables again though nothing changed; answers of models are kept.

    Raises:
        UsageError: a name is no asset, or the disk of its history is full.
        SourceError: a model or data set is not on this disk, and the hub does not give it.
    """
    whole = settings
    if _looks_at_few_shards(settings, shards, force):
        first, made = _first_table(settings), home_of(settings, LoggedProgress()).stages
        if first in chosen_tables(only, until, distinct(made.values())):
            # the rows are divided into shards first, then a few shards are run
            is_laid_out = Lake(settings.home).exists(first)
            outcome = run_profile(home_of, build, settings, [], [first], force, console, quiet or is_laid_out)
            if outcome.failures:
                return outcome
        settings = narrow_pilot(settings, shards, stages=made)
        shards = settings.shard_keys
    note_home(settings, Lake(settings.home).remove_shards)
    expected: dict[str, int] = {}
    progress = TerminalProgress(console, expected, quiet)
    home = home_of(settings, progress)
    stages = distinct(home.stages.values())
    wanted = chosen_tables(only, until, stages)
    expected.update({stage.name: len(stage_partitions(stage, settings, shards)) for stage in stages})
    ask_hub(home, [stage for stage in stages if wanted & set(stage.tables)])
    if force:
        chosen = (stage for stage in stages if set(stage.tables) & wanted)
        home.remake.update(
            f"{each.table} {name}" for each in chosen for name in stage_partitions(each, settings, shards)
        )
    with storage_errors(settings), open_instance(settings) as instance, progress:
        if other := at_work(instance, dagster_folder(settings)):
            progress.print(other)

        def labelled() -> None:
            publish(home.lake, settings)
            path = settings.home / FILE_NAME
            progress.print_if_worked(f"  the labels can be read: labels.step_rewards in {path}; reward models follow")

        outcome = Runner(build(home), home, instance).run(shards, wanted, labelled)
        if not outcome.failures and not outcome.waiting:
            progress.summary()
    if whole.is_pilot and shards and not outcome.failures:
        _remove_stale(States.of(whole, home.stages), wanted, set(whole.shard_keys) - set(shards))
    publish(home.lake, settings)
    return outcome


def ask_hub(home: Home, stages: Sequence[Declaration]) -> None:
    """Resolve the hub revision of each model and data set of some stages, before they begin.

    Raises:
        SourceError: the hub cannot be reached, or has none of that name.
    """
    settings = home.settings
    for stage in stages:
        models = [settings.models.of(role) for role in stage.models]
        for model in (*models, *stage.named_models(settings).values()):
            if model and model.engine != "endpoint":
                home.models.pinned(model)
        for source in stage.sources(settings).values():
            if source.hub:
                home.sources.version(source)


def _remove_stale(states: States, tables: Iterable[str], shards: Iterable[str]) -> None:
    """Remove what an earlier run made of shards that a pilot left out, and that is not of the pilot's rows."""
    by_shard = [key for key in tables if TABLES[key].partitioning == "shard"]
    # all are judged first: what is made of a removed file would be judged by its absence
    for key, shard in [each for each in product(by_shard, shards) if states.state(*each).kind == "other"]:
        states.lake.path(key, shard).unlink(missing_ok=True)


def narrow_pilot(
    settings: Settings,
    shards: Sequence[str] | None = None,
    force: bool = False,
    *,
    stages: Mapping[str, Declaration],
) -> Settings:
    """Settings whose shards are the first ones with enough rows, if the profile is a pilot (`--limit`).

    They stay as they are until the rows of today are divided into shards, if the run names `shards`, or under `force`.
    """
    if not _looks_at_few_shards(settings, settings.shard_keys if shards is None else shards, force):
        return settings
    lake, counted, first = Lake(settings.home), 0, _first_table(settings)
    if States.of(settings, stages).state(first).kind != "current":
        return settings
    solutions = settings.sources.solutions_of_each or 1
    wanted = ROWS_LOOKED_AT * (settings.selection.trajectories or 1)
    for number, shard in enumerate(settings.shard_keys, start=1):
        record = lake.record(first, shard)
        counted += solutions * record.rows if record else 0
        if counted >= wanted:
            return settings.within(number)
    return settings


def _looks_at_few_shards(settings: Settings, shards: Sequence[str], force: bool) -> bool:
    whole = settings.shard_keys
    return settings.is_pilot and len(whole) > 1 and list(shards) == whole and not force


def _first_table(settings: Settings) -> str:
    return QUESTIONS if settings.sources.sample else SHEPHERD


def stage_partitions(stage: Declaration, settings: Settings, shards: Sequence[str]) -> Sequence[str | None]:
    """The partitions of a stage that a run of some shards brings up to date."""
    if stage.table.startswith("labels/"):
        return shards
    keys = partitions_of(stage.table, settings) if stage.partitioning else None
    return [None] if keys is None else keys
