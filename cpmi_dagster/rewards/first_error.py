"""One label from several: where the first error is, and whether there has been one.

solution of 3 steps, final answer wrong    step 0   step 1   step 2
P(first error)                             0.16     0.58     0.26
first_error                                0.84     0.42     0.74     the lowest is the step to look at
right_so_far                               0.84     0.26     0.00     a probability that only falls: what a PRM learns
"""

from collections.abc import Callable

import numpy as np
import polars as pl

from cpmi_dagster.rewards.reward_type import OF_FIRST_ERROR, PROBABILITY, Demand, LabelInputs, RewardType

ROUNDING = 1e-12
"""Of 1 minus a sum of probabilities that is 1; less counts as 0."""


def first_error(inputs: LabelInputs) -> pl.DataFrame:
    """1 minus the probability that the step is the first wrong one, by the hazard of the first error."""
    return _of_each(inputs, lambda at: 1 - at)


def right_so_far(inputs: LabelInputs) -> pl.DataFrame:
    """Probability that no step up to and including this one is wrong, by the hazard of the first error."""
    return _of_each(inputs, _none_so_far)


def _none_so_far(at: np.ndarray) -> np.ndarray:
    left = 1 - np.cumsum(at)
    return np.where(left < ROUNDING, 0.0, left)


def _of_each(inputs: LabelInputs, reward: Callable[[np.ndarray], np.ndarray]) -> pl.DataFrame:
    """Rewards from [steps] probabilities of the first error of every solution."""
    rewards = [reward(at).clip(0, 1) for at in inputs.first_errors.values()]
    schema = {"trajectory_id": pl.String, "reward": pl.List(pl.Float64)}
    frame = pl.DataFrame({"trajectory_id": [*inputs.first_errors], "reward": rewards}, schema)
    numbered = frame.with_columns(step_index=pl.int_ranges(pl.col("reward").list.len()))
    return numbered.explode("step_index", "reward").select("trajectory_id", "step_index", "reward")


LABELS = Demand(inputs=("labels",))
TOGETHER = (
    RewardType("first_error", "First error", first_error, LABELS, OF_FIRST_ERROR, kind="together"),
    RewardType("right_so_far", "Right so far", right_so_far, LABELS, PROBABILITY, kind="together", is_so_far=True),
)
