"""Rules that name the first wrong step of a solution, and the choice of the best of them.

A rule flags a step whose probability is below its threshold; the first flagged step is predicted, -1 if none is. So a
problem is judged right by exactly the thresholds of one interval:

    probabilities        first error   judged right by thresholds in
    [0.9, 0.8, 0.3]      2             (0.3, 0.8]
    [0.9, 0.8, 0.3]      0             none: a threshold above 0.9 flags step 0, so (0.9, inf)
    [0.9, 0.8, 0.3]      -1            (-inf, 0.3]

With patience 2 or 3 it takes that many consecutive steps below the threshold, and the first of them is predicted: the
highest probability of each run of that length then stands in for the step that the run begins with.

    [0.9, 0.2, 0.8, 0.3, 0.1]  patience 2  ->  [0.9, 0.8, 0.8, 0.3, never]

Inverted, each probability p is read as 1 - p.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.metrics import f1_of_accuracies
from cpmi_dagster.benchmarks.resampling import Floats, Resampled, group_numbers, question_weights
from cpmi_dagster.benchmarks.thresholds import Chosen, Tally, choose, cross_fitted_totals, totals_at

NEVER = np.inf
"""Stands in for a step that no threshold flags."""


class Reading(NamedTuple):
    """How probabilities are read: `patience` consecutive steps must be below a threshold, of 1 - p where `inverted`."""

    patience: int = 1
    inverted: bool = False


class Rule(NamedTuple):
    """The first of the consecutive steps that a reading asks for, below `threshold`, is predicted."""

    threshold: float
    reading: Reading = Reading()


class FirstErrorScore(NamedTuple):
    """Accuracies on solutions with and without an error and their F1; `rule` is null where several were used."""

    err: Resampled
    cor: Resampled
    f1: Resampled
    rule: Rule | None = None


@dataclass(frozen=True, eq=False)
class Solutions:
    """Solutions as one model has judged them.

    Attributes:
        scores: [problems, most steps] probabilities, `NEVER` behind the last step.
        first_error: [problems] -1 for none.
        question: [problems] number of each one's question.
        weights: [1 + samples, questions] how often each question counts: see `question_weights`.
        readings: those of the rules to judge by.
    """

    scores: Floats
    first_error: np.ndarray
    question: np.ndarray
    weights: Floats
    readings: tuple[Reading, ...] = (Reading(),)

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
            found, passed = np.moveaxis(hits, -1, 0)
            # as a fraction of whole numbers: equal ones are equal to the last bit
            return found * passed / np.maximum(found * right + passed * wrong, 1)

        return choose(self.tallies, weights, half_f1)

    def score_at(self, chosen: Chosen) -> FirstErrorScore:
        """The accuracies and F1 of each row of weights by the rule chosen in it."""
        rule = Rule(float(chosen.thresholds[0]), self.readings[chosen.places[0]])
        return self._score(totals_at(self.tallies, chosen, self.weights), rule)

    def cross_fitted_score(self, seed: int) -> FirstErrorScore:
        """The accuracies and F1 where each part of the questions is judged by the rule that is best on the others."""
        return self._score(cross_fitted_totals(self.tallies, self.best_rules, self.weights, seed))

    def _score(self, hits: Floats, rule: Rule | None = None) -> FirstErrorScore:
        """From [rows, 2] how many solutions with an error, and without, are judged right."""
        with np.errstate(invalid="ignore", divide="ignore"):
            err, cor = (hits / (self.weights @ self.kinds)).T
        (wrong, right), units = map(int, self.kinds.sum(axis=0)), np.count_nonzero(self.kinds, axis=0).tolist()
        f1 = Resampled.of(f1_of_accuracies(err, cor), wrong + right, min(units))
        return FirstErrorScore(Resampled.of(err, wrong, units[0]), Resampled.of(cor, right, units[1]), f1, rule)


def read_solutions(
    judged: pl.DataFrame, samples: int, seed: int, readings: tuple[Reading, ...] = (Reading(),)
) -> Solutions:
    """What `with_probabilities` returns of one benchmark, as arrays.

    Args:
        samples: bootstrap resamples over questions.
    """
    lengths = judged["probabilities"].list.len().to_numpy()
    scores = np.full((len(judged), lengths.max()), NEVER)
    scores[np.arange(lengths.max()) < lengths[:, None]] = judged["probabilities"].explode(empty_as_null=False)
    question = group_numbers(judged["question"].to_numpy())
    weights = question_weights(int(question.max()) + 1, samples, seed)
    return Solutions(scores, judged["first_error"].to_numpy(), question, weights, readings)


def guessed(solutions: Solutions, random: np.random.Generator) -> Solutions:
    """The same solutions as judged by uniform random probabilities."""
    scores = np.where(np.isfinite(solutions.scores), random.random(solutions.scores.shape), NEVER)
    return replace(solutions, scores=scores)


def right_intervals(scores: Floats, first_error: np.ndarray, patience: int = 1) -> tuple[Floats, Floats]:
    """The thresholds that judge each problem right.

    Args:
        scores: [problems, most steps] as in `Solutions`.
        first_error: [problems] -1 for none.

    Returns:
        [problems] low and high: the thresholds t with low < t <= high.
    """
    problems, steps = scores.shape
    padded = np.full((problems, steps + patience), NEVER)
    padded[:, :steps] = scores
    runs = np.maximum.reduce([padded[:, after : steps + after] for after in range(patience)])
    lowest_before = np.full((problems, steps + 1), NEVER)
    np.minimum.accumulate(runs, axis=1, out=lowest_before[:, 1:])
    each, erroneous = np.arange(problems), first_error >= 0
    low = np.where(erroneous, runs[each, first_error.clip(0)], -np.inf)
    return low, lowest_before[each, np.where(erroneous, first_error, steps)]
