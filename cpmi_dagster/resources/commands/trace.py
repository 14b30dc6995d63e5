"""`cpmi trace`: the source row, answers, models, settings, code and runs behind a label."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import duckdb
import polars as pl

from cpmi_dagster.contracts.keys import SELECTED, STEP_REWARDS
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import CpmiError
from cpmi_dagster.installed import program
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.database import reader
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.parquet import Record
from cpmi_dagster.resources.lake.query import ask
from cpmi_dagster.rewards.hazard import explain, read_solutions
from cpmi_dagster.rewards.registry import REWARD_TYPES
from cpmi_dagster.rewards.reward_type import LabelInputs
from cpmi_dagster.trajectories.given_rows import without_trajectory
from cpmi_dagster.trajectories.rows import shard_key

FIND_ID = """
    select trajectory_id from alignment.trajectories where trajectory_id = $id or source_id = $id
    order by trajectory_id = $id desc limit 1
"""
REJECTED = """
    select row_number, reason from alignment.rejected_rows where source_id = $id order by row_number limit 1
"""
ONE_ROW = {
    "trajectory": "select * from alignment.trajectories where trajectory_id = $id",
    "source row": """
        select s.row_number, s.task, s.question, s.steps, s.labels from sources.math_shepherd s
        join alignment.trajectories t using (row_number) where t.trajectory_id = $id
    """,
    "reference problem": """
        select r.source, r.split, r.problem_id, r.answer from sources.reference_problems r
        join alignment.trajectories t on t.match_source = r.source || '/' || r.split || '/' || r.problem_id
        where t.trajectory_id = $id
    """,
    "selection": "select shard, composition from selection.selected_trajectories where trajectory_id = $id",
    "not labelled": "select stage, reason from labels.rejected_trajectories where trajectory_id = $id limit 1",
}
ROLLOUTS = """
    select prefix_length, count(*) as rollouts, sum(correct::int) as correct, sum(generated_tokens) as tokens
    from labels.{table}
    where trajectory_id = $id and ($step is null or prefix_length = $step + 1) group by all order by all
"""
MANY_ROWS = {
    "hard negatives": "select rank, answer, source from labels.hard_negatives where trajectory_id = $id order by rank",
    "CPMI by template": """
        select step_index, conditioning, template, gold_shift, negative_shift, cpmi from labels.template_scores
        where trajectory_id = $id and ($step is null or step_index = $step) order by all
    """,
    "rollouts": ROLLOUTS.format(table="policy_rollouts"),
    "prover rollouts": ROLLOUTS.format(table="prover_rollouts"),
    "rewards": """
        select step_index, reward_type, reward, soft_label from labels.step_rewards
        left join dataset.soft_labels using (trajectory_id, step_index, reward_type)
        where trajectory_id = $id and ($step is null or step_index = $step) order by all
    """,
}
WHY = "log-odds that a step is wrong if those before it are right"
GROUPS = ("sources", "alignment", "selection", "labels")


@dataclass(frozen=True)
class Trace:
    """What one trajectory and its labels came from.

    Attributes:
        facts: values by column, by title.
        tables: frame by title.
        files: record by table key.
        step: index of the step; None for all.
        unlabelled: why the trajectory has no labels, and what to do; empty if it has some.
    """

    facts: Mapping[str, Mapping[str, Any]]
    tables: Mapping[str, pl.DataFrame]
    files: Mapping[str, Record]
    step: int | None = None
    unlabelled: str = ""


def trace(settings: Settings, trajectory_id: str, step: int | None = None) -> Trace:
    """Follow a trajectory, or one of its steps, back to its source.

    Args:
        trajectory_id: of `alignment.trajectories`, or the id of the user's row (`source_id`).
        step: from 0; all by default.

    Raises:
        CpmiError: there is no such trajectory or step.
        LakeError: nothing has been published yet.
    """
    lake = Lake.of(settings)
    with reader(lake, settings) as connection:
        trajectory_id = _resolve_id(connection, trajectory_id)
        first = {title: _rows(connection, sql, trajectory_id, step) for title, sql in ONE_ROW.items()}
        facts = {title: next(rows.iter_rows(named=True), {}) for title, rows in first.items()}
        last = len(facts["trajectory"]["steps"]) - 1
        if step is not None and not 0 <= step <= last:
            raise CpmiError(f"trajectory {trajectory_id} has no step {step}; its steps are 0 to {last}")
        tables = {title: _rows(connection, sql, trajectory_id, step) for title, sql in MANY_ROWS.items()}
    shard = shard_key(facts["trajectory"]["question_id"], settings.shards)
    if set(tables["rewards"]["reward_type"]) & {name for name, entry in REWARD_TYPES.items() if entry.reads_labels}:
        tables[WHY] = _why(settings, lake.read(STEP_REWARDS, shard), facts["trajectory"], step)
    groups = GROUPS if facts["selection"] else GROUPS[:-1]
    tables_read = {key: table for key, table in TABLES.items() if table.group in groups}
    records = {key: lake.record(key, shard if table.partitioning else None) for key, table in tables_read.items()}
    files = {key: record for key, record in records.items() if record}
    unlabelled = _why_unlabelled(settings, facts, files.get(SELECTED)) if tables["rewards"].is_empty() else ""
    return Trace(facts, tables, files, step, unlabelled)


def _why_unlabelled(settings: Settings, facts: Mapping[str, Mapping[str, Any]], selected: Record | None) -> str:
    """Why a trajectory without labels has none, and what to do."""
    run = f"`{program()} run{settings.profile_option}`"
    if facts["not labelled"]:
        reason, trajectory_id = facts["not labelled"]["reason"], facts["trajectory"]["trajectory_id"]
        return f"It has no labels: {without_trajectory(reason, trajectory_id)}"
    if facts["selection"] or selected is None:
        return f"It has no labels yet: {run} makes them"
    most, now = selected.settings["selection"]["trajectories"], settings.selection.trajectories
    if most is not None and most != now:
        labels = "labels all" if now is None else f"takes {now:,}"
        return f"It has no labels: the last run took {most:,} trajectories at most, without this one; {run} {labels}"
    return f"It has no labels: `selection` of the profile leaves it out; change that in the profile, then {run}"


def _why(settings: Settings, rewards: pl.DataFrame, trajectory: Mapping[str, Any], step: int | None) -> pl.DataFrame:
    """What each label adds to the log-odds that a step is wrong if those before it are right."""
    frame = pl.DataFrame([trajectory], infer_schema_length=None)
    evidence = LabelInputs(frame, same=settings.answers.comparison.same)
    own = rewards.filter(trajectory_id=trajectory["trajectory_id"])
    [solution] = read_solutions(frame, own, evidence.outcomes, settings.rewards.default_conditioning)
    why = explain(solution, settings.rewards.fitted)
    return why if step is None else why.filter(step_index=step)


def _rows(connection: duckdb.DuckDBPyConnection, sql: str, trajectory_id: str, step: int | None) -> pl.DataFrame:
    wanted = {"id": trajectory_id, "step": step}
    return ask(connection, sql, {name: wanted[name] for name in wanted if f"${name}" in sql})


def _resolve_id(connection: duckdb.DuckDBPyConnection, name: str) -> str:
    """The trajectory id of a name, which is that id or the id of a row."""
    if (named := ask(connection, FIND_ID, {"id": name})).height:
        return named.item()
    if (rejected := ask(connection, REJECTED, {"id": name})).height:
        row_number, reason = rejected.row(0)
        raise CpmiError(f"row {row_number + 1} with the id `{name}` was rejected: {reason}")
    first = ask(connection, "select min(trajectory_id) from selection.selected_trajectories").item()
    example = f", for example {first}" if first else ""
    raise CpmiError(f"there is no trajectory `{name}`; alignment.trajectories lists the ids{example}")
