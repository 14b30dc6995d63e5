"""Step rewards of every type that a profile lists.

trajectory  step  reward_type  reward
t000000007  0     cpmi          0.31
t000000007  0     mc            0.75
t000000007  1     cpmi         -0.42
"""

from collections.abc import Callable, Iterable
from typing import TypedDict, Unpack

import polars as pl

from cpmi_dagster.contracts.tables import StepRewards
from cpmi_dagster.rewards import settings
from cpmi_dagster.rewards.formulas import Evidence
from cpmi_dagster.rewards.registry import reward_type


class OtherEvidence(TypedDict, total=False):
    """What only some reward types take, as in `Evidence`."""

    control_logprobs: pl.DataFrame
    prover_logprobs: pl.DataFrame
    same: Callable[[str, str], bool]


def step_rewards(
    logprobs: pl.DataFrame,
    template_scores: pl.DataFrame,
    policy_rollouts: pl.DataFrame,
    prover_rollouts: pl.DataFrame,
    trajectories: pl.DataFrame,
    rewards: settings.Rewards,
    seed: int,
    **others: Unpack[OtherEvidence],
) -> pl.DataFrame:
    """Rewards of every type in the settings. Trajectories that could not be scored have no CPMI-based ones.

    The frames are those of `Evidence`.

    Args:
        trajectories: columns trajectory_id, steps and, for what takes them, shepherd_labels, final_answer, gold_answer.
        rewards: reward types, PAV's alpha, the default conditioning.
        seed: decides the random rewards of `rand_merge` and `uniform`, whatever the order of the rows.
        others: what `Evidence` has by default.

    Returns:
        Columns of `labels.step_rewards`, sorted by their key.

    Raises:
        SettingsError: a reward type needs a conditioning that was not scored.
        ScoringError: rollouts of a prefix are missing.
    """
    frames = (logprobs, template_scores, policy_rollouts, prover_rollouts, trajectories)
    evidence = Evidence(*frames, rewards.default_conditioning, rewards.alpha, seed, **others)
    by_type = [reward_type(name).compute(evidence).with_columns(reward_type=pl.lit(name)) for name in rewards.types]
    labelled = pl.concat(by_type, how="vertical_relaxed") if by_type else StepRewards.create_empty()
    return StepRewards.cast(labelled.select(StepRewards.column_names())).sort(StepRewards.primary_key())


def notes_on_unlabelled(trajectories: pl.DataFrame, types: Iterable[str]) -> list[str]:
    """A sentence for each reward type that is the corpus's own labels, where it leaves trajectories without any.

    Args:
        trajectories: column shepherd_labels.
        types: names of reward types.
    """
    without = trajectories["shepherd_labels"].null_count()
    names = [name for name in types if without and reward_type(name).kind == "corpus"]
    return [f"`{name}` has no rewards for {without:,} trajectories that have no labels" for name in names]
