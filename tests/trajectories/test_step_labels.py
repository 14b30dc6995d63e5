"""What other judges say of steps: labels of the user's by row or trajectory."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.contracts.tables import StepLabels, StepRewards
from cpmi_dagster.errors import SourceError
from cpmi_dagster.trajectories.step_labels import external_rewards, notes_on_others, read_step_labels

TRAJECTORIES = pl.DataFrame({"trajectory_id": ["t000000003", "t000000008"], "steps": [["x", "y"], ["z"]]})
ROWS = [{"trajectory_id": "t000000003", "rewards": [0.5, -2]}, {"row_number": 8, "rewards": [1.5], "comment": "sure"}]
KEY = ["reward_type", "trajectory_id", "step_index"]


def test_labels_are_found_by_trajectory_or_by_row_and_those_of_others_are_left_out_and_counted():
    expected = [("judge", "t000000003", 0, 0.5), ("judge", "t000000003", 1, -2.0), ("judge", "t000000008", 0, 1.5)]
    assert notes_on_others(read_step_labels("judge", ROWS), TRAJECTORIES) == []
    others = [{"row_number": 77, "rewards": [1.0, 0.0]}, {"trajectory_id": "t000000009", "rewards": [1.0]}]
    labels = read_step_labels("judge", [*ROWS, *others])
    StepLabels.validate(labels)
    assert external_rewards(labels, TRAJECTORIES).select(*KEY, "reward").sort(KEY).rows() == expected
    (note,) = notes_on_others(labels, TRAJECTORIES)
    assert note.startswith("`judge` also labels 2 trajectories")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([*ROWS, {"rewards": [1.0]}], r"`judge`, row 3: a row needs `trajectory_id` or `row_number`"),
        ([{"row_number": 9, "rewards": [1.0, float("nan")]}], r"row 1: .*`rewards\.1`: it must be a finite number"),
        ([*ROWS, {"row_number": 8, "rewards": [1.0]}], r"row 3: .*`t000000008`: an earlier row labels the same traj"),
        (ROWS[:1], "`judge` lack 1 selected trajectories, `t000000008` first"),
        ([ROWS[0], {"row_number": 8, "rewards": [1.0, 1.0]}], "`t000000008` has 1 steps but 2 rewards"),
    ],
)
def test_labels_that_are_none_or_not_of_every_step_are_refused(rows, message):
    with pytest.raises(SourceError, match=message):
        external_rewards(read_step_labels("judge", rows), TRAJECTORIES)


@settings(max_examples=30)
@given(st.lists(st.lists(st.floats(-9, 9), min_size=1, max_size=5), min_size=1, max_size=6), st.randoms())
def test_every_label_comes_back_under_its_step_whatever_the_order_of_rows(values, random):
    rows = [{"row_number": number, "rewards": rewards} for number, rewards in enumerate(values)]
    steps = pl.DataFrame(
        {"trajectory_id": [f"t{n:09d}" for n in range(len(values))], "steps": [["s"] * len(v) for v in values]}
    )
    found = external_rewards(read_step_labels("judge", random.sample(rows, len(rows))), steps)
    StepRewards.validate(found)
    lists = found.sort("trajectory_id", "step_index").group_by("trajectory_id", maintain_order=True).agg("reward")
    assert lists["reward"].to_list() == values
