"""The small table of rewards that a run's record has."""

import polars as pl

from cpmi_dagster.rewards.step_rewards import histogram, reward_summary


def test_a_histogram_has_a_bar_for_each_bin_and_the_highest_for_the_fullest():
    values = pl.Series([0.0] * 7 + [0.3] * 1 + [1.0] * 14)
    assert histogram(values, 4) == "▅▁·█"
    assert histogram(pl.Series([2.5, 2.5])) == "█"


def test_the_summary_has_a_row_for_each_type_that_rewards_some_step():
    rewards = pl.DataFrame(
        {"reward_type": ["mc", "mc", "cpmi", "none"], "reward": [0.25, 0.75, -1.5, None]},
        schema_overrides={"reward_type": pl.Categorical},
    )
    assert reward_summary(rewards).splitlines()[2:] == [
        "| cpmi | 1 | -1.5 | -1.5 | -1.5 | -1.5 | █ |",
        f"| mc | 2 | 0.5 | 0.25 | 0.75 | 0.75 | █{'·' * 14}█ |",
    ]
