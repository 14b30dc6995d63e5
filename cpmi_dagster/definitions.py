"""Binds the rooms: stages, resources, jobs, schedules and checks of a profile, and what the commands do with them.

`workspace.yaml` and `[tool.dg]` load `defs`; the profile comes from `CPMI_PROFILE` and `CPMI_HOME`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import dagster as dg
import polars as pl
from rich.console import Console

from assets import alignment, automation, benchmarks, checks, dataset, labels, models, reports, selection, sources
from assets.runs import Outcome, check_shards, chosen_tables, label_in_processes, run_phase, run_phases
from assets.sources import SPOOL
from cpmi_dagster.benchmarks.judges import benchmarks_named, read_judged_lines
from cpmi_dagster.benchmarks.problems import read_benchmark
from cpmi_dagster.contracts.tables import TABLES, BenchmarkProblems
from cpmi_dagster.planning import Plan, chunk_costs, default_hardware, load_hardware, make_plan, planned_model
from cpmi_dagster.planning.labeling import ROLES
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.reports.evaluation import evaluate as judge_figures
from resources.dagster_home import open_instance, serve_ui
from resources.data_sources import DataSources
from resources.database import Database, ask
from resources.hub import HubLock
from resources.lake import Lake
from resources.language_models import LanguageModels
from resources.planned_chunks import choose_chunks
from resources.progress import LoggedProgress, Progress, RelayedProgress, relay
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
        forget = frozenset(wanted if force else ())
        definitions = build_definitions(settings, progress, forget)
        several = min(settings.orchestration.gpus, len(shards)) > 1
        label = partial(_label_in_processes, settings, shards, forget, progress) if several else None
        outcome = run_phases(definitions, settings, lake, instance, shards, wanted, label)
        progress.summary()
    return outcome


def _label_in_processes(
    settings: Settings, shards: Sequence[str], forget: frozenset[str], progress: Progress, selection: Sequence[str]
) -> Outcome:
    """Label with a process for each of the profile's GPUs."""
    with get_context("spawn").Manager() as manager:
        messages = manager.Queue()
        listener = Thread(target=relay, args=(messages, progress), daemon=True)
        listener.start()
        try:
            work = partial(label_here, settings, selection, forget, messages)
            return label_in_processes(work, shards, settings.orchestration.gpus)
        finally:
            messages.put(None)
            listener.join()


def label_here(
    settings: Settings,
    selection: Sequence[str],
    forget: frozenset[str],
    messages: "Queue[Any]",
    worker: str,
    shards: Sequence[str],
) -> Outcome:
    """Label some shards in this process, one of several.

    Args:
        settings: the profile.
        selection: tables of the labeling phase.
        forget: tables to make again even where nothing changed.
        messages: where progress is reported to.
        worker: the name of this process.
        shards: which to label.
    """
    import torch

    # each its share of the processor: more threads than cores wait for one another
    torch.set_num_threads(max(1, torch.get_num_threads() // settings.orchestration.gpus))
    definitions = build_definitions(settings, RelayedProgress(messages, worker), forget)
    with open_instance(settings) as instance:
        return run_phase(definitions, settings, instance, automation.LABEL, shards, selection)


def _partition_count(stage: Stage, settings: Settings, shards: Sequence[str]) -> int:
    if stage.tables[0].startswith("labels/"):
        return len(shards)
    return len(partitions_of(stage.tables[0], settings) or [None])


def headline(settings: Settings) -> pl.DataFrame:
    """The headline table as text; empty where the report has not been made."""
    return reports.headline(Lake(settings.home), settings.recipes)


def status(settings: Settings) -> list[AssetStatus]:
    """Every asset's partitions: done, failed, missing."""
    lake = Lake(settings.home)
    with open_instance(settings) as instance:
        states = {key: automation.partition_states(instance, lake, settings, key) for key in TABLES}
    return [asset_status(key, found, lake) for key, found in states.items()]


def plan(
    settings: Settings,
    hardware: str | None,
    gpus: int | None,
    sample: int,
    parameters: Mapping[str, int],
    advance: Callable[[int, int], None],
) -> Plan:
    """What labeling the selected trajectories by each method will take.

    Args:
        settings: the profile.
        hardware: name in the table, or a file; by default the table's card for the profile's labeler.
        gpus: how many cards, the profile's `orchestration.gpus` by default; no more than one a shard is used.
        sample: trajectories whose tokens are counted; 0 counts them all.
        parameters: parameters to reckon with, by role, for models whose config is not on this disk.
        advance: told of every chunk that is counted, and how many there are.

    Raises:
        CpmiError: there is no such hardware, nothing is selected yet, or a model's config or tokenizer is not at hand.
    """
    lake = Lake(settings.home)
    card = load_hardware(hardware or default_hardware(settings.models.labeler))
    chosen = choose_chunks(lake, settings, sample)
    revisions = HubLock(settings.home).revisions()
    specs = {role: getattr(settings.models, role) for role in ROLES}
    models = {
        role: planned_model(role, spec, spec.revision or revisions.get(f"model {spec.name}"), parameters.get(role))
        for role, spec in specs.items()
    }
    costs = []
    for chunk in chosen.read(lake, settings):
        costs.append(chunk_costs(chunk, models, settings, card))
        advance(1, len(chosen.places))
    names = {role: model.name for role, model in models.items()}
    busy = min(gpus or settings.orchestration.gpus, settings.shards)
    return make_plan(costs, chosen.trajectories, settings.rewards.methods, names, card, busy, settings.shards)


def evaluate(settings: Settings, predictions: Path, name: str, benchmark: str | None) -> pl.DataFrame:
    """The figures of a judge that is not ours, from the problems of the profile's sources; nothing is run.

    Args:
        settings: the profile.
        predictions: JSON Lines of step probabilities.
        name: what the judge is called.
        benchmark: what the file judges, where its lines do not say.

    Raises:
        CpmiError: a source or the file cannot be read, or the file does not fit the problems; names the line.
    """
    lines = read_judged_lines(predictions, benchmark)
    wanted = benchmarks_named(lines)
    sources = DataSources(settings)
    read = [
        read_benchmark(key, sources.rows(source))
        for key, source in settings.sources.benchmarks.items()
        if key in wanted
    ]
    problems = pl.concat([BenchmarkProblems.create_empty(), *read])
    return judge_figures(name, lines, problems, settings.benchmarks.bootstrap_samples, settings.seed)


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
