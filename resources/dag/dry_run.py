"""`cpmi run --dry`: the tables that a run would make and keep; no model is loaded.

table                            partitions   rows now   answers kept   why
selection/selected_trajectories           1          5                  selection.trajectories: 5 (a pilot, …
labels/answer_logprobs                    1        400            960   selection/selected_trajectories has …
dataset/soft_labels                       1                             not made yet

Kept answers, of all models and settings, are not asked for again (see `calls`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from cpmi_dagster.contracts.keys import MODELS, SELECTED, TRAJECTORIES
from cpmi_dagster.planning.hardware import Hardware, choose_hardware
from cpmi_dagster.planning.training import TrainingPlan, plan_training
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.declaration import distinct
from cpmi_dagster.resources.dag.progress import LoggedProgress
from cpmi_dagster.resources.dag.run_profile import HomeOf, stage_partitions
from cpmi_dagster.resources.dag.runs import chosen_tables
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.lake.lake import CALLS, Lake

TRAINING_SAMPLE = 200
"""The number of trajectories whose tokens are counted for training."""
SCHEMA = {
    "table": pl.String, "partitions": pl.Int64, "rows now": pl.Int64, "answers kept": pl.Int64, "why": pl.String,
}  # fmt: skip


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
    home = home_of(settings, LoggedProgress())
    states, stages = home.states(), distinct(home.stages.values())
    wanted, to_make, tables, rows = chosen_tables(only, until, stages), [], 0, 0
    asks: dict[str, list[str]] = {}
    for stage in stages:
        if not wanted & set(stage.tables):
            continue
        judged = {name: states.state(stage.table, name) for name in stage_partitions(stage, settings, shards)}
        due = [name for name, state in judged.items() if force or state.kind != "current"]
        files = [(name, home.lake.record(*file)) for name in judged for file in states.files(stage, name)]
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
            records = [states.lake.record(key, shard) for shard in shards]
            rows = sum(record.rows for record in records if record)
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
    if not settings.recipes or not lake.exists(SELECTED):
        return None
    selected, first = lake.read(SELECTED), settings.shard_keys[0]
    solutions = lake.read(TRAJECTORIES, first, ["trajectory_id", "question", "steps"])
    some = solutions.join(selected, on="trajectory_id", how="semi").head(TRAINING_SAMPLE)
    return plan_training(settings, some, selected.height, card)
