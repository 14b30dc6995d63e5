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
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.lib.stride_tricks import sliding_window_view

from cpmi_dagster.benchmarks.metrics import candidate_thresholds, f1_of_accuracies, weight_below
from cpmi_dagster.benchmarks.resampling import (
    FOLDS,
    Choices,
    Floats,
    Resampled,
    choose_anew,
    fold_numbers,
    group_numbers,
    question_weights,
    sum_within,
    sums_by_choice,
)

NEVER = np.inf
"""Stands in for a step that no threshold flags."""


class Rule(NamedTuple):
    """The first of `patience` consecutive steps with probabilities below `threshold` is predicted."""

    threshold: float
    patience: int = 1


@dataclass(frozen=True, eq=False)
class Rules:
    """Rules to choose from: [rules] thresholds, and the patience of each, ascending."""

    thresholds: Floats
    patiences: np.ndarray

    def at(self, place: int) -> Rule:
        """One of them."""
        return Rule(float(self.thresholds[place]), int(self.patiences[place]))


@dataclass(frozen=True, eq=False)
class Solutions:
    """Solutions as one model has judged them.

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

    @property
    def erroneous(self) -> np.ndarray:
        """[problems] whether the solution has an error."""
        return self.first_error >= 0


@dataclass(frozen=True, eq=False)
class FirstErrorScore:
    """Accuracies on solutions with and without an error and their F1; `rule` is null where several were used."""

    err: Resampled
    cor: Resampled
    f1: Resampled
    rule: Rule | None = None


def read_solutions(judged: pl.DataFrame, samples: int, seed: int) -> Solutions:
    """What `with_probabilities` returns of one benchmark, as arrays.

    Args:
        samples: bootstrap resamples over questions.
    """
    lengths = judged["probabilities"].list.len().to_numpy()
    scores = np.full((len(judged), lengths.max()), NEVER)
    scores[np.arange(lengths.max()) < lengths[:, None]] = judged["probabilities"].explode(empty_as_null=False)
    question = group_numbers(judged["question"].to_numpy())
    weights = question_weights(int(question.max()) + 1, samples, seed)
    return Solutions(scores, judged["first_error"].to_numpy(), question, weights)


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
    padded = np.pad(scores, ((0, 0), (0, patience - 1)), constant_values=NEVER)
    runs = sliding_window_view(padded, patience, axis=1).max(axis=-1)
    lowest_before = np.minimum.accumulate(np.insert(runs, 0, NEVER, axis=1), axis=1)
    problems, erroneous = np.arange(len(runs)), first_error >= 0
    low = np.where(erroneous, runs[problems, first_error.clip(0)], -np.inf)
    return low, lowest_before[problems, np.where(erroneous, first_error, runs.shape[1])]


def rules_to_try(solutions: Solutions, patiences: Sequence[int]) -> Rules:
    """One rule per patience and way to split the scores, by patience and then by threshold."""
    thresholds = []
    for patience in patiences:
        ends = np.concatenate(right_intervals(solutions.scores, solutions.first_error, patience))
        thresholds.append(candidate_thresholds(ends[np.isfinite(ends)]))
    return Rules(np.concatenate(thresholds), np.repeat(patiences, [len(some) for some in thresholds]))


def best_rules(solutions: Solutions, rules: Rules, weights: Floats) -> Choices:
    """The rule with the highest F1 for every row of weights, the first of several.

    Args:
        weights: [1 + samples, questions]

    Returns:
        [1 + samples] places in `rules`.
    """

    def best(places: Choices, own: Floats) -> Choices:
        return _f1_curve(solutions, rules.thresholds[places], rules.patiences[places], own).argmax(axis=1)

    return choose_anew(len(rules.thresholds), weights, best)


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


def _f1_curve(solutions: Solutions, thresholds: Floats, patiences: np.ndarray, weights: Floats) -> Floats:
    """[rows, rules] F1; NaN in a row with solutions of one kind alone."""
    own = weights[:, solutions.question]
    hits = {kind: np.empty((len(weights), len(thresholds))) for kind in (True, False)}
    for patience in np.unique(patiences):
        low, high = right_intervals(solutions.scores, solutions.first_error, patience)
        for kind in hits:
            some, rules = (solutions.erroneous == kind) & (low < high), patiences == patience
            right = weight_below(low[some], own[:, some], thresholds[rules])
            hits[kind][:, rules] = right - weight_below(high[some], own[:, some], thresholds[rules])
    err, cor = (
        _ratio(right, own[:, solutions.erroneous == kind].sum(axis=1, keepdims=True)) for kind, right in hits.items()
    )
    return f1_of_accuracies(err, cor)


def _sums(solutions: Solutions, rules: Rules, choices: Choices, weights: Floats) -> Floats:
    """[rows, 4] right and all of the erroneous solutions, right and all of the others."""
    erroneous = solutions.erroneous

    def sums_of(choice: int) -> Floats:
        threshold, patience = rules.at(choice)
        low, high = right_intervals(solutions.scores, solutions.first_error, patience)
        right = (low < threshold) & (threshold <= high)
        counts = np.column_stack([right & erroneous, erroneous, right & ~erroneous, ~erroneous])
        return sum_within(solutions.question, counts, weights.shape[1])

    return sums_by_choice(weights, choices, sums_of)


def _score(totals: Floats, solutions: Solutions, rule: Rule | None = None) -> FirstErrorScore:
    err, cor = _ratio(totals[:, 0], totals[:, 1]), _ratio(totals[:, 2], totals[:, 3])
    wrong, count = int(solutions.erroneous.sum()), len(solutions.erroneous)
    return FirstErrorScore(
        Resampled.of(err, wrong),
        Resampled.of(cor, count - wrong),
        Resampled.of(f1_of_accuracies(err, cor), count),
        rule,
    )


def _ratio(part: Floats, whole: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return part / whole
