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
from dataclasses import asdict, replace
from typing import Any, Literal

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.first_errors import AS_THEY_ARE, NEVER, Readings, Scores, Solutions, read_solutions
from cpmi_dagster.benchmarks.predictions import with_probabilities
from cpmi_dagster.benchmarks.registry import AVERAGED_BENCHMARKS, SUBSETS
from cpmi_dagster.benchmarks.resampling import CHANCE_DRAWS, Resampled
from cpmi_dagster.benchmarks.thresholds import Chosen
from cpmi_dagster.errors import BenchmarkError

Protocol = Literal["paper", "official", "released", "fixed"]
RELEASED: Readings = tuple((patience, inverted) for inverted in (False, True) for patience in (1, 2, 3))
TUNED_ON: dict[Protocol, str] = {"official": "gsm8k", "released": "gsm8k"}
"""The subset whose rule holds for all subsets; under other protocols each has its own."""
FIXED_THRESHOLD = 0.5
AVERAGE = "average"
CROSS_FITTED = "average, cross-fitted"
ALL_SUBSETS: tuple[str, ...] = tuple(SUBSETS.values())
AVERAGED: tuple[str, ...] = tuple(SUBSETS[name] for name in AVERAGED_BENCHMARKS)
INTERVAL_COLUMNS = ("low", "high", "n", "units", "unit")
RULE_TYPES = {"threshold": pl.Float64, "patience": pl.Int64, "inverted": pl.Boolean}


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
        cross_fitted: whether to add the row `average, cross-fitted`; there is none if nothing is chosen.

    Returns:
        subset, f1, low, high, n, units, unit, err, cor, each of these two with `_low`, `_high` and so on, and of the
        rule threshold, patience, inverted. The averages are absent unless all four are scored, and have the units of
        the smallest; the rule is null if several were used.

    Raises:
        BenchmarkError: a subset is empty or one-sided, predictions do not fit it, or GSM8K is missing.
    """
    judged = _by_subset(problems, predictions, protocol, bootstrap_samples, seed, subsets)
    rows = _scores(judged, protocol)
    if cross_fitted and protocol != "fixed" and AVERAGE in rows:
        tuned = [TUNED_ON[protocol]] if protocol in TUNED_ON else AVERAGED
        refitted = rows | {name: judged[name].cross_fitted_scores(seed) for name in tuned}
        rows[CROSS_FITTED] = _average(refitted, {})
    return _frame(rows)


def processbench_chance(
    problems: pl.DataFrame, protocol: Protocol, seed: int, subsets: Collection[str] = AVERAGED
) -> pl.DataFrame:
    """The figures of step scores that are drawn uniformly from 0 to 1: means over `CHANCE_DRAWS` judges.

    Args:
        problems: `BenchmarkProblems` rows; those of other benchmarks are ignored.
        subsets: as for `processbench_scores`.

    Returns:
        As `processbench_scores`, `low` and `high` the range of 95 % of these judges.
    """
    judged = _by_subset(problems, None, protocol, 0, seed, subsets)
    random = {subset: np.random.default_rng((seed, ALL_SUBSETS.index(subset))) for subset in judged}
    judges: list[dict[str, Scores]] = []
    for _ in range(CHANCE_DRAWS):
        drawn = {name: random[name].random(each.scores.shape) for name, each in judged.items()}
        drawn = {name: np.where(np.isfinite(judged[name].scores), scores, NEVER) for name, scores in drawn.items()}
        judges.append(_scores({name: replace(judged[name], scores=scores) for name, scores in drawn.items()}, protocol))
    every = {name: np.hstack([scores[name].figures for scores in judges]) for name in judges[0]}
    return _frame({name: Scores(figures, judges[0][name].sizes, of_judges=True) for name, figures in every.items()})


def processbench_average(
    predictions: pl.DataFrame, problems: pl.DataFrame, protocol: Protocol, samples: int, seed: int
) -> Resampled:
    """Average F1 with its resamples, the same for all models: one minus another's is a paired difference."""
    judged = _by_subset(problems, predictions, protocol, samples, seed, AVERAGED)
    return _scores(judged, protocol)[AVERAGE].resampled("f1")


def _by_subset(
    problems: pl.DataFrame,
    predictions: pl.DataFrame | None,
    protocol: Protocol,
    samples: int,
    seed: int,
    subsets: Collection[str],
) -> dict[str, Solutions]:
    """The subsets as they were judged, in the order of `SUBSETS`; without predictions every step has 0.5."""
    if protocol in TUNED_ON and TUNED_ON[protocol] not in subsets:
        raise BenchmarkError(f"the {protocol} protocol takes its threshold from GSM8K; judge processbench_gsm8k too")
    wanted = problems.filter(pl.col("benchmark").is_in([name for name, subset in SUBSETS.items() if subset in subsets]))
    unjudged = wanted.with_columns(probabilities=pl.lit(0.5).repeat_by(pl.col("steps").list.len()))
    judged = unjudged if predictions is None else with_probabilities(predictions, wanted)
    solutions, readings = {}, RELEASED if protocol == "released" else AS_THEY_ARE
    for place, (name, subset) in enumerate(SUBSETS.items()):
        if subset in subsets:
            rows = judged.filter(benchmark=name)
            if (rows["first_error"] >= 0).n_unique() < 2:
                raise BenchmarkError(
                    f"{name} needs solutions both with and without an error for its F1; it has {len(rows)}"
                )
            solutions[subset] = read_solutions(rows, samples, seed + place, readings)
    return solutions


def _scores(judged: Mapping[str, Solutions], protocol: Protocol) -> dict[str, Scores]:
    """Every subset by the rule that the protocol chooses in every resample; the average if all four are there."""

    def rules_of(solutions: Solutions) -> Chosen:
        rows = len(solutions.weights)
        if protocol == "fixed":
            return Chosen(np.zeros(rows, dtype=np.intp), np.full(rows, FIXED_THRESHOLD))
        return solutions.best_rules(solutions.weights)

    tuned_on = TUNED_ON.get(protocol)
    shared = rules_of(judged[tuned_on]) if tuned_on else None
    scores = {subset: solutions.scores_at(shared or rules_of(solutions)) for subset, solutions in judged.items()}
    if set(AVERAGED) <= set(scores):
        scores[AVERAGE] = _average(scores, scores[tuned_on].rule if tuned_on else {})
    return scores


def _average(scores: Mapping[str, Scores], rule: Mapping[str, Any]) -> Scores:
    """Plain means over the paper's subsets; each subset is resampled on its own."""
    figures, sizes = (np.array(column) for column in zip(*(scores[name][:2] for name in AVERAGED), strict=True))
    return Scores(figures.mean(axis=0), np.array([sizes[:, 0].sum(axis=0), sizes[:, 1].min(axis=0)]), rule)


def _frame(scores: Mapping[str, Scores]) -> pl.DataFrame:
    rows = []
    for subset, each in scores.items():
        row: dict[str, Any] = {"subset": subset}
        for name, prefix in (("f1", ""), ("err", "err_"), ("cor", "cor_")):
            figure = asdict(each.resampled(name).estimate())
            row |= {name: figure["value"], **{f"{prefix}{key}": figure[key] for key in INTERVAL_COLUMNS}}
        rows.append(row | dict.fromkeys(RULE_TYPES) | dict(each.rule))
    return pl.DataFrame(rows, schema_overrides=RULE_TYPES)
