"""Predicts the first wrong step from step probabilities, and chooses the threshold with the best F1 (ProcessBench).

A rule flags a step whose probability is below its threshold; the first flagged step is predicted, -1 if none is. So a
problem is predicted correctly by exactly the thresholds of one interval:

    probabilities        first error   predicted by thresholds in
    [0.9, 0.8, 0.3]      2             (0.3, 0.8]
    [0.9, 0.8, 0.3]      0             (0.9, inf]: it flags step 0
    [0.9, 0.8, 0.3]      -1            (-inf, 0.3]

With patience 2 or 3 it takes that many consecutive steps below the threshold, and the first of them is predicted: the
highest probability of each such window stands in for its first step. Inverted, each probability p is read as 1 - p.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from cpmi_dagster.benchmarks.resampling import Floats, Resampled, group_numbers, question_weights
from cpmi_dagster.benchmarks.thresholds import Chosen, Tally, choose, cross_fitted_totals, totals_at

Readings = tuple[tuple[int, bool], ...]
"""(patience, inverted) pairs that a protocol chooses from."""
AS_THEY_ARE: Readings = ((1, False),)
NEVER = np.inf
"""Score of a step that no threshold flags, as behind the last one."""
FIGURES = ("err", "cor", "f1")


class Scores(NamedTuple):
    """Figures of a subset, or of their average.

    Attributes:
        figures: [3, 1 + samples] by `FIGURES`; of chance [3, judges].
        sizes: [2, 3] problems, and questions, that each figure is over.
        rule: threshold, patience, inverted of the first row; empty if several were used.
        of_judges: whether the figures are those of random judges.
    """

    figures: Floats
    sizes: npt.NDArray[np.intp]
    rule: Mapping[str, Any] = {}
    of_judges: bool = False

    def resampled(self, figure: str) -> Resampled:
        """One figure with its resamples."""
        place = FIGURES.index(figure)
        count, questions = self.sizes[:, place].tolist()
        figures = self.figures[place]
        return Resampled.of_judges(figures, count) if self.of_judges else Resampled.of(figures, count, questions)


@dataclass(frozen=True, eq=False)
class Solutions:
    """Solutions of a subset as one model has judged them.

    Attributes:
        scores: [problems, most steps] probabilities, `NEVER` behind the last step.
        first_error: [problems] -1 for none.
        question: [problems] number of each one's question.
        weights: [1 + samples, questions] how often each question counts: see `question_weights`.
    """

    scores: Floats
    first_error: np.ndarray
    question: np.ndarray
    weights: Floats
    readings: Readings = AS_THEY_ARE

    @cached_property
    def kinds(self) -> Floats:
        """[questions, 2] how many solutions of each have an error, and how many have none."""
        cells = 2 * self.question + (self.first_error < 0)
        return np.bincount(cells, minlength=2 * self.weights.shape[1]).reshape(-1, 2).astype(np.float64)

    @cached_property
    def tallies(self) -> list[Tally]:
        """Solutions that each reading judges right: cell 0 of those with an error, 1 of those without."""
        inverted, tallies = np.where(np.isfinite(self.scores), 1 - self.scores, NEVER), []
        cells, questions = (np.tile(column, 2) for column in ((self.first_error < 0).astype(np.intp), self.question))
        for patience, is_inverted in self.readings:
            low, high = right_intervals(inverted if is_inverted else self.scores, self.first_error, patience)
            # judged right by thresholds above the low end, and wrong again by those above the high one
            each = np.outer([1.0, -1.0], low < high).reshape(-1)
            tallies.append(Tally(np.concatenate([low, high]), each, cells, questions, self.kinds.shape))
        return tallies

    def best_rules(self, weights: Floats) -> Chosen:
        """The reading and threshold with the highest F1 for every row of weights, the first of several."""

        def half_f1(hits: Floats, rows: Floats) -> Floats:
            wrong, right = (rows @ self.kinds).T[..., None]
            hit, passed = np.moveaxis(hits, -1, 0)
            # as a fraction of whole numbers: equal ones are equal to the last bit
            return hit * passed / np.maximum(hit * right + passed * wrong, 1)

        return choose(self.tallies, weights, half_f1)

    def scores_at(self, chosen: Chosen) -> Scores:
        """The figures of each row of weights by the rule chosen in it."""
        patience, inverted = self.readings[chosen.places[0]]
        rule = {"threshold": float(chosen.thresholds[0]), "patience": patience, "inverted": inverted}
        return self._scores(totals_at(self.tallies, chosen, self.weights), rule)

    def cross_fitted_scores(self, seed: int) -> Scores:
        """The figures with each part of the questions judged by the rule that is best on the others."""
        return self._scores(cross_fitted_totals(self.tallies, self.best_rules, self.weights, seed))

    def _scores(self, hits: Floats, rule: Mapping[str, Any] = {}) -> Scores:
        """From [rows, 2] how many solutions with an error, and without, are judged right."""
        with np.errstate(invalid="ignore", divide="ignore"):
            err, cor = (hits / (self.weights @ self.kinds)).T
        sizes = np.array([self.kinds.sum(axis=0), np.count_nonzero(self.kinds, axis=0)], dtype=np.intp)
        of_f1 = [sizes[0].sum(), sizes[1].min()]
        return Scores(np.array([err, cor, f1_of_accuracies(err, cor)]), np.column_stack([sizes, of_f1]), rule)


def f1_of_accuracies(err: npt.ArrayLike, cor: npt.ArrayLike) -> Floats:
    """Harmonic mean of the accuracies on erroneous and on correct solutions, in any one unit; 0 if both are 0."""
    wrong, right = np.asarray(err, dtype=np.float64), np.asarray(cor, dtype=np.float64)
    total = wrong + right
    return 2 * wrong * right / np.where(total == 0, 1, total)


def right_intervals(scores: Floats, first_error: np.ndarray, patience: int = 1) -> tuple[Floats, Floats]:
    """[problems] low and high: a problem is judged right by the thresholds t with low < t <= high.

    Args:
        scores: [problems, most steps] as in `Solutions`.
        first_error: [problems] -1 for none.
    """
    problems, steps = scores.shape
    padded = np.pad(scores, ((0, 0), (0, patience)), constant_values=NEVER)
    runs = np.maximum.reduce([padded[:, after : steps + after] for after in range(patience)])
    lowest_before = np.pad(np.minimum.accumulate(runs, axis=1), ((0, 0), (1, 0)), constant_values=NEVER)
    each, erroneous = np.arange(problems), first_error >= 0
    low = np.where(erroneous, runs[each, first_error.clip(0)], -np.inf)
    return low, lowest_before[each, np.where(erroneous, first_error, steps)]


def read_solutions(judged: pl.DataFrame, samples: int, seed: int, readings: Readings = AS_THEY_ARE) -> Solutions:
    """One benchmark's rows of `with_probabilities` as arrays, with bootstrap resamples over questions."""
    lengths = judged["probabilities"].list.len().to_numpy()
    scores = np.full((len(judged), lengths.max()), NEVER)
    scores[np.arange(lengths.max()) < lengths[:, None]] = judged["probabilities"].explode(empty_as_null=False)
    question = group_numbers(judged["question"].to_numpy())
    weights = question_weights(int(question.max()) + 1, samples, seed)
    return Solutions(scores, judged["first_error"].to_numpy(), question, weights, readings)
