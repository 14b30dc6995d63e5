"""Soft labels, training targets in [0, 1]: sigmoid of the robust z-score of rewards (Eq. 7).

    cpmi rewards   -0.4   0.1   0.2   0.3   0.9     median 0.2, MAD 0.1
    soft labels    0.002  0.27  0.5   0.73  0.999

Probabilities stay as they are: reward types with this scale, and user-supplied labels that the profile calls so. The
first part of a merge is treated as its reward type (MC stays; PAV is normalised as PAV, or by itself if the set has no
PAV); the CPMI part is normalised by its own median and MAD.

If more than half of the rewards are equal, the MAD is 0 and only epsilon divides: the median becomes 0.5, other rewards
saturate at 0 or 1, or at the clip.
"""

from collections.abc import Sequence

import polars as pl

from cpmi_dagster.contracts.tables import SoftLabels
from cpmi_dagster.rewards import settings
from cpmi_dagster.rewards.registry import REWARD_TYPES

FIRST_PART = ", first part"


def soft_labels(
    step_rewards: pl.DataFrame, settings: settings.SoftLabels, probabilities: Sequence[str] = ()
) -> pl.DataFrame:
    """Normalise every reward type over the whole labelled set (Eq. 7).

    Args:
        step_rewards: columns of `labels.step_rewards` of all shards.
        probabilities: names of user-supplied labels that are probabilities already.

    Returns:
        Columns of `dataset.soft_labels`, in the order of the rewards.
    """
    # the group whose median and MAD normalise a row; null if the reward is a probability
    present, reward_type = step_rewards["reward_type"].unique().to_list(), pl.col("reward_type")
    kept = [name for name, entry in REWARD_TYPES.items() if entry.is_probability]
    rest = pl.when(reward_type.is_in([*kept, *probabilities])).then(None).otherwise(reward_type)
    merges = {name: entry.merge for name, entry in REWARD_TYPES.items() if entry.merge}
    first = {
        name: None if merge.first in kept else merge.first if merge.first in present else f"{name}{FIRST_PART}"
        for name, merge in merges.items()
    }
    steps = reward_type.replace_strict({name: merge.steps for name, merge in merges.items()}, default=0)
    of_first_part = pl.when(pl.col("step_index") < steps).then(reward_type.replace_strict(first, default=None))
    normalised_as = of_first_part.otherwise(rest)
    # median and MAD of each type, and of each part of a merge
    reward, is_of_type = pl.col("reward"), normalised_as.str.strip_suffix(FIRST_PART) == reward_type
    groups = step_rewards.lazy().filter(is_of_type).group_by(normalised_as=normalised_as)
    robust = groups.agg(median=reward.median(), mad=(reward - reward.median()).abs().median()).collect()
    # looked up, not joined: a join would copy the whole set
    median, mad = (
        normalised_as.replace_strict(robust["normalised_as"], robust[name], default=None) for name in ("median", "mad")
    )
    score = (reward - median) / (settings.mad_factor * mad + settings.epsilon)
    if settings.clip is not None:
        score = score.clip(-settings.clip, settings.clip)
    sigmoid = 1 / (1 + (-score).exp())
    label = pl.when(normalised_as.is_null()).then(reward).otherwise(sigmoid)
    return SoftLabels.cast(step_rewards.select("trajectory_id", "step_index", "reward_type", soft_label=label))
