"""The status of a home: by asset, partitions done, stale, failed or missing, what they cost, and the time left."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple

import dagster as dg

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.keys import SELECTED, STEP_REWARDS, TRAJECTORIES, TRUTH
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.files.text import counted
from cpmi_dagster.profiles.partitions import needed_tables, partitions_of
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.facts import OTHER_INPUTS, PILOT
from cpmi_dagster.resources.dag.instance import (
    AT_WORK,
    PARTITION_TAG,
    is_orphaned,
    recorded_instance,
    storage_errors,
    was_interrupted,
)
from cpmi_dagster.resources.dag.stage import Stage, asset_key
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.lake.lake import Lake

State = Literal["done", "stale", "missing", "failed", "interrupted", "running"]
STATES: Mapping[str, State] = {"current": "done", "stale": "stale", "missing": "missing"}


@dataclass(frozen=True)
class AssetStatus:
    """One asset and its partitions.

    Attributes:
        key: `group/name`.
        partitions: state by partition; an unpartitioned asset has the partition `all`.
        files: on disk, in whatever state.
        rows: in the files.
        cost: of the model answers behind the rows.
    """

    key: str
    partitions: Mapping[str, State]
    files: int
    rows: int
    cost: Cost

    def count(self, *states: State) -> int:
        """The number of partitions in any of these states."""
        return sum(state in states for state in self.partitions.values())

    @property
    def seconds_left(self) -> float | None:
        """Seconds of models for partitions without rows, by the mean of the files.

        None if no file took time, or if only stale partitions are left: nobody knows how much of them is kept.
        """
        left, seconds = len(self.partitions) - self.count("done", "stale"), self.cost.wall_seconds
        return seconds / self.files * left if seconds and left else None


class Stale(NamedTuple):
    """The groups of stale tables, the time of their oldest file, and the reason to show.

    `pilot` is the most trajectories of the pilot that they are of, if that is the reason; `labelled` are its own, and
    `others` those that the whole run labels besides.
    """

    groups: list[str]
    since: str
    reason: str
    pilot: int | None = None
    labelled: int = 0
    others: int = 0


def describe_pilot(settings: Settings) -> str:
    """What a pilot has left for the whole run: `8 trajectories at most are labelled`; empty of a whole run."""
    if not settings.is_pilot:
        return ""
    lake = Lake(settings.home)
    words = f"{settings.selection.trajectories:,} trajectories at most are labelled"
    if not lake.has_table(SELECTED) or not lake.has_table(TRUTH):
        return words
    rows = lake.read(TRAJECTORIES, columns=["trajectory_id", "row_number"])
    judged = rows.join(lake.read(TRUTH, columns=["row_number"]), on="row_number", how="semi")
    others = judged.join(lake.read(SELECTED, columns=["trajectory_id"]), on="trajectory_id", how="anti").height
    return f"{words}, and {counted(others, 'other is', 'others are')} judged" if others else words


def what_is_stale(settings: Settings, stages: Mapping[str, Stage]) -> Stale | None:
    """What is stale in a home; the reason names a setting, model or source, if any does."""
    judged = States.of(settings, stages)
    stale = [(key, name, reason) for key in needed_tables(settings) for name, reason in judged.stale(key).items()]
    if not stale:
        return None
    records = (judged.lake.record(key, name if TABLES[key].partitioning else None) for key, name, _ in stale)
    since = _minutes(min((record.written_at for record in records if record), default=""))
    reason = min((reason for *_, reason in stale), key=lambda text: OTHER_INPUTS in text)
    selected = next(iter(judged.lake.records(SELECTED)), None)
    pilot = selected.settings.get("selection", {}).get("trajectories") if selected and PILOT in reason else None
    groups = list(dict.fromkeys(TABLES[key].group for key, *_ in stale))
    if not selected or pilot is None:
        return Stale(groups, since, reason)
    most, given = settings.selection.trajectories, sum(each.rows for each in judged.lake.records(TRAJECTORIES))
    others = (given if most is None else min(most, given)) - selected.rows
    return Stale(groups, since, reason, pilot, selected.rows, max(0, others))


def describe_labels(settings: Settings) -> str:
    """The labels of a home: `216 of cpmi, step_length by Qwen/Qwen3-8B-Base@49e3…, made 2026-11-05 10:20 UTC`."""
    lake = Lake.of(settings)
    if not (records := lake.records(STEP_REWARDS)):
        return "none yet"
    types = dict.fromkeys(name for record in records for name in record.settings.get("rewards.types", ()))
    models = dict.fromkeys(record.model for record in records if record.model)
    labelled = max(record.written_at for record in records)
    by = f" by {' and '.join(models)}" if models else ""
    rows = sum(record.rows for record in records)
    return f"{rows:,} of {', '.join(types)}{by}, made {_minutes(labelled)} UTC"


def _minutes(written_at: str) -> str:
    return written_at[: len("2026-01-01T00:00")].replace("T", " ")


def home_status(settings: Settings, stages: Mapping[str, Stage]) -> list[AssetStatus]:
    """The status of every asset that a profile asks for.

    Nothing is changed: an orphaned run is shown as interrupted, and marked by the next run or the daemon.
    """
    lake, judged = Lake.of(settings), States.of(settings, stages)
    with storage_errors(settings), recorded_instance(settings) as instance:
        interrupted = _interrupted(instance, settings)
        by_table = {key: partition_states(instance, lake, settings, key, judged) for key in needed_tables(settings)}
    for key, states in by_table.items():
        is_whole = key in judged.stages and judged.stages[key].run_partitioning is None
        ended = [name for name in states if ("all" if is_whole else name) in interrupted]
        states.update({name: "interrupted" for name in ended if states[name] == "running"})
    return [_asset_status(key, states, lake) for key, states in by_table.items()]


def _interrupted(instance: dg.DagsterInstance, settings: Settings) -> set[str]:
    """Partitions of orphaned runs that no living run is making; `all` of those that make everything."""
    places: dict[bool, set[str]] = {True: set(), False: set()}
    for record in instance.get_run_records(dg.RunsFilter(statuses=AT_WORK)):
        run = record.dagster_run
        places[is_orphaned(settings, record)].add(run.tags.get(PARTITION_TAG, "all"))
    return places[True] - places[False]


def _asset_status(key: str, states: Mapping[str, State], lake: Lake) -> AssetStatus:
    records = lake.records(key, states if TABLES[key].partitioning else None)
    cost = sum((Cost(**record.cost) for record in records), Cost())
    return AssetStatus(key, states, len(records), sum(record.rows for record in records), cost)


def partition_states(
    instance: dg.DagsterInstance, lake: Lake, settings: Settings, key: str, judged: States
) -> dict[str, State]:
    """The state by partition of a table; an unpartitioned table has the partition `all`.

    The lake says whether rows are there and current; Dagster, what is running, and what failed or was interrupted and
    was not made since.
    """
    is_one_run = key in judged.stages and judged.stages[key].run_partitioning is None
    states = _states(instance, lake, settings, key, is_one_run)
    for name, state in states.items():
        if state in ("done", "failed", "interrupted"):
            on_disk = STATES[judged.state(key, name if TABLES[key].partitioning else None).kind]
            states[name] = state if state != "done" and on_disk != "done" else on_disk
    return states


def _states(
    instance: dg.DagsterInstance, lake: Lake, settings: Settings, key: str, is_one_run: bool
) -> dict[str, State]:
    partitions = partitions_of(key, settings)
    if partitions is None:
        return {"all": _unpartitioned_state(instance, key, lake.has_table(key))}
    if is_one_run:
        return {name: _unpartitioned_state(instance, key, lake.has_file(key, name)) for name in partitions}
    definition = dg.StaticPartitionsDefinition(partitions)
    statuses = instance.get_status_by_partition(asset_key(key), partitions, definition) or {}
    on_disk = set(lake.partitions(key))
    states: dict[str, State] = {
        partition: _state(statuses.get(partition), partition in on_disk) for partition in partitions
    }
    states.update({name: _end_of(instance, name) for name, state in states.items() if state == "failed"})
    return states


def _unpartitioned_state(instance: dg.DagsterInstance, key: str, on_disk: bool) -> State:
    """The state of the last run, if that did not make the table; else whether it is on disk."""
    records = instance.get_asset_records([asset_key(key)])
    entry = records[0].asset_entry if records else None
    last, event = (entry.last_run_id, entry.last_materialization) if entry else (None, None)
    run = instance.get_run_by_id(last) if last and (event is None or event.run_id != last) else None
    if run is not None and run.is_failure_or_canceled:
        return "interrupted" if was_interrupted(run) else "failed"
    if run is not None and not run.is_finished:
        return "running"
    return "done" if on_disk else "missing"


def _state(status: Enum | None, on_disk: bool) -> State:
    if status is not None and status.value in ("IN_PROGRESS", "FAILED"):
        return "failed" if status.value == "FAILED" else "running"
    return "done" if on_disk else "missing"


def _end_of(instance: dg.DagsterInstance, partition: str) -> State:
    """How the last run of a partition that did not succeed ended."""
    unsuccessful = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
    last = instance.get_runs(dg.RunsFilter(statuses=unsuccessful, tags={PARTITION_TAG: partition}), limit=1)
    return "interrupted" if last and was_interrupted(last[0]) else "failed"
