"""Step labels that the user supplies, from people, a judge or another method, as a reward type.

    {"trajectory_id": "t000000007", "rewards": [0.9, 0.2]}    or    {"row_number": 7, "rewards": [0.9, 0.2]}

    name      trajectory_id  step_index  reward
    my_judge  t000000007     0           0.9
    my_judge  t000000007     1           0.2

Every step of every selected trajectory needs a number; labels of other trajectories are counted and left out.
"""

from collections.abc import Iterable

import polars as pl

from cpmi_dagster.contracts.tables import StepLabels, StepRewards
from cpmi_dagster.errors import MalformedRow, SourceError
from cpmi_dagster.trajectories.fields import read_list, read_number
from cpmi_dagster.trajectories.rows import Row, Unreadable, name_trajectory, read_row_number

ADVICE = "correct or remove the row"


def read_step_labels(name: str, rows: Iterable[Row], probabilities: bool = False) -> pl.DataFrame:
    """Read the labels of one source as rows of `sources.step_labels`, in order.

    Args:
        name: of the reward type.
        rows: objects with `trajectory_id` or `row_number` (0-based row of the trajectory source), and `rewards`.
        probabilities: whether the rewards must lie in [0, 1].

    Raises:
        SourceError: there are no rows, a row is invalid, a reward is not finite (or not a probability), or two rows
            label the same trajectory.
    """
    what, labels = f"step labels `{name}`", dict[str, list[float]]()
    for place, row in enumerate(rows):
        if isinstance(row, Unreadable):
            raise SourceError(f"{what}, {row.place}: {row.reason}; correct or remove it")
        where = f"{what}, row {place + 1}:"
        try:
            number, rewards = read_row_number(row), read_list(row, "rewards", read_number)
        except MalformedRow as error:
            raise SourceError(f"{where} {error}; {ADVICE}") from error
        if number is None:
            raise SourceError(f"{where} a row needs `trajectory_id` or `row_number`; {ADVICE}")
        if probabilities and not all(0 <= reward <= 1 for reward in rewards):
            raise SourceError(f"{where} a reward is not in [0, 1]; fix it, or take `probabilities` out of the profile")
        trajectory_id = name_trajectory(number)
        if trajectory_id in labels:
            raise SourceError(f"{where} `{trajectory_id}`: an earlier row labels the same trajectory; {ADVICE}")
        labels[trajectory_id] = rewards
    if not labels:
        raise SourceError(f"{what} have no rows; check the file, or take it out of the profile")
    read = pl.DataFrame({"trajectory_id": list(labels), "reward": list(labels.values())})
    numbered = read.with_columns(name=pl.lit(name), step_index=pl.int_ranges(pl.col("reward").list.len()))
    return StepLabels.cast(numbered.explode("step_index", "reward").select(StepLabels.column_names()))


def external_rewards(labels: pl.DataFrame, trajectories: pl.DataFrame) -> pl.DataFrame:
    """The labels of some trajectories as rows of `labels.step_rewards`.

    Args:
        labels: columns of `sources.step_labels`, of any trajectories.
        trajectories: columns trajectory_id, steps.

    Raises:
        SourceError: a trajectory has no labels, or a wrong number of them.
    """
    wanted = trajectories.select("trajectory_id", steps=pl.col("steps").list.len())
    for (name,), given in labels.group_by("name", maintain_order=True):
        counted = given.group_by("trajectory_id").len("labels")
        both = wanted.join(counted, on="trajectory_id", how="left", maintain_order="left")
        lacking = both.filter(pl.col("labels").is_null())["trajectory_id"]
        if len(lacking):
            raise SourceError(
                f"step labels `{name}` lack {len(lacking):,} selected trajectories, `{lacking[0]}` first; label them "
                "too, or take the labels out of the profile"
            )
        for trajectory_id, steps, count in both.filter(pl.col("labels") != pl.col("steps")).iter_rows():
            raise SourceError(
                f"step labels `{name}`: trajectory `{trajectory_id}` has {steps} steps but {count} rewards; give every "
                "step in alignment.trajectories one"
            )
    chosen = labels.join(wanted, on="trajectory_id", how="semi")
    return StepRewards.cast(chosen.rename({"name": "reward_type"}).select(StepRewards.column_names()))


def notes_on_others(labels: pl.DataFrame, selected: pl.DataFrame) -> list[str]:
    """A sentence for each source that labels trajectories which are not selected."""
    others = labels.join(selected, on="trajectory_id", how="anti")
    counts = others.group_by("name", maintain_order=True).agg(pl.col("trajectory_id").n_unique())
    return [
        f"`{name}` also labels {count:,} trajectories that are unknown or not selected; they are left out"
        for name, count in counts.iter_rows()
    ]
