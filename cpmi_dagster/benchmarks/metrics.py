"""Metrics of step scores: how well they rank, how far apart they are, the thresholds between them, and F1.

    score     0.9   0.8   0.3   0.2
    correct   yes   no    yes   no

Of the 4 pairs (correct, wrong) 3 are ranked right, so ROC-AUC = 0.75. The 1-Wasserstein distance is the area between
the two cumulative distributions: 0.1 here.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from cpmi_dagster.benchmarks.resampling import Floats, Resampled, group_numbers, resample_counts
from cpmi_dagster.errors import BenchmarkError

WeightedStatistic = Callable[[Floats, Floats, Floats], Floats]
"""[resamples] from the weights of correct and of wrong steps at each distinct score, and these scores, ascending."""


def roc_auc(scores: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """Chance that a correct step scores above a wrong one, ties counting half.

    Args:
        scores: [steps] higher means more likely correct.
        correct: [steps] truth.

    Raises:
        BenchmarkError: all steps are correct or all are wrong, or a score is not a number.
    """
    from sklearn.metrics import roc_auc_score

    values, truth = _checked(scores, correct)
    return float(roc_auc_score(truth, values))


def wasserstein(scores: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """1-Wasserstein distance between the scores of correct and of wrong steps, in the scores' unit.

    Raises:
        BenchmarkError: all steps are correct or all are wrong, or a score is not a number.
    """
    from scipy.stats import wasserstein_distance

    values, truth = _checked(scores, correct)
    return float(wasserstein_distance(values[truth], values[~truth]))


def f1_of_accuracies(err: npt.ArrayLike, cor: npt.ArrayLike) -> Floats:
    """ProcessBench's F1: harmonic mean of the accuracies on erroneous and on correct solutions, 0 where both are 0.

    Args:
        err: [...] accuracy on solutions with an error, in any one unit.
        cor: [...] accuracy on solutions without, in the same unit.
    """
    wrong, right = np.asarray(err, dtype=np.float64), np.asarray(cor, dtype=np.float64)
    total = wrong + right
    return 2 * wrong * right / np.where(total == 0, 1, total)


def f1_of_counts(hits: npt.ArrayLike, false_alarms: npt.ArrayLike, misses: npt.ArrayLike) -> Floats:
    """F1 from true positives, false positives and false negatives, 0 where there are no true positives."""
    twice = 2 * np.asarray(hits, dtype=np.float64)
    total = twice + np.asarray(false_alarms) + np.asarray(misses)
    return twice / np.where(total == 0, 1, total)


def candidate_thresholds(scores: npt.ArrayLike) -> Floats:
    """One threshold per way to split the scores, ascending: all thresholds of one gap judge alike.

        scores       0.2     0.6     0.9
        thresholds   0.1 | 0.4 | 0.75 | 1.0…

    A step is judged wrong if its score is below the threshold. The middle of a gap is taken, as it carries over best to
    other problems; the last threshold lies above every score.

    Args:
        scores: [n] probabilities in any order, repeats allowed.

    Returns:
        [distinct scores + 1] thresholds; number i has exactly the i lowest distinct scores below it.
    """
    distinct = np.unique(np.asarray(scores, dtype=np.float64))
    above_all = max(1.0, float(np.nextafter(distinct[-1], np.inf))) if len(distinct) else 1.0
    upper = np.append(distinct, above_all)
    lower = np.insert(distinct, 0, min(0.0, float(upper[0])))
    middle = (lower + upper) / 2
    return np.where(middle > lower, middle, upper)


def bootstrap_auc(
    scores: npt.ArrayLike, correct: npt.ArrayLike, groups: npt.ArrayLike, samples: int, seed: int
) -> Resampled:
    """`roc_auc` with its resamples over `groups` (the question of each step)."""

    def weighted(right: Floats, wrong: Floats, distinct: Floats) -> Floats:
        below = np.cumsum(wrong, axis=1) - wrong / 2
        return (right * below).sum(axis=1) / (right.sum(axis=1) * wrong.sum(axis=1))

    return _bootstrap_ranked(roc_auc, weighted, scores, correct, groups, samples, seed)


def bootstrap_wasserstein(
    scores: npt.ArrayLike, correct: npt.ArrayLike, groups: npt.ArrayLike, samples: int, seed: int
) -> Resampled:
    """`wasserstein` with its resamples over `groups` (the question of each step)."""

    def weighted(right: Floats, wrong: Floats, distinct: Floats) -> Floats:
        apart = np.cumsum(right, axis=1) / right.sum(axis=1, keepdims=True)
        apart -= np.cumsum(wrong, axis=1) / wrong.sum(axis=1, keepdims=True)
        return np.abs(apart[:, :-1]) @ np.diff(distinct)

    return _bootstrap_ranked(wasserstein, weighted, scores, correct, groups, samples, seed)


def _checked(scores: npt.ArrayLike, correct: npt.ArrayLike) -> tuple[Floats, npt.NDArray[np.bool_]]:
    values, truth = np.asarray(scores, dtype=np.float64), np.asarray(correct, dtype=bool)
    if not np.isfinite(values).all():
        raise BenchmarkError(f"score {int(np.argmin(np.isfinite(values)))} is not a finite number; score it again")
    if truth.all() or not truth.any():
        raise BenchmarkError("correct and wrong steps cannot be compared if there is only one kind")
    return values, truth


def _bootstrap_ranked(
    figure: Callable[[Floats, npt.NDArray[np.bool_]], float],
    statistic: WeightedStatistic,
    scores: npt.ArrayLike,
    correct: npt.ArrayLike,
    groups: npt.ArrayLike,
    samples: int,
    seed: int,
) -> Resampled:
    """A figure, and its resamples as a statistic of two weighted samples; scores are sorted once."""
    values, truth = _checked(scores, correct)
    order = np.argsort(values, kind="stable")
    distinct, starts = np.unique(values[order], return_index=True)
    numbers = group_numbers(groups)
    draws = []
    for counts in resample_counts(int(numbers.max()) + 1, samples, seed, width=len(values)):
        weights = counts[:, numbers[order]]
        right = np.add.reduceat(weights * truth[order], starts, axis=1)
        wrong = np.add.reduceat(weights * ~truth[order], starts, axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            draws.append(statistic(right, wrong, distinct))
    units = min(len(np.unique(numbers[kind])) for kind in (truth, ~truth))
    return Resampled(figure(values, truth), np.concatenate(draws), len(values), units)
