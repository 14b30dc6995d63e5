"""How far a home is: every asset with its partitions done, failed or missing, what labeling cost, what is left."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal, get_args

import dagster as dg

from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.profiles.settings import Settings
from resources.dagster_home import open_instance
from resources.lake import Lake
from resources.stage_run import partitions_of

State = Literal["done", "missing", "failed", "in progress"]


@dataclass(frozen=True)
class AssetStatus:
    """One asset: its partitions by state, and what they cost.

    Attributes:
        key: `group/name`.
        done, failed, missing, running: partition keys; an unpartitioned asset has the one key `all`.
        rows: rows on disk.
        seconds: measured labeling time of what is done.
        generated_tokens: tokens sampled for what is done.
        seconds_left: time the missing partitions should take, by the mean of those done; None where none is done.
    """

    key: str
    done: Sequence[str]
    failed: Sequence[str]
    missing: Sequence[str]
    running: Sequence[str]
    rows: int
    seconds: float
    generated_tokens: int
    seconds_left: float | None


def home_status(settings: Settings) -> list[AssetStatus]:
    """Every asset of a profile's home: its partitions done, failed, missing, and what they cost."""
    lake = Lake(settings.home)
    with open_instance(settings) as instance:
        states = {key: partition_states(instance, lake, settings, key) for key in TABLES}
    return [asset_status(key, partitions, lake) for key, partitions in states.items()]


def asset_status(key: str, states: Mapping[str, str], lake: Lake) -> AssetStatus:
    """Gather one asset's status.

    Args:
        key: `group/name`.
        states: done, missing, failed or in progress, by partition (`all` where there are none).
        lake: the files.
    """
    partitioned = TABLES[key].partitioning is not None
    by_state = {state: [name for name in states if states[name] == state] for state in get_args(State)}
    done = by_state["done"]
    records = [lake.intact_record(key, name if partitioned else None) for name in done]
    costs = [record.cost for record in records if record and record.cost]
    seconds = sum(cost.get("wall_seconds", 0.0) for cost in costs)
    left = len(by_state["missing"]) + len(by_state["failed"])
    return AssetStatus(
        key=key,
        done=done,
        failed=by_state["failed"],
        missing=by_state["missing"],
        running=by_state["in progress"],
        rows=sum(record.rows for record in records if record),
        seconds=seconds,
        generated_tokens=int(sum(cost.get("generated_tokens", 0) for cost in costs)),
        seconds_left=seconds / len(done) * left if done else None,
    )


def partition_states(instance: dg.DagsterInstance, lake: Lake, settings: Settings, key: str) -> dict[str, State]:
    """State of each partition of a table; an unpartitioned table has the one partition `all`.

    The lake decides whether rows are there; Dagster knows what is running and what failed since.
    """
    partitions = partitions_of(key, settings)
    if partitions is None:
        return {"all": _unpartitioned_state(instance, key, lake.exists(key))}
    definition = dg.StaticPartitionsDefinition(partitions)
    statuses = instance.get_status_by_partition(dg.AssetKey(key.split("/")), partitions, definition) or {}
    on_disk = set(lake.partitions(key))
    return {partition: _state(statuses.get(partition), partition in on_disk) for partition in partitions}


def _unpartitioned_state(instance: dg.DagsterInstance, key: str, on_disk: bool) -> State:
    """The state that its last run left, if that run did not make it; else whether it is on disk."""
    records = instance.get_asset_records([dg.AssetKey(key.split("/"))])
    entry = records[0].asset_entry if records else None
    last, made = (entry.last_run_id, entry.last_materialization) if entry else (None, None)
    run = instance.get_run_by_id(last) if last and (made is None or made.run_id != last) else None
    if run is not None and run.is_failure_or_canceled:
        return "failed"
    if run is not None and not run.is_finished:
        return "in progress"
    return "done" if on_disk else "missing"


def _state(status: Enum | None, on_disk: bool) -> State:
    if status is not None and status.value == "IN_PROGRESS":
        return "in progress"
    if status is not None and status.value == "FAILED":
        return "failed"
    return "done" if on_disk else "missing"
