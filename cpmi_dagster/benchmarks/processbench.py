"""ProcessBench: find the first wrong step of a solution, or say that there is none.

    {"id": "math-0", "problem": "Determine the remainder of 194 (mod 11).", "steps": ["To …", "Since …"], "label": 0}

`label` is the 0-based first wrong step, -1 for none; `first_errors` has the rules that predict it.
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
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.first_errors import NEVER, Readings, Scores, Solutions, read_solutions
from cpmi_dagster.benchmarks.predictions import with_probabilities
from cpmi_dagster.benchmarks.registry import AVERAGED_BENCHMARKS, SUBSETS
from cpmi_dagster.benchmarks.resampling import CHANCE_DRAWS
from cpmi_dagster.benchmarks.thresholds import Chosen
from cpmi_dagster.errors import BenchmarkError

Protocol = Literal["paper", "official", "released", "fixed"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
RELEASED: Readings = tuple((patience, inverted) for inverted in (False, True) for patience in (1, 2, 3))
TUNED_ON: dict[Protocol, str] = {"official": "gsm8k", "released": "gsm8k"}
"""The subset whose rule holds for all subsets; under other protocols each has its own."""
FIXED_THRESHOLD = 0.5
AVERAGE = "average"
CROSS_FITTED = "average, cross-fitted"
ALL_SUBSETS: tuple[str, ...] = tuple(SUBSETS.values())
AVERAGED: tuple[str, ...] = tuple(SUBSETS[name] for name in AVERAGED_BENCHMARKS)


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
    judged = _by_subset(problems, predictions, bootstrap_samples, seed, subsets)
    of_all = next(iter(judged))
    scores: dict[Protocol, dict[str, Scores]] = {
        protocol: _scores(judged, protocol) for protocol in protocols if TUNED_ON.get(protocol, of_all) in judged
    }
    for protocol, rows in scores.items():
        if protocol != "fixed" and AVERAGE in rows:
            tuned = [TUNED_ON[protocol]] if protocol in TUNED_ON else AVERAGED
            refitted = {name: _read_as(judged[name], protocol).cross_fitted_scores(seed) for name in tuned}
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
    judged = _by_subset(problems, None, 0, seed, subsets)
    random = {subset: np.random.default_rng((seed, ALL_SUBSETS.index(subset))) for subset in judged}
    judges: list[dict[str, Scores]] = []
    for _ in range(CHANCE_DRAWS):
        drawn = {name: random[name].random(each.scores.shape) for name, each in judged.items()}
        drawn = {name: np.where(np.isfinite(judged[name].scores), scores, NEVER) for name, scores in drawn.items()}
        judges.append(_scores({name: replace(judged[name], scores=scores) for name, scores in drawn.items()}, protocol))
    every = {name: np.hstack([scores[name].figures for scores in judges]) for name in judges[0]}
    return {name: Scores(figures, judges[0][name].sizes, of_judges=True) for name, figures in every.items()}


def _by_subset(
    problems: pl.DataFrame, predictions: pl.DataFrame | None, samples: int, seed: int, subsets: Collection[str]
) -> dict[str, Solutions]:
    """The subsets as they were judged, in the order of `SUBSETS`; without predictions every step has 0.5."""
    wanted = problems.filter(pl.col("benchmark").is_in([name for name, subset in SUBSETS.items() if subset in subsets]))
    unjudged = wanted.with_columns(probabilities=pl.lit(0.5).repeat_by(pl.col("steps").list.len()))
    judged = unjudged if predictions is None else with_probabilities(predictions, wanted)
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


def _read_as(solutions: Solutions, protocol: Protocol) -> Solutions:
    """Solutions with the readings that a protocol chooses from."""
    return replace(solutions, readings=RELEASED) if protocol == "released" else solutions


def _scores(judged: Mapping[str, Solutions], protocol: Protocol) -> dict[str, Scores]:
    """Every subset by the rule that the protocol chooses in every resample; the average if all four are there."""

    def rules_of(solutions: Solutions) -> Chosen:
        rows = len(solutions.weights)
        if protocol == "fixed":
            return Chosen(np.zeros(rows, dtype=np.intp), np.full(rows, FIXED_THRESHOLD))
        return solutions.best_rules(solutions.weights)

    read = {subset: _read_as(solutions, protocol) for subset, solutions in judged.items()}
    tuned_on = TUNED_ON.get(protocol)
    shared = rules_of(read[tuned_on]) if tuned_on else None
    scores = {subset: solutions.scores_at(shared or rules_of(solutions)) for subset, solutions in read.items()}
    if set(AVERAGED) <= set(scores):
        scores[AVERAGE] = _average(scores, scores[tuned_on].rule if tuned_on else {})
    return scores


def _average(scores: Mapping[str, Scores], rule: Mapping[str, Any]) -> Scores:
    """Plain means over the paper's subsets; each subset is resampled on its own."""
    figures, sizes = (np.array(column) for column in zip(*(scores[name][:2] for name in AVERAGED), strict=True))
    return Scores(figures.mean(axis=0), np.array([sizes[:, 0].sum(axis=0), sizes[:, 1].min(axis=0)]), rule)
