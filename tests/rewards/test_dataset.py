"""Long tables gathered into one row per trajectory."""

import polars as pl
import pytest

from cpmi_dagster.contracts.tables import Cpmi80k
from cpmi_dagster.errors import TrainingError
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
NEGATIVES = pl.DataFrame(
    {"trajectory_id": ["t2", "t2", "t1", "t3"], "rank": [2, 1, 1, 1], "answer": ["4", "3", "5", "6"]}
)


def steps(column: str) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "trajectory_id": ["t2", "t2", "t1", "t1"],
            "step_index": [1, 0, 0, 0],
            "reward_type": ["cpmi", "cpmi", "cpmi", "mc"],
            column: [0.2, 0.1, 0.3, 0.9],
        }
    )


def test_the_data_set_has_a_row_per_labelled_trajectory_with_negatives_by_rank():
    frame = labelled_trajectories(TRAJECTORIES, NEGATIVES, steps("reward"), steps("soft_label"))
    assert Cpmi80k.is_valid(frame)
    assert frame["trajectory_id"].to_list() == ["t1", "t2"]
    assert frame["hard_negatives"].to_list() == [["5"], ["3", "4"]]
    assert frame["soft_labels"].to_list() == [[0.3], [0.1, 0.2]]


def test_a_reward_type_without_any_labels_is_nothing_to_learn_from():
    with pytest.raises(TrainingError, match="no step has a label of type `math_shepherd`"):
        training_examples(TRAJECTORIES, steps("soft_label"), "math_shepherd")


def test_examples_have_a_label_for_every_step():
    examples = training_examples(TRAJECTORIES, steps("soft_label"), "cpmi")
    assert examples["labels"].list.len().to_list() == examples["steps"].list.len().to_list() == [1, 2]
