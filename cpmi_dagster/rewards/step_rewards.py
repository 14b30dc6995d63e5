"""Step rewards of every type that a profile lists.

trajectory  step  reward_type  reward
t000000007  0     cpmi          0.31
t000000007  0     mc            0.75
t000000007  1     cpmi         -0.42
"""

from collections.abc import Iterable

import polars as pl

from cpmi_dagster.contracts.tables import StepRewards
from cpmi_dagster.files.text import counted
from cpmi_dagster.rewards.formulas import Evidence
from cpmi_dagster.rewards.registry import reward_type


def step_rewards(evidence: Evidence, types: Iterable[str]) -> pl.DataFrame:
    """Rewards of every type. Trajectories that could not be scored have no CPMI-based ones.

    Args:
        types: names of reward types.

    Returns:
        Columns of `labels.step_rewards`, sorted by their key.

    Raises:
        SettingsError: a reward type needs a conditioning that was not scored.
        ScoringError: rollouts of a prefix are missing.
    """
    by_type = [reward_type(name).compute(evidence).with_columns(reward_type=pl.lit(name)) for name in types]
    labelled = pl.concat(by_type, how="vertical_relaxed") if by_type else StepRewards.create_empty()
    return StepRewards.cast(labelled.select(StepRewards.column_names())).sort(StepRewards.primary_key())


def notes_on_unlabelled(rewards: pl.DataFrame, trajectories: int, types: Iterable[str]) -> list[str]:
    """A sentence for each reward type that trajectories have none of, since they lack what it is made from.

    These are the corpus's own labels, the truth, and types of the final answer.

    Args:
        rewards: columns of `labels.step_rewards`.
        trajectories: how many there are.
        types: names of reward types.
    """
    notes = []
    for name, entry in ((name, reward_type(name)) for name in types):
        if entry.kind == "corpus" or entry.needs.truth:
            lacking = "that have no labels"
        elif entry.takes_final_answer:
            lacking = "in which no final answer is found"
        else:
            continue
        if count := trajectories - rewards.filter(reward_type=name)["trajectory_id"].n_unique():
            notes.append(f"`{name}` has no rewards for {counted(count, 'trajectory', 'trajectories')} {lacking}")
    return notes
