"""How the scores of correct and of wrong steps are distributed (paper, table of AUC and Wasserstein, histogram).

ProcessBench names only the first wrong step. Steps before it count as correct, that step and later ones as wrong:

    first_error   step 0    step 1    step 2
    1             correct   wrong     wrong
    -1            correct   correct   correct
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.metrics import bootstrap_auc, bootstrap_wasserstein, wasserstein
from cpmi_dagster.benchmarks.predictions import with_probabilities
from cpmi_dagster.benchmarks.resampling import CHANCE_DRAWS, Estimate, Resampled, of_judges

DISTRIBUTION_SUBSET = "processbench_math"
CHANCE_AUC = 0.5


@dataclass(frozen=True, eq=False)
class StepDistribution:
    """The two figures, `n` counting steps, and the scores: problem_id, question, step_index, probability, correct."""

    auc: Estimate
    wasserstein: Estimate
    steps: pl.DataFrame


def step_distribution(
    predictions: pl.DataFrame, problems: pl.DataFrame, bootstrap_samples: int, seed: int
) -> StepDistribution:
    """ROC-AUC and 1-Wasserstein distance of step probabilities on ProcessBench-Math.

    Args:
        predictions: `ProcessBenchPredictions` columns of one recipe (recipe may be left out).
        problems: `BenchmarkProblems` rows; those of other benchmarks are ignored.

    Raises:
        BenchmarkError: predictions do not fit the problems, or all steps are of one kind.
    """
    steps = _judged_steps(predictions, problems)
    return StepDistribution(
        bootstrap_auc(*_arrays(steps), bootstrap_samples, seed).estimate(),
        bootstrap_wasserstein(*_arrays(steps), bootstrap_samples, seed).estimate(),
        steps,
    )


def resampled_step_auc(predictions: pl.DataFrame, problems: pl.DataFrame, samples: int, seed: int) -> Resampled:
    """ROC-AUC with its resamples, the same for all models: one minus another's is a paired difference."""
    return bootstrap_auc(*_arrays(_judged_steps(predictions, problems)), samples, seed)


def chance_wasserstein(problems: pl.DataFrame, seed: int) -> Estimate:
    """The distance that uniform random step scores have: the mean over `CHANCE_DRAWS` judges, the range of 95 %."""
    own = problems.filter(benchmark=DISTRIBUTION_SUBSET)
    correct = _with_truth(own.with_columns(probabilities=pl.lit(0.5).repeat_by(pl.col("steps").list.len())))["correct"]
    random = np.random.default_rng(seed)
    draws = np.array([wasserstein(random.random(len(correct)), correct) for _ in range(CHANCE_DRAWS)])
    return of_judges(draws, len(correct)).estimate()


def _arrays(steps: pl.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return steps["probability"].to_numpy(), steps["correct"].to_numpy(), steps["question"].to_numpy()


def _judged_steps(predictions: pl.DataFrame, problems: pl.DataFrame) -> pl.DataFrame:
    """One row per judged step: problem_id, question, step_index, probability, correct."""
    return _with_truth(with_probabilities(predictions, problems.filter(benchmark=DISTRIBUTION_SUBSET)))


def _with_truth(judged: pl.DataFrame) -> pl.DataFrame:
    steps = judged.select(
        "problem_id",
        "question",
        "first_error",
        pl.int_ranges(pl.col("steps").list.len()).alias("step_index"),
        pl.col("probabilities").alias("probability"),
    ).explode("step_index", "probability", empty_as_null=False)
    correct = (pl.col("first_error") == -1) | (pl.col("step_index") < pl.col("first_error"))
    return steps.with_columns(correct.alias("correct")).drop("first_error")
