"""Long tables gathered into one row per trajectory."""

import polars as pl

from cpmi_dagster.contracts.tables import Cpmi80k
from cpmi_dagster.rewards.dataset import labelled_trajectories, training_examples

TRAJECTORIES = pl.DataFrame(
    {
        "trajectory_id": ["t2", "t1", "t3"],
        "source_id": ["a", None, None],
        "question_id": ["q", "q", "r"],
        "task": ["GSM8K"] * 3,
        "question": ["1 + 1?"] * 3,
        "steps": [["a", "b"], ["c"], ["d"]],
        "gold_answer": ["2"] * 3,
        "shepherd_labels": [[True, False], None, [False]],
    }
)
STEPS = pl.DataFrame(
    {
        "trajectory_id": ["t2", "t2", "t1", "t1"],
        "step_index": [1, 0, 0, 0],
        "reward_type": ["cpmi", "cpmi", "cpmi", "mc"],
        "reward": [-0.2, 0.1, 0.3, 0.9],
        "soft_label": [0.2, 0.6, 0.7, 0.9],
    }
)


def test_every_labelled_trajectory_has_a_row_with_its_steps_and_negatives_in_order():
    negatives = pl.DataFrame({"trajectory_id": ["t2", "t2", "t3"], "rank": [2, 1, 1], "answer": ["4", "3", "6"]})
    frame = labelled_trajectories(TRAJECTORIES, negatives, STEPS, STEPS)
    assert Cpmi80k.is_valid(frame)
    assert frame.select("trajectory_id", "hard_negatives", "rewards", "soft_labels").rows() == [
        ("t1", [], [0.3], [0.7]),
        ("t2", ["3", "4"], [0.1, -0.2], [0.6, 0.2]),
    ]
    assert training_examples(TRAJECTORIES, STEPS, "cpmi")["labels"].to_list() == frame["soft_labels"].to_list()
