"""How the scores of correct and of wrong steps are distributed (paper, table of AUC and Wasserstein, histogram).

ProcessBench names only the first wrong step. Steps before it count as correct, that step and later ones as wrong:

    first_error   step 0    step 1    step 2
    1             correct   wrong     wrong
    -1            correct   correct   correct
"""

from dataclasses import dataclass

import polars as pl

from cpmi_dagster.benchmarks.metrics import bootstrap_auc, bootstrap_wasserstein
from cpmi_dagster.benchmarks.predictions import with_probabilities
from cpmi_dagster.benchmarks.resampling import Difference, Estimate, Resampled

DISTRIBUTION_SUBSET = "processbench_math"


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
        problems: `BenchmarkProblems` rows; those of other benchmarks are left aside.
        bootstrap_samples: resamples of questions for the 95 % intervals.
        seed: seed of the resamples.

    Raises:
        BenchmarkError: predictions do not fit the problems, or all steps are of one kind.
    """
    steps = judged_steps(with_probabilities(predictions, problems.filter(benchmark=DISTRIBUTION_SUBSET)))
    arrays = (steps["probability"].to_numpy(), steps["correct"].to_numpy(), steps["question"].to_numpy())
    return StepDistribution(
        bootstrap_auc(*arrays, bootstrap_samples, seed).estimate(),
        bootstrap_wasserstein(*arrays, bootstrap_samples, seed).estimate(),
        steps.select("problem_id", "question", "step_index", "probability", "correct"),
    )


def step_auc_difference(
    first: pl.DataFrame, second: pl.DataFrame, problems: pl.DataFrame, samples: int, seed: int
) -> Difference:
    """ROC-AUC of one model's step probabilities minus another's, over the same resampled questions."""
    wanted = problems.filter(benchmark=DISTRIBUTION_SUBSET)
    both = [judged_steps(with_probabilities(predictions, wanted)) for predictions in (first, second)]
    aucs = [_auc(steps, samples, seed) for steps in both]
    return aucs[0].minus(aucs[1])


def _auc(steps: pl.DataFrame, samples: int, seed: int) -> Resampled:
    probability, correct, question = (steps[name].to_numpy() for name in ("probability", "correct", "question"))
    return bootstrap_auc(probability, correct, question, samples, seed)


def judged_steps(judged: pl.DataFrame) -> pl.DataFrame:
    """One row per step of problems with probabilities: problem_id, question, step_index, probability, correct."""
    steps = judged.select(
        "problem_id",
        "question",
        "first_error",
        pl.int_ranges(pl.col("steps").list.len()).alias("step_index"),
        pl.col("probabilities").alias("probability"),
    ).explode("step_index", "probability", empty_as_null=False)
    correct = (pl.col("first_error") == -1) | (pl.col("step_index") < pl.col("first_error"))
    return steps.with_columns(correct.alias("correct")).drop("first_error")
