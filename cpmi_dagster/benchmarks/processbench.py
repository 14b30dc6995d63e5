"""ProcessBench: find the first wrong step of a solution, or say that there is none.

    {"id": "math-0", "problem": "Determine the remainder of 194 (mod 11).", "steps": ["To …", "Since …"], "label": 0}

`label` is the 0-based first wrong step, -1 for none. A rule flags a step whose probability is below its threshold; the
first flagged step is predicted, -1 if none is. So a problem is predicted correctly by the thresholds of one interval:

    probabilities        first error   predicted by thresholds in
    [0.9, 0.8, 0.3]      2             (0.3, 0.8]
    [0.9, 0.8, 0.3]      0             (0.9, inf]: it flags step 0
    [0.9, 0.8, 0.3]      -1            (-inf, 0.3]

With patience 2 or 3 it takes that many consecutive steps below the threshold, and the first of them is predicted: the
highest probability of each such window stands in for its first step. Inverted, each probability p is read as 1 - p.

F1 = 2 err cor / (err + cor), of the accuracies on solutions with an error and without. All figures are shares, not
percent. The rule with the best F1 is chosen:

    protocol   chosen                                                      on
    paper      the threshold                                               each subset itself
    official   the threshold                                               GSM8K, for all subsets
    released   the threshold, the patience from 1 to 3, p read as 1 - p    GSM8K, for all subsets
    fixed      nothing: the threshold is 0.5

Intervals resample questions and choose again in every resample. A cross-fitted figure judges each part of the questions
by the rule that is best on the others; if the choice is made on GSM8K, that changes the figure of GSM8K alone.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from cpmi_dagster.benchmarks.predictions import with_probabilities
from cpmi_dagster.benchmarks.registry import AVERAGED_BENCHMARKS, SUBSETS
from cpmi_dagster.benchmarks.resampling import CHANCE_DRAWS, Floats, Resampled, group_numbers, question_weights
from cpmi_dagster.benchmarks.thresholds import Chosen, Tally, choose, cross_fitted_totals, totals_at
from cpmi_dagster.errors import BenchmarkError

DecisionRules = tuple[tuple[int, bool], ...]
"""(patience, inverted) pairs that a protocol chooses from."""
PLAIN: DecisionRules = ((1, False),)
NEVER = np.inf
"""Score of a step that no threshold flags, as behind the last one."""
FIGURES = ("err", "cor", "f1")
Protocol = Literal["paper", "official", "released", "fixed"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
RELEASED: DecisionRules = tuple((patience, inverted) for inverted in (False, True) for patience in (1, 2, 3))
TUNED_ON: dict[Protocol, str] = {"official": "gsm8k", "released": "gsm8k"}
"""The subset whose rule holds for all subsets; under other protocols each has its own."""
AVERAGE = "average"
CROSS_FITTED = "average, cross-fitted"
ALL_SUBSETS: tuple[str, ...] = tuple(SUBSETS.values())
AVERAGED: tuple[str, ...] = tuple(SUBSETS[name] for name in AVERAGED_BENCHMARKS)


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
        protocol: how the rule is chosen.
    """

    scores: Floats
    first_error: np.ndarray
    question: np.ndarray
    weights: Floats
    protocol: Protocol = "paper"

    @property
    def rules(self) -> DecisionRules:
        """The rules that the protocol chooses from."""
        return RELEASED if self.protocol == "released" else PLAIN

    @cached_property
    def class_counts(self) -> Floats:
        """[questions, 2] how many solutions of each have an error, and how many have none."""
        cells = 2 * self.question + (self.first_error < 0)
        return np.bincount(cells, minlength=2 * self.weights.shape[1]).reshape(-1, 2).astype(np.float64)

    @cached_property
    def tallies(self) -> list[Tally]:
        """Solutions that each rule judges right: cell 0 of those with an error, 1 of those without."""
        inverted, tallies = np.where(np.isfinite(self.scores), 1 - self.scores, NEVER), []
        cells, questions = (np.tile(column, 2) for column in ((self.first_error < 0).astype(np.intp), self.question))
        for patience, is_inverted in self.rules:
            low, high = right_intervals(inverted if is_inverted else self.scores, self.first_error, patience)
            # judged right by thresholds above the low end, and wrong again by those above the high one
            signs = np.outer([1.0, -1.0], low < high).reshape(-1)
            tallies.append(Tally(np.concatenate([low, high]), signs, cells, questions, self.class_counts.shape))
        return tallies

    def best_rules(self, weights: Floats) -> Chosen:
        """The protocol's choice for every row of weights: the highest F1, the first of several."""
        if self.protocol == "fixed":
            return Chosen.fixed(weights)

        def half_f1(hits: Floats, rows: Floats) -> Floats:
            wrong, right = (rows @ self.class_counts).T[..., None]
            hit, passed = np.moveaxis(hits, -1, 0)
            # as a fraction of whole numbers: equal ones are equal to the last bit
            return hit * passed / np.maximum(hit * right + passed * wrong, 1)

        return choose(self.tallies, weights, half_f1)

    def scores_at(self, chosen: Chosen) -> Scores:
        """The figures of each row of weights by the rule chosen in it."""
        patience, inverted = self.rules[chosen.places[0]]
        rule = {"threshold": float(chosen.thresholds[0]), "patience": patience, "inverted": inverted}
        return self._scores(totals_at(self.tallies, chosen, self.weights), rule)

    def cross_fitted_scores(self, seed: int) -> Scores:
        """The figures with each part of the questions judged by the rule that is best on the others."""
        return self._scores(cross_fitted_totals(self.tallies, self.best_rules, self.weights, seed))

    def _scores(self, hits: Floats, rule: Mapping[str, Any] = {}) -> Scores:
        """From [rows, 2] how many solutions with an error, and without, are judged right."""
        with np.errstate(invalid="ignore", divide="ignore"):
            err, cor = (hits / (self.weights @ self.class_counts)).T
        sizes = np.array([self.class_counts.sum(axis=0), np.count_nonzero(self.class_counts, axis=0)], dtype=np.intp)
        of_f1 = [sizes[0].sum(), sizes[1].min()]
        return Scores(np.array([err, cor, f1_of_accuracies(err, cor)]), np.column_stack([sizes, of_f1]), rule)


def processbench_scores(
    predictions: pl.DataFrame,
    problems: pl.DataFrame,
    bootstrap_samples: int,
    seed: int,
    subsets: Collection[str] = AVERAGED,
    protocols: Collection[Protocol] = PROTOCOLS,
) -> dict[Protocol, dict[str, Scores]]:
    """Err, Corr and F1 of every subset, of the plain mean of the paper's four, and of that mean cross-fitted.

    Args:
        predictions: `ProcessBenchPredictions` columns of one recipe (recipe may be left out).
        problems: `BenchmarkProblems` rows; those of other benchmarks are ignored.
        subsets: which subsets to score.

    Returns:
        By protocol, without those that choose on a subset that is not scored; then by subset, `AVERAGE` and
        `CROSS_FITTED` behind them if all four are there, the second if something is chosen.

    Raises:
        BenchmarkError: a subset is empty or one-sided, or predictions do not fit it.
    """
    judged = _by_subset(predictions, problems, bootstrap_samples, seed, subsets)
    of_all, scores = next(iter(judged)), dict[Protocol, dict[str, Scores]]()
    for protocol in protocols:
        if TUNED_ON.get(protocol, of_all) in judged:
            solutions = {name: replace(each, protocol=protocol) for name, each in judged.items()}
            scores[protocol] = rows = _scores(solutions, protocol)
            if protocol != "fixed" and AVERAGE in rows:
                tuned = [TUNED_ON[protocol]] if protocol in TUNED_ON else AVERAGED
                refitted = {name: solutions[name].cross_fitted_scores(seed) for name in tuned}
                rows[CROSS_FITTED] = _average(rows | refitted, {})
    return scores


def processbench_chance(
    problems: pl.DataFrame, protocol: Protocol, seed: int, subsets: Collection[str] = AVERAGED
) -> dict[str, Scores]:
    """The figures of step scores that are drawn uniformly from 0 to 1: means over `CHANCE_DRAWS` judges.

    Args:
        problems: `BenchmarkProblems` rows; those of other benchmarks are ignored.
        subsets: as for `processbench_scores`; `official` and `released` need GSM8K among them.

    Returns:
        By subset, and `AVERAGE`; each judge is a draw.
    """
    judged = _by_subset(0.5, problems, 0, seed, subsets)
    random = {subset: np.random.default_rng((seed, ALL_SUBSETS.index(subset))) for subset in judged}
    judges: list[dict[str, Scores]] = []
    for _ in range(CHANCE_DRAWS):
        guesses = {}
        for name, each in judged.items():
            drawn = np.where(np.isfinite(each.scores), random[name].random(each.scores.shape), NEVER)
            guesses[name] = replace(each, scores=drawn, protocol=protocol)
        judges.append(_scores(guesses, protocol))
    every = {name: np.hstack([scores[name].figures for scores in judges]) for name in judges[0]}
    return {name: Scores(figures, judges[0][name].sizes, of_judges=True) for name, figures in every.items()}


def _by_subset(
    predictions: pl.DataFrame | float, problems: pl.DataFrame, samples: int, seed: int, subsets: Collection[str]
) -> dict[str, Solutions]:
    """The subsets as they were judged, in the order of `SUBSETS`."""
    wanted = problems.filter(pl.col("benchmark").is_in([name for name, subset in SUBSETS.items() if subset in subsets]))
    judged = with_probabilities(predictions, wanted)
    solutions = {}
    for place, (name, subset) in enumerate(SUBSETS.items()):
        if subset in subsets:
            rows = judged.filter(benchmark=name)
            if (rows["first_error"] >= 0).n_unique() < 2:
                raise BenchmarkError(
                    f"{name} needs solutions both with and without an error for its F1; it has {len(rows)}"
                )
            solutions[subset] = read_solutions(rows, samples, seed + place)
    return solutions


def _scores(judged: Mapping[str, Solutions], protocol: Protocol) -> dict[str, Scores]:
    """Every subset by the rule that the protocol chooses in every resample; the average if all four are there."""
    tuned_on = TUNED_ON.get(protocol)
    shared = judged[tuned_on].best_rules(judged[tuned_on].weights) if tuned_on else None
    scores = {name: each.scores_at(shared or each.best_rules(each.weights)) for name, each in judged.items()}
    if set(AVERAGED) <= set(scores):
        scores[AVERAGE] = _average(scores, scores[tuned_on].rule if tuned_on else {})
    return scores


def _average(scores: Mapping[str, Scores], rule: Mapping[str, Any]) -> Scores:
    """Plain means over the paper's subsets; each subset is resampled on its own."""
    figures, sizes = (np.array(column) for column in zip(*(scores[name][:2] for name in AVERAGED), strict=True))
    return Scores(figures.mean(axis=0), np.array([sizes[:, 0].sum(axis=0), sizes[:, 1].min(axis=0)]), rule)


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


def read_solutions(judged: pl.DataFrame, samples: int, seed: int) -> Solutions:
    """One benchmark's rows of `with_probabilities` as arrays, with bootstrap resamples over questions."""
    lengths = judged["probabilities"].list.len().to_numpy()
    scores = np.full((len(judged), lengths.max()), NEVER)
    scores[np.arange(lengths.max()) < lengths[:, None]] = judged["probabilities"].explode(empty_as_null=False)
    question = group_numbers(judged["question"].to_numpy())
    weights = question_weights(int(question.max()) + 1, samples, seed)
    return Solutions(scores, judged["first_error"].to_numpy(), question, weights)
