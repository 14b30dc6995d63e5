"""How the scores of correct and of wrong steps are distributed (paper, table of AUC and Wasserstein, histogram).

ProcessBench names only the first wrong step. Steps before it count as correct, that step and later ones as wrong:

    first_error   step 0    step 1    step 2
    1             correct   wrong     wrong
    -1            correct   correct   correct
"""

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.metrics import bootstrap_auc, bootstrap_wasserstein
from cpmi_dagster.benchmarks.predictions import with_probabilities
from cpmi_dagster.benchmarks.resampling import CHANCE_DRAWS, Resampled

DISTRIBUTION_SUBSET = "processbench_math"
CHANCE_AUC = 0.5


def scored_steps(predictions: pl.DataFrame, problems: pl.DataFrame) -> pl.DataFrame:
    """The steps of ProcessBench-Math: question, probability, correct.

    Args:
        predictions: `ProcessBenchPredictions` columns of one recipe (recipe may be left out).
        problems: `BenchmarkProblems` rows; those of other benchmarks are ignored.

    Raises:
        BenchmarkError: predictions do not fit the problems.
    """
    return _with_truth(with_probabilities(predictions, problems.filter(benchmark=DISTRIBUTION_SUBSET)))


def step_auc(predictions: pl.DataFrame, problems: pl.DataFrame, samples: int, seed: int) -> Resampled:
    """ROC-AUC with its resamples, the same for all models: one minus another's is a paired difference."""
    return bootstrap_auc(*_columns(scored_steps(predictions, problems)), samples, seed)


def step_wasserstein(predictions: pl.DataFrame, problems: pl.DataFrame, samples: int, seed: int) -> Resampled:
    """1-Wasserstein distance with its resamples."""
    return bootstrap_wasserstein(*_columns(scored_steps(predictions, problems)), samples, seed)


def chance_wasserstein(problems: pl.DataFrame, seed: int) -> Resampled:
    """The distance that uniform random step scores have: the mean over `CHANCE_DRAWS` judges."""
    own = problems.filter(benchmark=DISTRIBUTION_SUBSET)
    unjudged = own.with_columns(probabilities=pl.lit(0.5).repeat_by(pl.col("steps").list.len()))
    _, correct, questions = _columns(_with_truth(unjudged))
    random, steps = np.random.default_rng(seed), len(correct)
    judges = [bootstrap_wasserstein(random.random(steps), correct, questions, 0, 0) for _ in range(CHANCE_DRAWS)]
    return Resampled.of_judges(np.array([judge.value for judge in judges]), steps)


def _columns(steps: pl.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return steps["probability"].to_numpy(), steps["correct"].to_numpy(), steps["question"].to_numpy()


def _with_truth(judged: pl.DataFrame) -> pl.DataFrame:
    step = pl.int_ranges(pl.col("steps").list.len())
    steps = judged.select("question", "first_error", step.alias("step"), pl.col("probabilities").alias("probability"))
    steps = steps.explode("step", "probability", empty_as_null=False)
    is_before = (pl.col("first_error") == -1) | (pl.col("step") < pl.col("first_error"))
    return steps.select("question", "probability", correct=is_before)
