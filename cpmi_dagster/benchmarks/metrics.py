"""How well step scores rank right steps above wrong ones, and how far apart the two kinds lie.

    score     0.9   0.8   0.3   0.2
    correct   yes   no    yes   no

Of the 4 pairs (correct, wrong) 3 are ranked right, so ROC-AUC = 0.75. The 1-Wasserstein distance is the area between
the two cumulative distributions: 0.1 here. Both are computed from weighted steps, so that resamples need no sorting.

ProcessBench-Math names only the first wrong step: steps before it count as correct, that step and later ones as wrong
(paper, table of AUC and Wasserstein, histogram):

    first_error   step 0    step 1    step 2
    1             correct   wrong     wrong
    -1            correct   correct   correct
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import polars as pl

from cpmi_dagster.benchmarks.predictions import with_probabilities
from cpmi_dagster.benchmarks.resampling import CHANCE_DRAWS, Floats, Resampled, group_numbers, weight_blocks
from cpmi_dagster.errors import BenchmarkError

DISTRIBUTION_SUBSET = "processbench_math"
CHANCE_AUC = 0.5


def bootstrap_auc(
    scores: npt.ArrayLike, correct: npt.ArrayLike, groups: npt.ArrayLike, samples: int, seed: int
) -> Resampled:
    """ROC-AUC of step scores, ties counting half, resampled over questions.

    Args:
        scores: [steps] higher means more likely correct.
        correct: [steps] truth.
        groups: [steps] question of each.

    Raises:
        BenchmarkError: all steps are correct or all are wrong, or a score is not a number.
    """

    def auc(right: Floats, wrong: Floats, distinct: Floats) -> Floats:
        below = np.cumsum(wrong, axis=1) - wrong / 2
        return (right * below).sum(axis=1) / (right.sum(axis=1) * wrong.sum(axis=1))

    return _bootstrap(auc, scores, correct, groups, samples, seed)


def bootstrap_wasserstein(
    scores: npt.ArrayLike, correct: npt.ArrayLike, groups: npt.ArrayLike, samples: int, seed: int
) -> Resampled:
    """1-Wasserstein distance between the scores of correct and of wrong steps, arguments as of `bootstrap_auc`."""

    def distance(right: Floats, wrong: Floats, distinct: Floats) -> Floats:
        apart = np.cumsum(right, axis=1) / right.sum(axis=1, keepdims=True)
        apart -= np.cumsum(wrong, axis=1) / wrong.sum(axis=1, keepdims=True)
        return np.abs(apart[:, :-1]) @ np.diff(distinct)

    return _bootstrap(distance, scores, correct, groups, samples, seed)


def _bootstrap(
    statistic: Callable[[Floats, Floats, Floats], Floats],
    scores: npt.ArrayLike,
    correct: npt.ArrayLike,
    groups: npt.ArrayLike,
    samples: int,
    seed: int,
) -> Resampled:
    """A statistic of the weights of correct and of wrong steps at each distinct score, and these scores, ascending."""
    values, truth = np.asarray(scores, dtype=np.float64), np.asarray(correct, dtype=bool)
    if not np.isfinite(values).all():
        raise BenchmarkError(f"score {int(np.argmin(np.isfinite(values)))} is not a finite number; score it again")
    if truth.all() or not truth.any():
        kind = "correct" if truth.all() else "wrong"
        raise BenchmarkError(f"an AUC needs correct and wrong steps, and these are all {kind}: judge more solutions")
    order, numbers = np.argsort(values, kind="stable"), group_numbers(groups)
    distinct, starts = np.unique(values[order], return_index=True)
    figures = []
    for counts in weight_blocks(int(numbers.max()) + 1, samples, seed, width=len(values)):
        weights = counts[:, numbers[order]]
        right, wrong = (np.add.reduceat(weights * kind[order], starts, axis=1) for kind in (truth, ~truth))
        with np.errstate(invalid="ignore", divide="ignore"):
            figures.append(statistic(right, wrong, distinct))
    units = min(len(np.unique(numbers[kind])) for kind in (truth, ~truth))
    return Resampled.of(np.concatenate(figures), len(values), units)


def scored_steps(predictions: pl.DataFrame, problems: pl.DataFrame) -> pl.DataFrame:
    """The steps of ProcessBench-Math, one row each: question, probability, correct.

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
    problems = problems.filter(benchmark=DISTRIBUTION_SUBSET)
    unjudged = problems.with_columns(probabilities=pl.lit(0.5).repeat_by(pl.col("steps").list.len()))
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
