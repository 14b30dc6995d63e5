"""Step tables with one row per trajectory: a list of values, one for each step.

trajectory_id  question             steps                     rewards        soft_labels
t000000017     Weng earns $12 ...   [She earned..., So ...]   [0.42, -0.11]  [0.81, 0.44]
"""

import polars as pl

from cpmi_dagster.errors import TrainingError

KEY = "trajectory_id"
DATASET_REWARD = "cpmi"


def labelled_trajectories(
    trajectories: pl.DataFrame,
    negatives: pl.DataFrame,
    step_rewards: pl.DataFrame,
    soft_labels: pl.DataFrame,
    reward_type: str = DATASET_REWARD,
) -> pl.DataFrame:
    """The data set of section 4.3: trajectories with labels of a reward type, with lists of step values.

    Args:
        trajectories: columns of alignment.trajectories, the selected rows only.
        negatives: columns of labels.hard_negatives; without any, the list is empty.
        step_rewards: columns of labels.step_rewards.
        soft_labels: columns of dataset.soft_labels.

    Returns:
        Columns of dataset.cpmi_80k, without trajectories that scoring rejected.
    """
    answers = negative_lists(negatives)
    of_type = [values.filter(pl.col("reward_type") == reward_type) for values in (step_rewards, soft_labels)]
    labels = step_lists(of_type[0].join(of_type[1], on=[KEY, "step_index", "reward_type"]))
    labels = labels.select(KEY, rewards="reward", soft_labels="soft_label")
    columns = trajectories.select(
        KEY, "source_id", "question_id", "task", "question", "steps", "gold_answer", "shepherd_labels"
    )
    rows = columns.join(answers, on=KEY, how="left").with_columns(pl.col("hard_negatives").fill_null([]))
    return rows.join(labels, on=KEY).sort(KEY)


def training_examples(trajectories: pl.DataFrame, soft_labels: pl.DataFrame, reward_type: str) -> pl.DataFrame:
    """Training examples of a process reward model.

    Args:
        trajectories: columns of alignment.trajectories, the selected rows only.
        soft_labels: columns of dataset.soft_labels.

    Returns:
        Columns trajectory_id, question_id, question, steps (list of strings), labels (list of floats, one per step).

    Raises:
        TrainingError: no step has a label of this type.
    """
    labels = step_lists(soft_labels.filter(pl.col("reward_type") == reward_type)).select(KEY, labels="soft_label")
    if labels.is_empty():
        raise TrainingError(
            f"no step has a label of type `{reward_type}` to learn from; take recipes of this reward type out of the "
            "profile, or give trajectories that have such labels"
        )
    return trajectories.select(KEY, "question_id", "question", "steps").join(labels, on=KEY).sort(KEY)


def negative_lists(negatives: pl.DataFrame) -> pl.DataFrame:
    """One row per trajectory with the list `hard_negatives`, by rank."""
    return negatives.sort(KEY, "rank").group_by(KEY, maintain_order=True).agg(hard_negatives="answer")


def step_lists(values: pl.DataFrame) -> pl.DataFrame:
    """One row per trajectory and reward type, with lists in the order of the steps.

    Args:
        values: trajectory_id, step_index, reward_type, and a column for each of the lists.
    """
    key = [KEY, "reward_type"]
    return values.sort(*key, "step_index").group_by(key, maintain_order=True).agg(pl.all().exclude("step_index"))
