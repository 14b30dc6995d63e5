"""Step rewards of every type that a profile lists.

trajectory  step  reward_type  reward
t000000007  0     cpmi          0.31
t000000007  0     mc            0.75
t000000007  1     cpmi         -0.42
"""

from collections.abc import Iterable

import polars as pl

from cpmi_dagster.contracts.tables import StepRewards
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
    """A sentence for each reward type that is the corpus's own labels, or the truth, where trajectories have none.

    Args:
        rewards: columns of `labels.step_rewards`.
        trajectories: how many there are.
        types: names of reward types.
    """
    given = [name for name in types if reward_type(name).kind == "corpus" or reward_type(name).needs.truth]
    counts = {name: trajectories - rewards.filter(reward_type=name)["trajectory_id"].n_unique() for name in given}
    lacking = [(name, count) for name, count in counts.items() if count]
    return [f"`{name}` has no rewards for {count:,} trajectories that have no labels" for name, count in lacking]
