"""Labels beside the rows that they belong to, as `label` and `cpmi label` give them back, and a row per step of them.

row    {"uid": 7, "question": "2 + 3?", "response": "2 + 3 = 5.", "answer": 5, "reason": "mine"}
ours   {"steps": ["2 + 3 = 5."], "rewards": {"cpmi": [0.8]}, "soft_labels": {"cpmi": [0.9]}, "reason": None}
back   {"uid": 7, "question": …, "input_reason": "mine", "steps": ["2 + 3 = 5."], "rewards": …, "reason": None}
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import polars as pl

from cpmi_dagster.contracts.contexts import SCORED_CONTROLS
from cpmi_dagster.contracts.keys import CONTROL_LOGPROBS
from cpmi_dagster.rewards.registry import reward_type
from cpmi_dagster.trajectories.fields import read_identifier, read_optional
from cpmi_dagster.trajectories.given_rows import STEPS, beside, name_rows, table_rows, without_trajectory
from cpmi_dagster.trajectories.rows import Row

OURS = (STEPS, "rewards", "soft_labels", "reason")
"""The added columns."""
UNANSWERED = "it has no gold answer, which {} needs: add one, or ask for the reward step_surprisal, which needs none"
CHANGED = "it has changed, or is new, since the rows were labelled; label them again: only it is asked for"
LACKING, UNSTATED, UNREADABLE = "it has no {}: ", "it states no final answer", "the labeler cannot read it"
UNLABELLED = "the row has no labels"
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
    rows: Iterable[tuple[Row, int | None]],
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
        labels: trajectory_id, reward_type, reward, soft_label; of `step_lists`.
        types: reward types that were asked for.
        notes: of `ControlScores`, on trajectories whose steps were not scored.
    """
    unread = dict(rejected_rows.select("row_number", "reason").iter_rows())
    reasons = dict(rejected_trajectories.select("trajectory_id", "reason").iter_rows())
    unscored = {name: reason for name, _, reason in (note.partition(f" has no `{SURPRISAL}`: ") for note in notes)}
    read = trajectories.select("row_number", "trajectory_id", "steps", "gold_answer", "final_answer")
    by_number: dict[int | None, Any] = {number: rest for number, *rest in read.iter_rows()}
    columns = labels.select("trajectory_id", "reward_type", "reward", "soft_label")
    values = {(name, kind): lists for name, kind, *lists in columns.iter_rows()}
    for row, number in rows:
        name, steps, gold, final = by_number.get(number, (None, None, None, None))
        known = {kind: values[name, kind] for kind in types if (name, kind) in values}
        rewards, soft_labels = ({kind: lists[at] for kind, lists in known.items()} for at in (0, 1))
        causes: dict[tuple[str, str], list[str]] = {}
        for kind in (kind for kind in types if kind not in known):
            demand = reward_type(kind).demand
            if {"truth", "corpus_labels"}.intersection(demand.inputs):
                cause = LACKING, UNLABELLED
            elif demand.needs[CONTROL_LOGPROBS] and name in unscored:
                cause = LACKING, without_trajectory(unscored[name], name)
            elif gold is None:
                cause = UNANSWERED, ""
            elif name in reasons:
                cause = "", without_trajectory(reasons[name], name)
            else:
                cause = LACKING, UNSTATED if "final_answer" in demand.inputs and final is None else UNREADABLE
            causes.setdefault(cause, []).append(kind)
        lacking = "; ".join(f"{words.format(', '.join(kinds))}{why}" for (words, why), kinds in causes.items())
        reason = (CHANGED if number is None else unread.get(number)) if name is None else lacking or None
        ours = {"rewards": rewards or None, "soft_labels": soft_labels or None, "reason": reason}
        yield beside(row, steps, ours)


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
    names = name_rows(read_optional(row, id_column, read_identifier) for row in given)
    rows = [
        (name, step, text, kind, reward, soft_label)
        for name, row in zip(names, given, strict=True)
        for kind, rewards in (row["rewards"] or {}).items()
        for step, (text, reward, soft_label) in enumerate(
            zip(row["steps"], rewards or (), row["soft_labels"][kind] or (), strict=False)
        )
    ]
    return pl.DataFrame(rows, LONG, orient="row")
