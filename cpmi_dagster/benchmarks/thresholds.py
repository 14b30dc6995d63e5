"""The best threshold in every resample, by one matrix product.

    value   question   cell        below 0.5, by question and cell        resample   below 0.5
    0.2     q0         0           q0: 1 0                                q0 twice   2 0
    0.7     q0         0      ->   q1: 0 1                            ->  q1 twice   0 2
    0.4     q1         1

Counts by question become those of all resamples in one product, `weights @ counts`. Over all questions, every threshold
is tried; in a resample `MOST_CHOICES`, evenly spread: the next best lies within 0.4 % of the steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cpmi_dagster.benchmarks.resampling import Floats

MOST_CHOICES = 250
"""Thresholds that a resample chooses from."""
FIXED_THRESHOLD = 0.5
FOLDS = 2
"""Parts of the questions between which thresholds are cross-fitted."""


class Chosen(NamedTuple):
    """For each row of weights, the number of a tally and a threshold."""

    places: np.ndarray
    thresholds: Floats

    @classmethod
    def fixed(cls, weights: Floats) -> "Chosen":
        """`FIXED_THRESHOLD` for every row, with the first tally."""
        return cls(np.zeros(len(weights), dtype=np.intp), np.full(len(weights), FIXED_THRESHOLD))


@dataclass(frozen=True, eq=False)
class Tally:
    """Values, and the cell and question in which each counts once a threshold is above it.

    Attributes:
        values: [n]
        signs: [n] what each adds: 1, or -1 for the end of an interval.
        cells: [n] from 0.
        questions: [n] from 0.
        shape: number of questions and of cells.
    """

    values: Floats
    signs: Floats
    cells: np.ndarray
    questions: np.ndarray
    shape: tuple[int, int]

    def below(self, thresholds: Floats, weights: Floats) -> Floats:
        """[rows, thresholds, cells] what the values below each threshold add.

        Args:
            thresholds: ascending.
            weights: [rows, questions] how often each question counts.
        """
        signs, asked, count = self.signs, self.questions, self.shape[0]
        if len(weights) == 1:  # thresholds may be as many as steps: no table by question
            signs, asked, count, weights = signs * weights[0, asked], np.zeros_like(asked), 1, np.ones((1, 1))
        # the first threshold that a value is below; those behind it follow by running sums
        first, shape = np.searchsorted(thresholds, self.values, "right"), (count, len(thresholds) + 1, self.shape[1])
        place = np.ravel_multi_index((asked, first, self.cells), shape)
        counts = np.bincount(place, signs, int(np.prod(shape))).reshape(shape)[:, :-1].cumsum(axis=1)
        return (weights @ counts.reshape(count, -1)).reshape(len(weights), -1, self.shape[1])


def choose(tallies: Sequence[Tally], weights: Floats, objective: Callable[[Floats, Floats], Floats]) -> Chosen:
    """The best tally and threshold for every row of weights, the first of several.

    Args:
        weights: [1 + samples, questions] as `question_weights` returns them.
        objective: called with counts below thresholds [rows, thresholds, cells] and weights [rows, questions]; returns
            what is maximised, [rows, thresholds].
    """
    every = [candidate_thresholds(tally.values[np.isfinite(tally.values)]) for tally in tallies]
    some = [each[np.linspace(0, len(each) - 1, min(len(each), MOST_CHOICES)).round().astype(int)] for each in every]
    parts = []
    for rows, tried in ((weights[:1], every), (weights[1:], some)):
        if len(rows):
            reached = [objective(tally.below(each, rows), rows) for tally, each in zip(tallies, tried, strict=True)]
            best = np.hstack(reached).argmax(axis=1)
            places = np.repeat(np.arange(len(tried)), [len(each) for each in tried])
            parts.append((places[best], np.concatenate(tried)[best]))
    return Chosen(*map(np.concatenate, zip(*parts, strict=True)))


def totals_at(tallies: Sequence[Tally], chosen: Chosen, weights: Floats) -> Floats:
    """[rows, cells] the chosen tally's counts below the chosen threshold, for each row of weights."""
    totals = np.empty((len(weights), tallies[0].shape[1]))
    for place in np.unique(chosen.places):
        rows = np.flatnonzero(chosen.places == place)
        tried, numbers = np.unique(chosen.thresholds[rows], return_inverse=True)
        totals[rows] = tallies[place].below(tried, weights[rows])[np.arange(len(rows)), numbers]
    return totals


def cross_fitted_totals(
    tallies: Sequence[Tally], choose_on: Callable[[Floats], Chosen], weights: Floats, seed: int
) -> Floats:
    """[rows, cells] counts with each part of the questions at the threshold that is chosen on the others.

    Args:
        choose_on: from weights to the choice of each row.
    """
    folds = fold_numbers(weights.shape[1], seed)
    return sum(
        (totals_at(tallies, choose_on(weights * (folds != fold)), weights * (folds == fold)) for fold in range(FOLDS)),
        np.zeros((len(weights), tallies[0].shape[1])),
    )


def fold_numbers(questions: int, seed: int) -> npt.NDArray[np.intp]:
    """[questions] which of `FOLDS` equal parts each question is in, drawn at random."""
    return np.random.default_rng(seed).permutation(questions) % FOLDS


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
