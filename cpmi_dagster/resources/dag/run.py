"""`cpmi run`: bring a profile's home up to date; with `--limit` of a few trajectories, with `--dry` in words alone.

table                            partitions   rows now   answers kept   why
selection/selected_trajectories           1          5                  selection.trajectories: 5 (a pilot, …
labels/answer_logprobs                    1        400            960   selection/selected_trajectories has …
dataset/soft_labels                       1                             not made yet

Kept answers, of all models and settings, are not asked for again (see `answers.cache`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import dagster as dg
import polars as pl
from rich.console import Console

from cpmi_dagster.contracts.keys import MODELS, QUESTIONS, SELECTED, SHEPHERD, TRAJECTORIES
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import UsageError
from cpmi_dagster.files.text import closest
from cpmi_dagster.planning.hardware import Hardware, choose_hardware
from cpmi_dagster.planning.training import TrainingPlan, plan_training
from cpmi_dagster.profiles.partitions import partitions_of
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.instance import at_work, open_instance, storage_errors
from cpmi_dagster.resources.dag.progress import Progress, TerminalProgress
from cpmi_dagster.resources.dag.runner import Outcome, Runner
from cpmi_dagster.resources.dag.stage import Stage, distinct
from cpmi_dagster.resources.dag.stage_run import Home
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.lake.database import FILE_NAME, publish
from cpmi_dagster.resources.lake.home_file import note_home
from cpmi_dagster.resources.lake.lake import CALLS, Lake

ROWS_LOOKED_AT = 4
"""For each trajectory that a pilot labels: some rows are rejected, and a selection has shares to keep."""
HomeOf = Callable[[Settings, Progress], Home]
Builder = Callable[[Home], dg.Definitions]
TRAINING_SAMPLE = 200
"""The number of trajectories whose tokens are counted for training."""
SCHEMA = {
    "table": pl.String, "partitions": pl.Int64, "rows now": pl.Int64, "answers kept": pl.Int64, "why": pl.String,
}  # fmt: skip


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
        first, made = _first_table(settings), home_of(settings, Progress()).stages
        if first in chosen_tables(only, until, distinct(made.values())):
            # the rows are divided into shards first, then a few shards are run
            is_laid_out = Lake(settings.home).has_table(first)
            outcome = run_profile(home_of, build, settings, [], [first], force, console, quiet or is_laid_out)
            if outcome.failures:
                return outcome
        settings = narrow_pilot(settings, shards, stages=made)
        shards = settings.shard_keys
    note_home(settings, Lake(settings.home).remove_shards)
    expected: dict[str, int] = {}
    words = {"math_shepherd": "your trajectories"} if settings.has_own_trajectories else {}
    progress = TerminalProgress(console, expected, quiet, words)
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
        if other := at_work(instance, settings):
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


def ask_hub(home: Home, stages: Sequence[Stage]) -> None:
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
    for key, shard in [each for each in product(by_shard, shards) if states.state(*each).kind == "stale"]:
        states.lake.path(key, shard).unlink(missing_ok=True)


def narrow_pilot(
    settings: Settings,
    shards: Sequence[str] | None = None,
    force: bool = False,
    *,
    stages: Mapping[str, Stage],
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


def chosen_tables(only: Sequence[str], until: Sequence[str] = (), stages: Sequence[Stage] = ()) -> set[str]:
    """The tables that `--only` or `--until` names, with the other tables of their stages; all tables by default.

    Args:
        only: `group/asset` keys or group names.
        until: keys or group names, which are taken with all of their inputs.

    Raises:
        UsageError: a name is neither a key nor a group, or both options are given.
    """
    if only and until:
        raise UsageError("--only and --until exclude each other; --until takes what its assets are made from as well")
    if not only and not until:
        return set(TABLES)
    groups = {table.group for table in TABLES.values()}
    for name in (*only, *until):
        if name not in TABLES and name not in groups:
            near = closest(name, [*TABLES, *groups])
            advice = f"did you mean {near}?" if near else f"groups are {', '.join(sorted(groups))}"
            raise UsageError(f"{'--only' if only else '--until'} {name}: there is no such asset or group; {advice}")
    made = {key for stage in stages for key in stage.tables}
    chosen = {key for key, table in TABLES.items() if {key, table.group} & {*only, *until}}
    if made and not chosen & made:
        raise UsageError(
            f"{'--only' if only else '--until'} {' '.join((*only, *until))}: the profile does not ask for it, so there "
            "is nothing to make"
        )
    for stage in reversed(stages):
        if chosen & set(stage.tables):
            chosen |= {*stage.tables, *(stage.inputs if until else ())}
    return chosen


def stage_partitions(stage: Stage, settings: Settings, shards: Sequence[str]) -> Sequence[str | None]:
    """The partitions of a stage that a run of some shards brings up to date."""
    if stage.table.startswith("labels/"):
        return shards
    keys = partitions_of(stage.table, settings) if stage.partitioning else None
    return [None] if keys is None else keys


class DryRun(NamedTuple):
    """The tables to make, the number of tables and rows to keep, the most trajectories to label, who may be asked.

    `trajectories` is None before the source is aligned. `asks` has, by role of a model, the tables that ask it for what
    is not kept. `training` is None if no reward model is trained.
    """

    to_make: pl.DataFrame
    tables: int
    rows: int
    trajectories: int | None
    asks: dict[str, list[str]]
    training: TrainingPlan | None


def dry_run(
    home_of: HomeOf, settings: Settings, shards: Sequence[str], only: Sequence[str], force: bool, until: Sequence[str]
) -> DryRun:
    """What `run_profile` would do with the same arguments."""
    home = home_of(settings, Progress())
    states, stages = home.states(), distinct(home.stages.values())
    wanted, to_make, tables, rows = chosen_tables(only, until, stages), [], 0, 0
    asks: dict[str, list[str]] = {}
    for stage in stages:
        if not wanted & set(stage.tables):
            continue
        judged = {name: states.state(stage.table, name) for name in stage_partitions(stage, settings, shards)}
        due = [name for name, state in judged.items() if force or state.kind != "current"]
        files = [(name, home.lake.record(*file)) for name in judged for file in stage.files(name, settings)]
        why = next((judged[name].reason for name in due if judged[name].reason), "--force" if force else "not made yet")
        if due and stage.pool:
            for role in stage.models or ("reward models",):
                asks.setdefault(role, []).append(stage.name)
        for key in stage.tables:
            counts = [(name, record.rows) for name, record in files if record and record.table == key]
            rows += sum(count for name, count in counts if name not in due)
            tables += bool(judged) and not due
            if due:
                now = sum(count for name, count in counts if name in due)
                to_make.append((key, len(due), now or None, kept_answers(home.lake, key) or None, why))
    trains = any(key == MODELS for key, *_ in to_make)
    training = planned_training(home.lake, settings, choose_hardware(None, settings.models.labeler)) if trains else None
    return DryRun(pl.DataFrame(to_make, SCHEMA, orient="row"), tables, rows, _to_label(states, shards), asks, training)


def _to_label(states: States, shards: Sequence[str]) -> int | None:
    for key in (SELECTED, TRAJECTORIES):
        if all(states.state(key, shard).kind == "current" for shard in shards):
            rows = sum(record.rows for record in states.lake.records(key, shards))
            return min(rows, states.settings.selection.trajectories or rows)
    return None


def kept_answers(lake: Lake, key: str) -> int:
    """The number of model answers kept for a table, of all models and sampling settings."""
    files = (lake.root / key / CALLS).glob("*/*/*/*.parquet")
    return sum(pl.scan_parquet(file).select(pl.len()).collect().item() for file in files)


def planned_training(lake: Lake, settings: Settings, card: Hardware) -> TrainingPlan | None:
    """What training on the selected trajectories will take; None if nothing is selected yet.

    Raises:
        ModelError: the backbone's config or tokenizer cannot be read.
    """
    if not settings.recipes or not lake.has_table(SELECTED):
        return None
    selected, first = lake.read(SELECTED), settings.shard_keys[0]
    solutions = lake.read(TRAJECTORIES, first, ["trajectory_id", "question", "steps"])
    some = solutions.join(selected, on="trajectory_id", how="semi").head(TRAINING_SAMPLE)
    return plan_training(settings, some, selected.height, card)
