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

from cpmi_dagster.benchmarks.metrics import candidate_thresholds, f1_of_accuracies, weight_below
from cpmi_dagster.benchmarks.resampling import (
    FOLDS,
    MOST_CHOICES,
    Choices,
    Floats,
    Resampled,
    choose_anew,
    fold_numbers,
    group_numbers,
    question_weights,
    sums_by_choice,
)

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


@dataclass(frozen=True, eq=False)
class Rules:
    """Rules to choose from: [rules] thresholds, and the place of each one's reading in `readings`, ascending."""

    thresholds: Floats
    places: np.ndarray
    readings: tuple[Reading, ...] = (Reading(),)

    def at(self, place: int) -> Rule:
        """One of them."""
        return Rule(float(self.thresholds[place]), self.readings[self.places[place]])


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

    @property
    def erroneous(self) -> np.ndarray:
        """[problems] whether the solution has an error."""
        return self.first_error >= 0

    @cached_property
    def intervals(self) -> dict[Reading, tuple[Floats, Floats]]:
        """`right_intervals` by reading."""
        inverted = np.where(np.isfinite(self.scores), 1 - self.scores, NEVER)
        return {
            reading: right_intervals(inverted if reading.inverted else self.scores, self.first_error, reading.patience)
            for reading in self.readings
        }


@dataclass(frozen=True, eq=False)
class FirstErrorScore:
    """Accuracies on solutions with and without an error and their F1; `rule` is null where several were used."""

    err: Resampled
    cor: Resampled
    f1: Resampled
    rule: Rule | None = None


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


def rules_to_try(solutions: Solutions) -> Rules:
    """One rule per reading and way to split the scores, by reading and then by threshold."""
    ends = (np.concatenate(interval) for interval in solutions.intervals.values())
    thresholds = [candidate_thresholds(some[np.isfinite(some)]) for some in ends]
    places = np.repeat(np.arange(len(thresholds)), [len(some) for some in thresholds])
    return Rules(np.concatenate(thresholds), places, solutions.readings)


def best_rules(solutions: Solutions, rules: Rules, weights: Floats) -> Choices:
    """The rule with the highest F1 for every row of weights, the first of several.

    Args:
        weights: [1 + samples, questions]

    Returns:
        [1 + samples] places in `rules`.
    """

    kinds = _kinds(solutions, weights.shape[1])

    def best(tried: Choices, own: Floats) -> Choices:
        thresholds, places = rules.thresholds[tried], rules.places[tried]
        hits = {kind: np.empty((len(own), len(tried))) for kind in (True, False)}
        for place in np.unique(places):
            low, high = solutions.intervals[rules.readings[place]]
            here = places == place
            for kind in hits:
                some = (solutions.erroneous == kind) & (low < high)
                # judged right by thresholds above the low end, and wrong again by those above the high one
                ends, questions = np.concatenate([low[some], high[some]]), np.tile(solutions.question[some], 2)
                signs = np.repeat([1.0, -1.0], np.count_nonzero(some))
                hits[kind][:, here] = weight_below(ends, signs, questions, own, thresholds[here])
        wrong, right = (own @ counts[:, None] for counts in kinds)
        # half of F1 as a fraction of whole numbers: equal ones are equal to the last bit
        half = hits[True] * hits[False] / np.maximum(hits[True] * right + hits[False] * wrong, 1)
        return half.argmax(axis=1)

    return choose_anew(len(rules.thresholds), weights, best, MOST_CHOICES * len(rules.readings))


def score_at(solutions: Solutions, rules: Rules, choices: Choices) -> FirstErrorScore:
    """The accuracies and F1 of each row of the solutions' weights by the rule chosen in it.

    Args:
        choices: [1 + samples] places in `rules`.
    """
    return _score(_sums(solutions, rules, choices, solutions.weights), solutions, rules.at(choices[0]))


def cross_fitted_score(solutions: Solutions, rules: Rules, seed: int) -> FirstErrorScore:
    """The accuracies and F1 where each part of the questions is judged by the rule that is best on the others."""
    folds = fold_numbers(solutions.weights.shape[1], seed)
    totals = np.zeros((len(solutions.weights), 4))
    for fold in range(FOLDS):
        choices = best_rules(solutions, rules, solutions.weights * (folds != fold))
        totals += _sums(solutions, rules, choices, solutions.weights * (folds == fold))
    return _score(totals, solutions)


def _kinds(solutions: Solutions, questions: int) -> tuple[np.ndarray, np.ndarray]:
    """[questions] how many solutions of each have an error, and how many have none."""
    wrong, right = (
        np.bincount(solutions.question[solutions.erroneous == kind], minlength=questions) for kind in (True, False)
    )
    return wrong, right


def _sums(solutions: Solutions, rules: Rules, choices: Choices, weights: Floats) -> Floats:
    """[rows, 4] how many of the erroneous solutions and of the others are judged right, then how many there are."""
    cells, shape = 2 * solutions.question + ~solutions.erroneous, (weights.shape[1], 2)

    def sums_of(choice: int) -> Floats:
        threshold, reading = rules.at(choice)
        low, high = solutions.intervals[reading]
        right = (low < threshold) & (threshold <= high)
        return np.bincount(cells[right], minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)

    everything = weights @ np.column_stack(_kinds(solutions, weights.shape[1]))
    return np.hstack([sums_by_choice(weights, choices, sums_of), everything])


def _score(totals: Floats, solutions: Solutions, rule: Rule | None = None) -> FirstErrorScore:
    with np.errstate(invalid="ignore", divide="ignore"):
        err, cor = (totals[:, :2] / totals[:, 2:]).T
    kinds = _kinds(solutions, solutions.weights.shape[1])
    (wrong, wrong_units), (right, right_units) = ((int(each.sum()), int((each > 0).sum())) for each in kinds)
    f1 = Resampled.of(f1_of_accuracies(err, cor), wrong + right, min(wrong_units, right_units))
    return FirstErrorScore(Resampled.of(err, wrong, wrong_units), Resampled.of(cor, right, right_units), f1, rule)
