"""Labels beside the rows that they belong to, as `label` and `cpmi label` give them back, and a row per step of them.

row    {"uid": 7, "question": "2 + 3?", "response": "2 + 3 = 5.", "answer": 5, "reason": "mine"}
ours   {"steps": ["2 + 3 = 5."], "rewards": {"cpmi": [0.8]}, "soft_labels": {"cpmi": [0.9]}, "reason": None}
back   {"uid": 7, "question": …, "input_reason": "mine", "steps": ["2 + 3 = 5."], "rewards": …, "reason": None}
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from cpmi_dagster.contracts.contexts import SCORED_CONTROLS
from cpmi_dagster.contracts.keys import CONTROLS
from cpmi_dagster.rewards.registry import reward_type
from cpmi_dagster.trajectories.fields import read_identifier
from cpmi_dagster.trajectories.given_columns import free_name
from cpmi_dagster.trajectories.given_rows import own_reason, table_rows

OURS = ("steps", "rewards", "soft_labels", "reason")
"""The added columns; a column of the input with such a name, except `steps`, becomes `input_…`."""
UNANSWERED = "it has no gold answer, which {} needs: add one, or ask for the reward step_surprisal, which needs none"
CHANGED = "it has changed, or is new, since the rows were labelled; label them again: only it is asked for"
LACKING, UNSTATED, UNREADABLE = "it has no {}: ", "it states no final answer", "the labeler cannot read it"
[SURPRISAL] = SCORED_CONTROLS
LONG = {
    "id": pl.String(),
    "step_index": pl.Int64(),
    "step": pl.String(),
    "reward_type": pl.String(),
    "reward": pl.Float64(),
    "soft_label": pl.Float64(),
}


def add_labels(
    rows: Iterable[tuple[Mapping[str, Any], int | None]],
    trajectories: pl.DataFrame,
    rejected_rows: pl.DataFrame,
    rejected_trajectories: pl.DataFrame,
    labels: pl.DataFrame,
    types: Sequence[str],
    notes: Iterable[str] = (),
) -> Iterator[dict[str, Any]]:
    """The rows with our columns; `reason` says why a row lacks some labels.

    Args:
        rows: as they came, each with the row_number of its trajectory, of a duplicate that of the first equal row; None
            for a row that was not there when the others were labelled.
        trajectories: row_number, trajectory_id, steps, gold_answer, final_answer.
        rejected_rows: row_number, reason.
        rejected_trajectories: trajectory_id, reason.
        labels: trajectory_id, step_index, reward_type, reward, soft_label.
        types: reward types that were asked for.
        notes: of `ControlScores`, on trajectories whose steps were not scored.
    """
    unread = dict(rejected_rows.select("row_number", "reason").iter_rows())
    reasons = dict(rejected_trajectories.select("trajectory_id", "reason").iter_rows())
    unscored = {name: reason for name, _, reason in (note.partition(f" has no `{SURPRISAL}`: ") for note in notes)}
    read = trajectories.select("row_number", "trajectory_id", "steps", "gold_answer", "final_answer")
    by_number: dict[int | None, Any] = {number: rest for number, *rest in read.iter_rows()}
    values: dict[tuple[str, str], dict[int, tuple[float, float]]] = {}
    columns = labels.select("trajectory_id", "reward_type", "step_index", "reward", "soft_label")
    for name, kind, step, *pair in columns.iter_rows():
        values.setdefault((name, kind), {})[step] = tuple(pair)
    for row, number in rows:
        name, steps, gold, final = by_number.get(number, (None, row.get("steps"), None, None))
        known = {kind: values[name, kind] for kind in types if (name, kind) in values}
        rewards, soft_labels = (
            {kind: [pairs.get(step, (None, None))[at] for step in range(len(steps))] for kind, pairs in known.items()}
            for at in (0, 1)
        )
        causes: dict[tuple[str, str], list[str]] = {}
        for kind in (kind for kind in types if kind not in known):
            demand = reward_type(kind).demand
            if demand.asks_for[CONTROLS] and name in unscored:
                cause = LACKING, own_reason(unscored[name], name)
            elif gold is None:
                cause = UNANSWERED, ""
            elif name in reasons:
                cause = "", own_reason(reasons[name], name)
            else:
                cause = LACKING, UNSTATED if "final_answer" in demand.inputs and final is None else UNREADABLE
            causes.setdefault(cause, []).append(kind)
        lacking = "; ".join(f"{words.format(', '.join(kinds))}{why}" for (words, why), kinds in causes.items())
        reason = (CHANGED if number is None else unread.get(number)) if name is None else lacking or None
        own = {free_name(column, row, OURS[1:]): value for column, value in row.items()}
        if name is None and not _are_steps(steps):  # as they came, they fit no column of steps
            own, steps = {free_name("steps", row, OURS): steps} | own if "steps" in row else own, None
        ours = (steps, rewards or None, soft_labels or None, reason)
        yield own | dict(zip(OURS, ours, strict=True))


def _are_steps(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(step, str) for step in value)


def give_back(table: Any, labelled: list[dict[str, Any]], types: Sequence[str]) -> Any:
    """The rows in the type of the table: a list of dicts, a pandas frame, a Dataset, or else a polars frame.

    Args:
        table: as for `table_rows`.
        labelled: rows of `add_labels`.
        types: reward types that were asked for.
    """
    if isinstance(table, list | tuple):
        return labelled
    is_pandas, is_dataset = hasattr(table, "notna"), hasattr(table, "to_polars")
    own: Any = table if is_pandas or is_dataset else pl.DataFrame(table)
    columns = dict.fromkeys(own.column_names if is_dataset else own.columns)
    names = {name: free_name(name, columns, OURS[1:]) for name in columns}
    ours = {name: [row[name] for row in labelled] for name in OURS}
    if is_pandas:
        return own.rename(columns=names).assign(**ours)
    values = pl.Struct(dict.fromkeys(types, pl.List(pl.Float64)))
    schema = {"steps": pl.List(pl.String), "rewards": values, "soft_labels": values, "reason": pl.String}
    frame = pl.DataFrame(ours, schema, strict=False)
    if not is_dataset:
        return own.rename(names).with_columns(frame.get_columns())
    from datasets import Dataset, concatenate_datasets

    if not labelled:  # datasets drops empty tables when it joins them
        return Dataset.from_polars(own.to_polars().rename(names).with_columns(frame.get_columns()))
    own = own.rename_columns(names).remove_columns([name for name in columns if name == "steps"])
    return concatenate_datasets([own, Dataset.from_polars(frame)], axis=1)


def explode_steps(labelled: Any, id_column: str = "id") -> pl.DataFrame:
    """A row per step and reward type, for SQL and plots.

    Args:
        labelled: what `label` returned.
        id_column: your column of ids.

    Returns:
        id (as text; without any ids, the row's number from 0), step_index (from 0), step (its text), reward_type,
        reward (in the type's own unit), soft_label (in [0, 1]).

    Examples:
        >>> from cpmi_dagster import explode_steps, label
        >>> rows = [{"id": "a", "question": "1 + 1?", "steps": ["1 + 1 = 2."], "gold_answer": "2"}]
        >>> explode_steps(label(rows, "miniature:labeler", rewards=["step_length"])).row(0)
        ('a', 0, '1 + 1 = 2.', 'step_length', -10.0, 0.5)
    """
    given = table_rows(labelled)
    ids = [row.get(id_column) for row in given]
    if all(each is None for each in ids):
        ids = range(len(given))
    names = [f"row {number}" if each is None else read_identifier(each) for number, each in enumerate(ids, start=1)]
    rows = [
        (name, step, text, kind, reward, soft_label)
        for name, row in zip(names, given, strict=True)
        for kind, rewards in (row["rewards"] or {}).items()
        for step, (text, reward, soft_label) in enumerate(
            zip(row["steps"], rewards or (), row["soft_labels"][kind] or (), strict=False)
        )
    ]
    return pl.DataFrame(rows, LONG, orient="row")
