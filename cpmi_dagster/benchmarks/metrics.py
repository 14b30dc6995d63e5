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

Two people who have judged the same steps agree on a share of them, and beyond chance by Cohen's kappa:

    step   first   second
    a      right   right
    b      right   wrong        they agree on 2 of 3 steps; kappa is 0.4
    c      wrong   wrong
"""

import warnings
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from cpmi_dagster.benchmarks.predictions import with_probabilities
from cpmi_dagster.benchmarks.resampling import (
    CHANCE_DRAWS,
    Floats,
    Resampled,
    bootstrap_mean,
    group_numbers,
    question_weights,
    resampled_totals,
    weight_blocks,
)
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
    steps = _ranked(scores, correct, groups)
    (right, of_right), (wrong, of_wrong) = steps.kind(True), steps.kind(False)
    below, up_to = (np.searchsorted(right, wrong, side) for side in ("left", "right"))
    figures = []
    for weights in steps.blocks(samples, seed):
        right_up_to = np.zeros((len(weights), len(right) + 1))
        # `take` is twice as fast as an index
        np.cumsum(weights.take(of_right, axis=1), axis=1, out=right_up_to[:, 1:])
        each = weights.take(of_wrong, axis=1)
        pairs = right_up_to[:, -1] * each.sum(axis=1)
        # half of the right steps below a wrong one and half of those up to it: ties count half
        lost = (each * (right_up_to.take(below, axis=1) + right_up_to.take(up_to, axis=1))).sum(axis=1) / 2
        with np.errstate(invalid="ignore"):
            figures.append((pairs - lost) / pairs)
    return steps.resampled(figures)


def bootstrap_wasserstein(
    scores: npt.ArrayLike, correct: npt.ArrayLike, groups: npt.ArrayLike, samples: int, seed: int
) -> Resampled:
    """1-Wasserstein distance between the scores of correct and of wrong steps, arguments as of `bootstrap_auc`."""
    steps = _ranked(scores, correct, groups)
    distinct, starts = np.unique(steps.scores, return_index=True)
    figures = []
    for weights in steps.blocks(samples, seed):
        each = weights[:, steps.groups]
        kinds = (steps.correct, ~steps.correct)
        cumulated = (np.add.reduceat(each * kind, starts, axis=1).cumsum(axis=1) for kind in kinds)
        with np.errstate(invalid="ignore"):
            right, wrong = (up_to / up_to[:, -1:] for up_to in cumulated)
        figures.append(np.abs(right - wrong)[:, :-1] @ np.diff(distinct))
    return steps.resampled(figures)


def bootstrap_correlations(
    values: Floats, pairs: Sequence[tuple[int, int]], groups: npt.ArrayLike, samples: int, seed: int
) -> list[Resampled]:
    """Pearson's correlation of each pair of columns, resampled over questions; of ranks it is Spearman's.

    Args:
        values: [steps, columns]
        pairs: numbers of columns.
        groups: [steps] question of each.
    """
    centred, numbers = values - values.mean(axis=0), group_numbers(groups)
    products = (centred[:, one] * centred[:, other] for one, other in pairs)
    # question by question: the products of all steps would be gigabytes
    columns = (np.bincount(numbers, each) for each in chain([np.ones(len(values))], centred.T, centred.T**2, products))
    totals, units = resampled_totals(np.column_stack(list(columns)), samples, seed)
    n, (x, xx, xy) = totals[:, 0], np.split(totals[:, 1:], np.cumsum([values.shape[1]] * 2), axis=1)
    spread = n[:, None] * xx - x * x
    figures = []
    for number, (one, other) in enumerate(pairs):
        both = np.sqrt(np.maximum(spread[:, one] * spread[:, other], 0))
        alike = (n * xy[:, number] - x[:, one] * x[:, other]) / np.where(both > 0, both, np.nan)
        figures.append(Resampled.of(alike, len(values), units))
    return figures


class _Ranked(NamedTuple):
    """Steps by ascending score: [steps] scores, truth, and numbers of questions."""

    scores: Floats
    correct: npt.NDArray[np.bool_]
    groups: npt.NDArray[np.intp]

    def kind(self, correct: bool) -> tuple[Floats, npt.NDArray[np.intp]]:
        """Scores and questions of the correct steps, or of the wrong ones."""
        is_kind = self.correct == correct
        return self.scores[is_kind], self.groups[is_kind]

    def blocks(self, samples: int, seed: int) -> Iterator[Floats]:
        """[block, questions] weights of all questions, then of resamples."""
        return weight_blocks(int(self.groups.max()) + 1, samples, seed, width=len(self.scores))

    def resampled(self, figures: Sequence[Floats]) -> Resampled:
        """Figures of the blocks together; its units are the questions of the rarer kind of steps."""
        units = min(len(np.unique(self.kind(correct)[1])) for correct in (True, False))
        return Resampled.of(np.concatenate(figures), len(self.scores), units)


def _ranked(scores: npt.ArrayLike, correct: npt.ArrayLike, groups: npt.ArrayLike) -> _Ranked:
    """Steps by ascending score, if a figure can be computed of them."""
    values, truth = np.asarray(scores, dtype=np.float64), np.asarray(correct, dtype=bool)
    if not np.isfinite(values).all():
        raise BenchmarkError(f"score {int(np.argmin(np.isfinite(values)))} is not a finite number; score it again")
    if truth.all() or not truth.any():
        kind = "correct" if truth.all() else "wrong"
        raise BenchmarkError(f"an AUC needs correct and wrong steps, and these are all {kind}: judge more solutions")
    order = np.argsort(values, kind="stable")
    return _Ranked(values[order], truth[order], group_numbers(groups)[order])


def scored_steps(predictions: pl.DataFrame | float, problems: pl.DataFrame) -> pl.DataFrame:
    """The steps of ProcessBench-Math, one row each: question, probability, correct.

    Args:
        predictions: `ProcessBenchPredictions` columns of one recipe (recipe may be left out), or one probability.
        problems: `BenchmarkProblems` rows; those of other benchmarks are ignored.

    Raises:
        BenchmarkError: predictions do not fit the problems.
    """
    judged = with_probabilities(predictions, problems.filter(benchmark=DISTRIBUTION_SUBSET))
    step = pl.int_ranges(pl.col("steps").list.len())
    steps = judged.select("question", "first_error", step.alias("step"), pl.col("probabilities").alias("probability"))
    steps = steps.explode("step", "probability", empty_as_null=False)
    is_before = (pl.col("first_error") == -1) | (pl.col("step") < pl.col("first_error"))
    return steps.select("question", "probability", correct=is_before)


def chance_wasserstein(problems: pl.DataFrame, seed: int) -> Resampled:
    """The distance that uniform random step scores have: the mean over `CHANCE_DRAWS` judges."""
    steps = scored_steps(0.5, problems)
    random, columns = np.random.default_rng(seed), (steps["correct"], steps["question"])
    judges = [bootstrap_wasserstein(random.random(steps.height), *columns, 0, 0) for _ in range(CHANCE_DRAWS)]
    return Resampled.of_judges(np.array([judge.value for judge in judges]), steps.height)


class Agreement(NamedTuple):
    """Agreement of two people.

    Attributes:
        alike: the share of steps of which both say the same.
        kappa: Cohen's; None if chance alone has them agree, as both say the same of every step.
    """

    alike: Resampled
    kappa: Resampled | None


def agreement(
    first: npt.ArrayLike, second: npt.ArrayLike, questions: npt.ArrayLike, samples: int, seed: int
) -> Agreement:
    """Agreement of two people, resampled over questions.

    Args:
        first: [steps] whether each is right, by one person.
        second: [steps] by the other.
        questions: [steps] question of each.
    """
    from sklearn.metrics import cohen_kappa_score

    ours, theirs, numbers = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool), group_numbers(questions)
    alike = bootstrap_mean(ours == theirs, samples, seed, questions)
    if len({*ours.tolist(), *theirs.tolist()}) < 2:
        return Agreement(alike, None)
    weights = question_weights(int(numbers.max()) + 1, samples, seed)[:, numbers]
    with warnings.catch_warnings(action="ignore"):  # a resample may leave it undefined
        kappas = [cohen_kappa_score(ours, theirs, sample_weight=each, labels=[False, True]) for each in weights]
    return Agreement(alike, Resampled.of(np.array(kappas), alike.n, alike.units))
