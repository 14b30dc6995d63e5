"""How many values lie below a threshold, and the choice of the best threshold in every resample.

    value   question   cell        below 0.5, by question and cell        resample   below 0.5
    0.2     q0         0           q0: 1 0                                q0 twice   2 0
    0.7     q0         0      ->   q1: 0 1                            ->  q1 twice   0 2
    0.4     q1         1

Counts by question become those of all resamples in one matrix product, `weights @ counts`. Over all questions, every
threshold is tried; in a resample `MOST_CHOICES`, evenly spread: the next best lies within 0.4 % of the steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cpmi_dagster.benchmarks.metrics import candidate_thresholds
from cpmi_dagster.benchmarks.resampling import FOLDS, Floats, fold_numbers

MOST_CHOICES = 250
"""Thresholds that a resample chooses from."""


class Chosen(NamedTuple):
    """A choice for each row of weights: the place of a tally, and a threshold.

    Attributes:
        places: [rows]
        thresholds: [rows]
    """

    places: np.ndarray
    thresholds: Floats


@dataclass(frozen=True, eq=False)
class Tally:
    """Values, and the cell and question in which each counts once a threshold is above it.

    Attributes:
        values: [n]
        each: [n] what each adds: 1, or -1 for the end of an interval.
        cells: [n] from 0.
        questions: [n] from 0.
        shape: number of questions and of cells.
    """

    values: Floats
    each: Floats
    cells: np.ndarray
    questions: np.ndarray
    shape: tuple[int, int]

    def below(self, thresholds: Floats, weights: Floats) -> Floats:
        """[rows, thresholds, cells] what the values below each threshold add.

        Args:
            thresholds: ascending.
            weights: [rows, questions] how often each question counts.
        """
        if len(weights) == 1:  # thresholds may be as many as steps: no table by question
            return self._counts(thresholds, self.each * weights[0, self.questions], np.zeros_like(self.questions), 1)
        counts = self._counts(thresholds, self.each, self.questions, self.shape[0])
        sums = weights @ counts.reshape(self.shape[0], -1)
        return sums.reshape(len(weights), len(thresholds), self.shape[1])

    def at(self, thresholds: Floats, weights: Floats) -> Floats:
        """[rows, cells] the same for each row of weights at its own threshold.

        Args:
            thresholds: [rows]
        """
        tried, places = np.unique(thresholds, return_inverse=True)
        counts = self._counts(tried, self.each, self.questions, self.shape[0])
        totals = np.empty((len(weights), self.shape[1]))
        for place in range(len(tried)):
            rows = places == place
            totals[rows] = weights[rows] @ counts[:, place]
        return totals

    def _counts(self, thresholds: Floats, each: Floats, questions: np.ndarray, size: int) -> Floats:
        """[questions, thresholds, cells]"""
        # the first threshold that a value is below; those behind it follow by running sums
        first = np.searchsorted(thresholds, self.values, side="right")
        shape = (size, len(thresholds) + 1, self.shape[1])
        place = np.ravel_multi_index((questions, first, self.cells), shape)
        return np.bincount(place, each, int(np.prod(shape))).reshape(shape)[:, :-1].cumsum(axis=1, dtype=np.float64)


def choose(tallies: Sequence[Tally], weights: Floats, worth: Callable[[Floats, Floats], Floats]) -> Chosen:
    """The best tally and threshold for every row of weights, the first of several.

    Args:
        weights: [1 + samples, questions] as `question_weights` returns them.
        worth: called with counts below thresholds [rows, thresholds, cells] and weights [rows, questions]; returns what
            is maximised, [rows, thresholds].
    """
    candidates = [candidate_thresholds(tally.values[np.isfinite(tally.values)]) for tally in tallies]
    parts = []
    for rows, tried in ((weights[:1], candidates), (weights[1:], [_spread(some) for some in candidates])):
        places = np.repeat(np.arange(len(tried)), [len(thresholds) for thresholds in tried])
        worths = [worth(tally.below(some, rows), rows) for tally, some in zip(tallies, tried, strict=True) if len(rows)]
        if worths:
            best = np.hstack(worths).argmax(axis=1)
            parts.append(Chosen(places[best], np.concatenate(tried)[best]))
    return Chosen(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def totals_at(tallies: Sequence[Tally], chosen: Chosen, weights: Floats) -> Floats:
    """[rows, cells] the chosen tally's counts below the chosen threshold, for each row of weights."""
    totals = np.empty((len(weights), tallies[0].shape[1]))
    for place in np.unique(chosen.places):
        rows = chosen.places == place
        totals[rows] = tallies[place].at(chosen.thresholds[rows], weights[rows])
    return totals


def cross_fitted_totals(
    tallies: Sequence[Tally], choose_on: Callable[[Floats], Chosen], weights: Floats, seed: int
) -> Floats:
    """[rows, cells] where each part of the questions has the threshold that is chosen on the others.

    Args:
        choose_on: from weights to the choice of each row.
    """
    folds = fold_numbers(weights.shape[1], seed)
    totals = np.zeros((len(weights), tallies[0].shape[1]))
    for fold in range(FOLDS):
        totals += totals_at(tallies, choose_on(weights * (folds != fold)), weights * (folds == fold))
    return totals


def _spread(thresholds: Floats) -> Floats:
    """At most `MOST_CHOICES` of the thresholds, evenly spread."""
    if len(thresholds) <= MOST_CHOICES:
        return thresholds
    return thresholds[np.linspace(0, len(thresholds) - 1, MOST_CHOICES).round().astype(np.intp)]
