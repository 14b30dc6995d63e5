"""How well step scores rank right steps above wrong ones, and how far apart the two kinds lie.

    score     0.9   0.8   0.3   0.2
    correct   yes   no    yes   no

Of the 4 pairs (correct, wrong) 3 are ranked right, so ROC-AUC = 0.75. The 1-Wasserstein distance is the area between
the two cumulative distributions: 0.1 here. Both are computed from weighted steps, so that resamples need no sorting.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from cpmi_dagster.benchmarks.resampling import Floats, Resampled, group_numbers, weight_blocks
from cpmi_dagster.errors import BenchmarkError


def bootstrap_auc(
    scores: npt.ArrayLike, correct: npt.ArrayLike, groups: npt.ArrayLike, samples: int, seed: int
) -> Resampled:
    """Chance that a correct step scores above a wrong one, ties counting half, resampled over questions.

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
        raise BenchmarkError("correct and wrong steps cannot be compared if there is only one kind")
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
