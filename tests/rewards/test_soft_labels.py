"""Eq. 7: a robust z-score through a sigmoid, over the set; probabilities stay as they are."""

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from cpmi_dagster.contracts.tables import SoftLabels
from cpmi_dagster.rewards.settings import SoftLabels as Options
from cpmi_dagster.rewards.soft_labels import soft_labels


def rewards_of(reward_type: str, values: list[float], steps: list[int] | None = None) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "trajectory_id": [f"t{i:03d}" for i in range(len(values))],
            "step_index": steps or [0] * len(values),
            "reward_type": [reward_type] * len(values),
            "reward": values,
        }
    )


def labels_of(*rewards: pl.DataFrame, **options: float) -> dict[str, list[float]]:
    labels = soft_labels(pl.concat(rewards), Options(**options))
    SoftLabels.validate(labels)
    return {name: part["soft_label"].to_list() for (name,), part in labels.group_by("reward_type", maintain_order=True)}


def sigmoids(*scores: float) -> object:
    return pytest.approx([1 / (1 + math.exp(-score)) for score in scores], abs=1e-6)


@pytest.mark.parametrize(
    ("options", "scores"),
    [
        ({}, (-92, -1, 0, 1, 88)),
        ({"mad_factor": 1.4826, "clip": 6}, (-6, -1 / 1.4826, 0, 1 / 1.4826, 6)),  # as the released code
    ],
)
def test_cpmi_is_a_robust_z_score_through_a_sigmoid(options, scores):
    assert labels_of(rewards_of("cpmi", [-9.0, 0.1, 0.2, 0.3, 9.0]), **options)["cpmi"] == sigmoids(*scores)


def test_probabilities_stay_also_as_the_first_part_of_a_merge_whose_rest_is_normalised_by_itself():
    merged = rewards_of("cpmi_merge1", [0.75, 1.0, 2.0, 3.0], steps=[0, 1, 2, 3])
    mc = rewards_of("mc", [0.0, 0.25, 1.0])
    labels = labels_of(mc, rewards_of("cpmi", [1.0, 2.0, 3.0]), rewards_of("gold_only", [10.0, 20.0, 30.0]), merged)
    assert labels["mc"] == [0.0, 0.25, 1.0]
    for values in (labels["cpmi"], labels["gold_only"], labels["cpmi_merge1"][1:]):
        assert values == sigmoids(-1, 0, 1)
    assert labels["cpmi_merge1"][0] == 0.75


@pytest.mark.parametrize("has_pav", [True, False])
def test_the_first_part_of_a_merge_with_pav_is_normalised_as_pav_or_by_itself(has_pav):
    merged = rewards_of("pav_merge1", [-1.0, 0.0, 1.0, 5.0, 6.0, 7.0], steps=[0, 0, 0, 1, 1, 1])
    pav = rewards_of("pav", [-2.0, 0.0, 4.0])
    labels = labels_of(pav, merged) if has_pav else labels_of(merged)
    # of PAV itself: median 0, MAD 2
    assert labels["pav_merge1"][:3] == (sigmoids(-0.5, 0, 0.5) if has_pav else sigmoids(-1, 0, 1))
    assert labels["pav_merge1"][3:] == sigmoids(-1, 0, 1)


@pytest.mark.parametrize(("options", "lowest"), [({}, -1e9), ({"clip": 6}, -6)])
def test_without_spread_the_median_is_a_half_and_the_rest_saturates(options, lowest):
    labels = labels_of(rewards_of("pav", [0.0, 1.0, 1.0, 1.0, 2.0]), **options)["pav"]
    assert labels == sigmoids(max(lowest, -700), 0, 0, 0, -max(lowest, -700))


@hypothesis_settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-50, 50), min_size=1, max_size=30))
def test_labels_rise_with_rewards(values):
    labels = labels_of(rewards_of("cpmi", values))["cpmi"]
    by_reward = [label for _, label in sorted(zip(values, labels, strict=True))]
    assert by_reward == sorted(by_reward)
