"""ProcessBench: find the first wrong step of a solution, or say that there is none.

    {"id": "math-0", "problem": "Determine the remainder of 194 (mod 11).", "steps": ["To …", "Since …"], "label": 0}

`label` is the 0-based first wrong step, -1 for none. The prediction is the first step whose probability is below the
threshold, else -1 (`first_errors` has the rules). F1 = 2 err cor / (err + cor), of the accuracies on solutions with an
error and without. All figures are shares, not percent. The rule with the best F1 is chosen:

    protocol   chosen                                                      on
    paper      the threshold                                               each subset itself
    official   the threshold                                               GSM8K, for all subsets
    released   the threshold, the patience from 1 to 3, p read as 1 - p    GSM8K, for all subsets
    fixed      nothing: the threshold is 0.5

Intervals resample questions and choose again in every resample. A cross-fitted figure judges each part of the questions
by the rule that is best on the others; where the choice is made on GSM8K, that changes the figure of GSM8K alone.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Literal

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.first_errors import FirstErrorScore, Reading, Rule, Solutions, guessed, read_solutions
from cpmi_dagster.benchmarks.predictions import with_probabilities
from cpmi_dagster.benchmarks.registry import AVERAGED_BENCHMARKS, SUBSETS
from cpmi_dagster.benchmarks.resampling import CHANCE_DRAWS, Resampled, mean_of_values
from cpmi_dagster.benchmarks.thresholds import Chosen
from cpmi_dagster.errors import BenchmarkError

Protocol = Literal["paper", "official", "released", "fixed"]
THRESHOLD_SUBSET = "gsm8k"
TUNED_ON: dict[Protocol, str] = {"official": THRESHOLD_SUBSET, "released": THRESHOLD_SUBSET}
"""The subset whose rule holds for all subsets; under other protocols each has its own."""
READINGS: dict[Protocol, tuple[Reading, ...]] = {
    "released": tuple(Reading(patience, inverted) for inverted in (False, True) for patience in (1, 2, 3))
}
"""Ways to read probabilities to choose from; as they are where a protocol is not here."""
FIXED_THRESHOLD = 0.5
AVERAGE = "average"
CROSS_FITTED = "average, cross-fitted"
ALL_SUBSETS: tuple[str, ...] = tuple(SUBSETS.values())
AVERAGED: tuple[str, ...] = tuple(SUBSETS[name] for name in AVERAGED_BENCHMARKS)


def processbench_scores(
    predictions: pl.DataFrame,
    problems: pl.DataFrame,
    protocol: Protocol,
    bootstrap_samples: int,
    seed: int,
    subsets: Collection[str] = AVERAGED,
    *,
    cross_fitted: bool = False,
) -> pl.DataFrame:
    """Err, Corr and F1 of every subset and the plain mean of the paper's four, as shares.

    Args:
        predictions: `ProcessBenchPredictions` columns of one recipe (recipe may be left out).
        problems: `BenchmarkProblems` rows; those of other benchmarks are ignored.
        subsets: which subsets to score; `official` and `released` need GSM8K among them.
        cross_fitted: whether to add the row `average, cross-fitted`; there is none where nothing is chosen.

    Returns:
        subset, f1, low, high, n, units, unit, err, cor, each of these two with `_low`, `_high` and so on, and of the
        rule threshold, patience, inverted. The averages are absent unless all four are scored, and have the units of
        the smallest; the rule is null where several were used.

    Raises:
        BenchmarkError: a subset is empty or one-sided, predictions do not fit it, or GSM8K is missing.
    """
    judged = _by_subset(problems, predictions, protocol, bootstrap_samples, seed, subsets)
    scores = _scores(judged, protocol)
    rows = {**scores}
    if set(AVERAGED) <= set(judged):
        rows[AVERAGE] = _average(scores, scores[TUNED_ON[protocol]].rule if protocol in TUNED_ON else None)
        if cross_fitted and protocol != "fixed":
            tuned = [TUNED_ON[protocol]] if protocol in TUNED_ON else AVERAGED
            refitted = {name: judged[name].cross_fitted_score(seed) for name in tuned}
            rows[CROSS_FITTED] = _average(scores | refitted)
    return _frame(rows)


def processbench_chance(
    problems: pl.DataFrame, protocol: Protocol, seed: int, subsets: Collection[str] = AVERAGED
) -> pl.DataFrame:
    """What step scores have that are drawn uniformly from 0 to 1: means over `CHANCE_DRAWS` judges.

    Args:
        problems: `BenchmarkProblems` rows; those of other benchmarks are ignored.
        subsets: as for `processbench_scores`.

    Returns:
        As `processbench_scores`, `low` and `high` the range of 95 % of these judges.
    """
    shapes = _by_subset(problems, None, protocol, 0, seed, subsets)
    random = {subset: np.random.default_rng((seed, ALL_SUBSETS.index(subset))) for subset in shapes}
    judges = [{subset: guessed(shapes[subset], random[subset]) for subset in shapes} for _ in range(CHANCE_DRAWS)]
    guesses = [_scores(judged, protocol) for judged in judges]
    scores = {subset: _combined([guess[subset] for guess in guesses], mean_of_values) for subset in shapes}
    return _frame(scores | ({AVERAGE: _average(scores)} if set(AVERAGED) <= set(scores) else {}))


def processbench_average(
    predictions: pl.DataFrame, problems: pl.DataFrame, protocol: Protocol, samples: int, seed: int
) -> Resampled:
    """Average F1 with its resamples, the same for all models: one minus another's is a paired difference."""
    return _average(_scores(_by_subset(problems, predictions, protocol, samples, seed), protocol)).f1


def judged_steps(predictions: pl.DataFrame, problems: pl.DataFrame) -> pl.DataFrame:
    """Steps whose truth ProcessBench has: those up to the first wrong one.

    Args:
        predictions: `ProcessBenchPredictions` columns of one recipe.
        problems: `BenchmarkProblems` rows.

    Returns:
        probability that the step is right, and whether it is: `is_right`.
    """
    first = problems.select("benchmark", "problem_id", "first_error")
    steps = predictions.join(first, on=["benchmark", "problem_id"])
    return up_to_first_error(steps).select("probability", "is_right")


def up_to_first_error(steps: pl.DataFrame) -> pl.DataFrame:
    """The steps up to the first wrong one of their solution, each with whether it is right: `is_right`.

    Args:
        steps: step_index, first_error (-1 where all are right), and any others.
    """
    known = steps.filter((pl.col("first_error") < 0) | (pl.col("step_index") <= pl.col("first_error")))
    return known.with_columns(is_right=pl.col("step_index") != pl.col("first_error"))


def _by_subset(
    problems: pl.DataFrame,
    predictions: pl.DataFrame | None,
    protocol: Protocol,
    samples: int,
    seed: int,
    subsets: Collection[str] = AVERAGED,
) -> dict[str, Solutions]:
    """The subsets as they were judged, in the order of `SUBSETS`; without predictions every step has 0.5."""
    if protocol in TUNED_ON and TUNED_ON[protocol] not in subsets:
        raise BenchmarkError(f"the {protocol} protocol takes its threshold from GSM8K; judge processbench_gsm8k too")
    wanted = problems.filter(pl.col("benchmark").is_in([name for name, subset in SUBSETS.items() if subset in subsets]))
    unjudged = wanted.with_columns(probabilities=pl.lit(0.5).repeat_by(pl.col("steps").list.len()))
    judged = unjudged if predictions is None else with_probabilities(predictions, wanted)
    solutions, readings = {}, READINGS.get(protocol, (Reading(),))
    for place, (name, subset) in enumerate(SUBSETS.items()):
        if subset in subsets:
            own = judged.filter(benchmark=name)
            if (own["first_error"] >= 0).n_unique() < 2:
                raise BenchmarkError(
                    f"{name} needs solutions both with and without an error for its F1; it has {len(own)}"
                )
            solutions[subset] = read_solutions(own, samples, seed + place, readings)
    return solutions


def _scores(judged: Mapping[str, Solutions], protocol: Protocol) -> dict[str, FirstErrorScore]:
    """Every subset by the rule that the protocol chooses, again in every resample."""
    tuned_on = {subset: TUNED_ON.get(protocol, subset) for subset in judged}
    chosen = {subset: _chosen(judged[subset], protocol) for subset in set(tuned_on.values())}
    return {subset: solutions.score_at(chosen[tuned_on[subset]]) for subset, solutions in judged.items()}


def _chosen(solutions: Solutions, protocol: Protocol) -> Chosen:
    rows = len(solutions.weights)
    if protocol == "fixed":
        return Chosen(np.zeros(rows, dtype=np.intp), np.full(rows, FIXED_THRESHOLD))
    return solutions.best_rules(solutions.weights)


def _average(scores: Mapping[str, FirstErrorScore], rule: Rule | None = None) -> FirstErrorScore:
    """Plain means over the paper's subsets; each subset is resampled on its own."""

    def mean(figures: Sequence[Resampled]) -> Resampled:
        values, draws = [each.value for each in figures], [each.draws for each in figures]
        count, units = sum(each.n for each in figures), min(each.units for each in figures)
        return Resampled(float(np.mean(values)), np.mean(draws, axis=0), count, units, figures[0].unit)

    return _combined([scores[name] for name in AVERAGED], mean, rule)


def _combined(
    scores: Sequence[FirstErrorScore], mean: Callable[[Sequence[Resampled]], Resampled], rule: Rule | None = None
) -> FirstErrorScore:
    err, cor, f1 = (mean([getattr(score, name) for score in scores]) for name in ("err", "cor", "f1"))
    return FirstErrorScore(err, cor, f1, rule)


def _frame(scores: Mapping[str, FirstErrorScore]) -> pl.DataFrame:
    rows = []
    for subset, score in scores.items():
        f1, err, cor = (asdict(each.estimate()) for each in (score.f1, score.err, score.cor))
        row = {"subset": subset, "f1": f1.pop("value"), **f1}
        for name, figure in (("err", err), ("cor", cor)):
            row |= {name: figure.pop("value"), **{f"{name}_{key}": value for key, value in figure.items()}}
        threshold, (patience, inverted) = score.rule or (None, (None, None))
        rows.append({**row, "threshold": threshold, "patience": patience, "inverted": inverted})
    types = {"threshold": pl.Float64(), "patience": pl.Int64(), "inverted": pl.Boolean()}
    return pl.DataFrame(rows, schema_overrides=types)
