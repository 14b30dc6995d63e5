"""How good a reward model is, in the measures that the paper's tables share.

    QUALITY["PB"](inputs, "cpmi_bce")  ->  Estimate(34.6, 31.0, 38.1, n=240)

Every measure is called with the inputs and a recipe's name; it returns None where there are no predictions for it.
Shares are in percent as the paper prints them, AUC and Wasserstein in [0, 1].
"""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import polars as pl

from cpmi_dagster.benchmarks.best_of_n import accuracy
from cpmi_dagster.benchmarks.prm_score import OVERALL
from cpmi_dagster.benchmarks.prm_score import Protocol as PrmProtocol
from cpmi_dagster.benchmarks.prmbench import prmbench_chance, prmbench_scores
from cpmi_dagster.benchmarks.processbench import AVERAGE, TUNED_ON, Protocol, processbench_chance, processbench_scores
from cpmi_dagster.benchmarks.registry import AVERAGED_BENCHMARKS, SUBSETS
from cpmi_dagster.benchmarks.resampling import Difference, Estimate
from cpmi_dagster.benchmarks.step_distribution import (
    CHANCE_AUC,
    DISTRIBUTION_SUBSET,
    StepDistribution,
    step_distribution,
)
from cpmi_dagster.contracts.keys import CHOICES, PRMBENCH_PREDICTIONS, PROBLEMS, PROCESSBENCH
from cpmi_dagster.reports.html_tables import format_figure, format_interval
from cpmi_dagster.reports.inputs import Measurement, ReportInputs
from cpmi_dagster.reports.reward_rows import RecipeRow

Measure = Callable[[ReportInputs, str], Estimate | None]

CANDIDATES = 8
"""N of best-of-N wherever the paper gives a single figure."""
DEFAULT_AGGREGATION = "mean"


def distribution_of(inputs: ReportInputs, predictions: pl.DataFrame) -> StepDistribution | None:
    """Scores of right and wrong steps on ProcessBench-Math, by one model or judge; None without predictions."""
    if DISTRIBUTION_SUBSET not in predictions["benchmark"]:
        return None
    return step_distribution(predictions, inputs.table(PROBLEMS), inputs.bootstrap_samples, inputs.seed)


def step_auc(inputs: ReportInputs, recipe: str) -> Estimate | None:
    """ROC-AUC of step scores on ProcessBench-Math."""
    scores = distribution_of(inputs, inputs.predictions(PROCESSBENCH, recipe))
    return None if scores is None else scores.auc


def processbench_of(
    inputs: ReportInputs, predictions: pl.DataFrame, protocol: Protocol, *, cross_fitted: bool = False
) -> pl.DataFrame | None:
    """`processbench_scores` of the subsets that one model or judge has judged.

    Returns:
        The scores; None without predictions, or where the protocol lacks those for GSM8K.
    """
    judged = set(predictions["benchmark"].unique())
    subsets = [subset for benchmark, subset in SUBSETS.items() if benchmark in judged]
    if not subsets or TUNED_ON.get(protocol, subsets[0]) not in subsets:
        return None
    problems, samples = inputs.table(PROBLEMS), inputs.bootstrap_samples
    return processbench_scores(
        predictions, problems, protocol, samples, inputs.seed, subsets, cross_fitted=cross_fitted
    )


def processbench_f1(inputs: ReportInputs, recipe: str, protocol: Protocol) -> Estimate | None:
    """Mean F1 of the four ProcessBench subsets, in percent; None unless all four have predictions."""
    predictions = inputs.predictions(PROCESSBENCH, recipe)
    scores = processbench_of(inputs, predictions, protocol)
    if scores is None or not set(AVERAGED_BENCHMARKS) <= set(predictions["benchmark"]):
        return None
    return in_percent(scores.row(by_predicate=pl.col("subset") == AVERAGE, named=True), "f1")


def processbench_by_chance(inputs: ReportInputs, _recipe: str, protocol: Protocol) -> Estimate:
    """`processbench_f1` of random step scores."""
    scores = processbench_chance(inputs.table(PROBLEMS), protocol, inputs.seed)
    return in_percent(scores.row(by_predicate=pl.col("subset") == AVERAGE, named=True), "f1")


def prmbench_of(
    inputs: ReportInputs, predictions: pl.DataFrame, protocol: PrmProtocol, *, cross_fitted: bool = False
) -> pl.DataFrame:
    """`prmbench_scores` of one model or judge."""
    problems, samples = inputs.table(PROBLEMS), inputs.bootstrap_samples
    return prmbench_scores(predictions, problems, protocol, samples, inputs.seed, cross_fitted=cross_fitted)


def prm_score(inputs: ReportInputs, recipe: str, protocol: PrmProtocol) -> Estimate | None:
    """Overall PRMScore, in percent."""
    predictions = inputs.predictions(PRMBENCH_PREDICTIONS, recipe)
    if predictions.is_empty():
        return None
    scores = prmbench_of(inputs, predictions, protocol)
    return in_percent(scores.row(by_predicate=pl.col("name") == OVERALL, named=True), "score")


def prm_score_by_chance(inputs: ReportInputs, _recipe: str, protocol: PrmProtocol) -> Estimate:
    """`prm_score` of random step scores."""
    scores = prmbench_chance(inputs.table(PROBLEMS), protocol, inputs.seed)
    return in_percent(scores.row(by_predicate=pl.col("name") == OVERALL, named=True), "score")


def best_of_n(
    inputs: ReportInputs, recipe: str, benchmark: str, aggregation: str = DEFAULT_AGGREGATION
) -> Estimate | None:
    """Best-of-8 accuracy on one question set, by the mean step reward unless another rule is named, in percent."""
    choices = inputs.predictions(CHOICES, recipe)
    choices = choices.filter(benchmark=benchmark, n=CANDIDATES, aggregation=aggregation)
    return next(iter(accuracies(inputs, choices).values()), None)


def accuracies(inputs: ReportInputs, choices: pl.DataFrame) -> dict[tuple[str, str, int, str], Estimate]:
    """Share of right choices in percent, by (recipe, benchmark, n, aggregation), sorted by them."""
    if choices.is_empty():
        return {}
    figures = accuracy(choices, inputs.bootstrap_samples, inputs.seed).with_columns(n_candidates="n", n="problems")
    return {
        (row["recipe"], row["benchmark"], row["n_candidates"], row["aggregation"]): in_percent(row, "value")
        for row in figures.iter_rows(named=True)
    }


def in_percent(row: Mapping[str, Any], figure: str, prefix: str = "") -> Estimate:
    """A row's share in percent, with its interval and n in the columns `low`, `high` and `n` behind the prefix."""
    return Estimate(100 * row[figure], 100 * row[f"{prefix}low"], 100 * row[f"{prefix}high"], row[f"{prefix}n"])


MAIN_MEASURES = ("AUC", "PB", "PB (official)", "PRMB", "PRMB (best)", "MATH")
QUALITY: dict[str, Measure] = {
    "AUC": step_auc,
    "PB": partial(processbench_f1, protocol="paper"),
    "PB (official)": partial(processbench_f1, protocol="official"),
    "PRMB": partial(prm_score, protocol="released"),
    "PRMB (best)": partial(prm_score, protocol="best"),
    "MATH": partial(best_of_n, benchmark="math500"),
    "MMLU": partial(best_of_n, benchmark="mmlu_stem"),
}

CHANCE: dict[str, Measure] = {
    "AUC": lambda _inputs, _recipe: Estimate(CHANCE_AUC, CHANCE_AUC, CHANCE_AUC, 0),
    "PB": partial(processbench_by_chance, protocol="paper"),
    "PB (official)": partial(processbench_by_chance, protocol="official"),
    "PRMB": partial(prm_score_by_chance, protocol="released"),
    "PRMB (best)": partial(prm_score_by_chance, protocol="best"),
    "MATH": partial(best_of_n, benchmark="math500", aggregation="pass_at_1"),
    "MMLU": partial(best_of_n, benchmark="mmlu_stem", aggregation="pass_at_1"),
}
"""What random step scores have in each measure of `QUALITY`, and a blind pick in best of 8."""

CARD_NAMES: dict[str, tuple[str, int]] = {
    "AUC": ("ROC-AUC of step scores on ProcessBench-Math", 3),
    "PB": ("ProcessBench F1, mean of four subsets, the best threshold on each", 1),
    "PB (official)": ("ProcessBench F1, mean of four subsets, one threshold from GSM8K", 1),
    "PRMB": ("PRMBench, overall PRMScore, the threshold with the best F1 of wrong steps", 1),
    "PRMB (best)": ("PRMBench, overall PRMScore, the threshold with the best PRMScore", 1),
    "MATH": ("MATH500, best of 8 (%)", 1),
    "MMLU": ("MMLU-STEM, best of 8 (%)", 1),
}
"""What each measure is called on a model card, and its decimals."""


def quality_columns(measures: Iterable[str], headings: Mapping[str, str]) -> dict[str, Measure]:
    """Measures of `QUALITY` by column of an artifact: a measure's own name, or its heading there."""
    return {headings.get(measure, measure): QUALITY[measure] for measure in measures}


def measure_quality(
    inputs: ReportInputs, rows: Iterable[RecipeRow], columns: Mapping[str, Measure]
) -> list[Measurement]:
    """One measurement per row and column that can be measured; rows whose recipe the profile lacks are left out.

    Args:
        columns: measures by column of the artifact.
    """
    recipes = [(row.row, recipe) for row in rows if (recipe := inputs.recipe_of(row))]
    return [
        measurement(row, column, estimate)
        for row, recipe in recipes
        for column, measure in columns.items()
        if (estimate := measure(inputs, recipe)) is not None
    ]


def measurement(row: str, column: str, estimate: Estimate | Difference) -> Measurement:
    """An estimate in its cell of a table; an interval that is not finite is left out."""
    is_finite = math.isfinite(estimate.low) and math.isfinite(estimate.high)
    low, high = (estimate.low, estimate.high) if is_finite else (None, None)
    return Measurement(row, column, estimate.value, low, high, estimate.n)


def card_figures(inputs: ReportInputs, recipe: str) -> list[tuple[str, str]]:
    """For a model card: name, and value with its 95 % interval and chance, of all that was measured with a model."""
    figures = []
    for measure, (name, decimals) in CARD_NAMES.items():
        estimate = QUALITY[measure](inputs, recipe)
        if estimate is not None:
            interval = format_interval(estimate.low, estimate.high, decimals)
            chance = CHANCE[measure](inputs, recipe)
            beside = f" (chance {format_figure(chance.value, decimals)})" if chance else ""
            figures.append((name, f"{format_figure(estimate.value, decimals)} {interval}".strip() + beside))
    return figures
