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


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def test_cpmi_is_a_robust_z_score_through_a_sigmoid():
    labels = labels_of(rewards_of("cpmi", [-0.4, 0.1, 0.2, 0.3, 0.9]))["cpmi"]
    assert labels == pytest.approx([sigmoid(z) for z in (-6, -1, 0, 1, 7)], abs=1e-6)


def test_the_mad_factor_and_the_clip_of_the_released_code_are_options():
    rewards = rewards_of("cpmi", [-9.0, 0.1, 0.2, 0.3, 9.0])
    labels = labels_of(rewards, mad_factor=1.4826, clip=6)["cpmi"]
    assert labels == pytest.approx([sigmoid(z) for z in (-6, -1 / 1.4826, 0, 1 / 1.4826, 6)], abs=1e-6)


@pytest.mark.parametrize("reward_type", ["mc", "mc_hard", "rand_merge"])
def test_probabilities_stay(reward_type):
    assert labels_of(rewards_of(reward_type, [0.0, 0.25, 1.0]))[reward_type] == [0.0, 0.25, 1.0]


def test_each_type_and_each_part_of_a_merge_is_normalised_by_itself():
    merged = rewards_of("cpmi_merge1", [0.75, 1.0, 2.0, 3.0], steps=[0, 1, 2, 3])
    labels = labels_of(rewards_of("cpmi", [1.0, 2.0, 3.0]), rewards_of("gold_only", [10.0, 20.0, 30.0]), merged)
    expected = pytest.approx([sigmoid(-1), 0.5, sigmoid(1)], abs=1e-6)
    assert labels["cpmi"] == expected and labels["gold_only"] == expected
    assert labels["cpmi_merge1"][1:] == expected and labels["cpmi_merge1"][0] == 0.75


def test_a_merge_with_pav_normalises_that_part_as_pav_itself():
    pav = rewards_of("pav", [-1.0, 0.0, 2.0])
    merged = rewards_of("pav_merge2", [-1.0, 2.0, 5.0, 6.0, 7.0], steps=[0, 1, 2, 3, 4])
    labels = labels_of(pav, merged)
    assert labels["pav_merge2"][:2] == [labels["pav"][0], labels["pav"][2]]
    assert labels["pav_merge2"][2:] == pytest.approx([sigmoid(-1), 0.5, sigmoid(1)], abs=1e-6)


def test_a_merge_with_pav_is_normalised_by_its_own_parts_where_there_is_no_pav():
    rewards = [0.2, 0.4, 0.8, -1.0, 0.0, 3.0]
    merged = labels_of(rewards_of("pav_merge1", rewards, steps=[0, 0, 0, 1, 1, 1]))["pav_merge1"]
    first = labels_of(rewards_of("pav", rewards[:3], steps=[0, 0, 0]))["pav"]
    rest = labels_of(rewards_of("cpmi", rewards[3:], steps=[1, 1, 1]))["cpmi"]
    assert merged == pytest.approx([*first, *rest])


def test_without_spread_the_median_is_a_half_and_the_rest_saturates():
    rewards = [0.0, 1.0, 1.0, 1.0, 2.0]
    assert labels_of(rewards_of("pav", rewards))["pav"] == [0.0, 0.5, 0.5, 0.5, 1.0]
    assert labels_of(rewards_of("pav", rewards), clip=6)["pav"] == pytest.approx(
        [sigmoid(-6), 0.5, 0.5, 0.5, sigmoid(6)]
    )


@hypothesis_settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-50, 50), min_size=1, max_size=30))
def test_labels_rise_with_rewards(values):
    labels = labels_of(rewards_of("cpmi", values))["cpmi"]
    by_reward = [label for _, label in sorted(zip(values, labels, strict=True))]
    assert by_reward == sorted(by_reward)
