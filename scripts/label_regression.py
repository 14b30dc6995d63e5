"""How well several labels together rank right steps above wrong ones: a logistic regression of the truth on them.

It is cross-validated over questions; intervals resample the questions of its scores, and it is not fitted again.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from cpmi_dagster.benchmarks.label_quality import STEP
from cpmi_dagster.benchmarks.metrics import bootstrap_auc
from cpmi_dagster.benchmarks.resampling import Floats, Resampled

FOLDS = 5
"""Parts of the questions; a regression is fitted on the others of each."""


def steps_with_labels(steps: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The judged steps that have a label of every one of some reward types.

    Args:
        steps: rows of `labelled_steps`.

    Returns:
        trajectory_id, step_index, question_id, correct, and a column for each name; sorted by step.
    """
    known = steps.filter(pl.col("reward_type").is_in(names)).drop_nulls("correct")
    wide = known.pivot("reward_type", index=[*STEP, "question_id", "correct"], values="reward", on_columns=names)
    return wide.drop_nulls().sort(STEP)


def regression_auc(labelled: pl.DataFrame, names: Sequence[str], samples: int, seed: int) -> Resampled | None:
    """ROC-AUC of a logistic regression of `correct` on some labels, cross-validated and resampled over questions.

    Args:
        labelled: rows of `steps_with_labels`; the same rows and seed give the same folds and resamples.
        names: its columns that the regression reads.

    Returns:
        None if a part of the questions leaves steps of one kind only, or there are too few questions for the parts.
    """
    features, correct = labelled.select(names).to_numpy(), labelled["correct"].to_numpy()
    questions = labelled["question_id"].to_numpy()
    scores = out_of_fold(features, correct, questions, seed)
    return None if scores is None else bootstrap_auc(scores, correct, questions, samples, seed)


def out_of_fold(
    features: Floats, correct: npt.NDArray[np.bool_], questions: npt.NDArray[np.object_], seed: int
) -> Floats | None:
    """[steps] log-odds of each step, from [steps, labels], by a regression on other questions.

    Returns:
        None if a part of the questions leaves steps of one kind only, or there are too few questions for the parts.
    """
    from sklearn.model_selection import GroupKFold

    if len(np.unique(questions)) < FOLDS:
        return None
    scores = np.empty(len(correct))
    for fitted, left_out in GroupKFold(FOLDS, shuffle=True, random_state=seed).split(features, groups=questions):
        if len(np.unique(correct[fitted])) < 2:
            return None
        scores[left_out] = regression_on(features[fitted], correct[fitted]).decision_function(features[left_out])
    return scores


def regression_on(features: Floats, correct: npt.NDArray[np.bool_]) -> Any:
    """A logistic regression of `correct` on labels [steps, labels], each scaled to a standard deviation of 1."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression()).fit(features, correct)
