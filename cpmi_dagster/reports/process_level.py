"""ProcessBench, PRMBench and the distribution of step scores: one row per reward type.

row "CPMI"             the paper's protocol: threshold best on each subset
row "CPMI (official)"  the benchmark's protocol: one threshold, the one best on GSM8K
row "My judge"         an external judge of the profile, on the benchmarks it has judged
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.predictions import with_probabilities
from cpmi_dagster.benchmarks.prm_score import OVERALL
from cpmi_dagster.benchmarks.processbench import AVERAGE, Protocol, predicted_first_error
from cpmi_dagster.benchmarks.registry import AVERAGED_BENCHMARKS, PRMBENCH, STEP_BENCHMARKS, SUBSETS
from cpmi_dagster.benchmarks.resampling import Estimate, bootstrap_mean
from cpmi_dagster.benchmarks.step_distribution import DISTRIBUTION_SUBSET, StepDistribution
from cpmi_dagster.reports.inputs import Measurement, ReportInputs, measured_frame
from cpmi_dagster.reports.paper import OFFICIAL
from cpmi_dagster.reports.quality import (
    PRMBENCH_PREDICTIONS,
    PROBLEMS,
    PROCESSBENCH,
    distribution_of,
    in_percent,
    measurement,
    prmbench_of,
    processbench_of,
)
from cpmi_dagster.reports.reward_rows import main_rows

SUBSET_COLUMNS = {**{subset: STEP_BENCHMARKS[name].label for name, subset in SUBSETS.items()}, AVERAGE: "Average"}
CHANCE = 0.5
STEP_AUC = "ROC-AUC"
PROTOCOLS: tuple[tuple[Protocol, str], ...] = (("paper", ""), ("official", OFFICIAL))


def measure_distribution(inputs: ReportInputs) -> pl.DataFrame:
    """ROC-AUC and 1-Wasserstein distance on ProcessBench-Math."""
    measurements = []
    for row, scores in _distributions(inputs):
        measurements.append(measurement(row, STEP_AUC, scores.auc))
        measurements.append(measurement(row, "Wasserstein", scores.wasserstein))
    return measured_frame(measurements)


def against_chance(distribution: pl.DataFrame) -> pl.DataFrame:
    """Whether the 95 % interval of each reward model's step AUC is above, around or below chance.

    Args:
        distribution: comparison of the artifact `distribution`.

    Returns:
        row, measured, low, high, verdict (`above`, `chance`, `below`); models without an interval are left out.
    """
    above, below = pl.col("low") > CHANCE, pl.col("high") < CHANCE
    verdict = pl.when(above).then(pl.lit("above")).when(below).then(pl.lit("below")).otherwise(pl.lit("chance"))
    measured = distribution.filter(column=STEP_AUC).drop_nulls(["measured", "low", "high"])
    return measured.select("row", "measured", "low", "high", verdict=verdict)


def measure_score_means(inputs: ReportInputs) -> pl.DataFrame:
    """Mean scores of right and of wrong steps on ProcessBench-Math, resampled over questions."""
    measurements = []
    for row, scores in _distributions(inputs):
        for correct, column in ((True, "Right steps, mean"), (False, "Wrong steps, mean")):
            chosen = scores.steps.filter(pl.col("correct") == correct)
            mean = bootstrap_mean(
                chosen["probability"].to_numpy(), inputs.bootstrap_samples, inputs.seed, chosen["question"].to_numpy()
            )
            measurements.append(measurement(row, column, mean.estimate()))
    return measured_frame(measurements)


def score_histogram_steps(inputs: ReportInputs) -> dict[str, pl.DataFrame]:
    """By row label, the scored steps of ProcessBench-Math: problem_id, question, step_index, probability, correct."""
    return {row: scores.steps for row, scores in _distributions(inputs)}


def measure_processbench(inputs: ReportInputs) -> pl.DataFrame:
    """F1 of every subset and their mean, under both protocols."""
    return measured_frame(
        measurement(row, SUBSET_COLUMNS[score["subset"]], in_percent(score, "f1"))
        for row, _, score in _subset_scores(inputs)
    )


def measure_processbench_detailed(inputs: ReportInputs) -> pl.DataFrame:
    """Err, Corr and F1 of every subset, and the mean F1, under both protocols."""
    measurements: list[Measurement] = []
    for row, predictions, score in _subset_scores(inputs):
        column = SUBSET_COLUMNS[score["subset"]]
        if score["subset"] != AVERAGE:
            err, corr = _accuracies(inputs, predictions, score)
            measurements += [measurement(row, f"{column} Err", err), measurement(row, f"{column} Corr", corr)]
        measurements.append(measurement(row, f"{column} F1", in_percent(score, "f1")))
    return measured_frame(measurements)


def measure_prmbench(inputs: ReportInputs) -> pl.DataFrame:
    """PRMScore of the three groups and overall."""
    return _measure_prmbench(inputs, ("group", "overall"), "Total")


def measure_prmbench_detailed(inputs: ReportInputs) -> pl.DataFrame:
    """PRMScore of the nine categories and overall."""
    return _measure_prmbench(inputs, ("category", "overall"), "Overall")


def _models(inputs: ReportInputs, key: str) -> Iterator[tuple[str, pl.DataFrame]]:
    """Row label and predictions of every reward model that has some."""
    for row in main_rows(inputs.recipes):
        recipe = inputs.recipe_of(row)
        if recipe and not (predictions := inputs.predictions(key, recipe)).is_empty():
            yield row.row, predictions


def _distributions(inputs: ReportInputs) -> Iterator[tuple[str, StepDistribution]]:
    for row, predictions in (*_models(inputs, PROCESSBENCH), *inputs.judged([DISTRIBUTION_SUBSET])):
        scores = distribution_of(inputs, predictions)
        if scores is not None:
            yield row, scores


def _subset_scores(inputs: ReportInputs) -> Iterator[tuple[str, pl.DataFrame, dict[str, Any]]]:
    """Every subset of every recipe and judge under both protocols; the official rows come last.

    Each is the label of its row, the predictions it is taken from, and a row of `processbench_scores`.
    A recipe without predictions for one of the subsets has no rows, a judge those of the subsets it has judged.
    """
    models = [
        model for model in _models(inputs, PROCESSBENCH) if set(AVERAGED_BENCHMARKS) <= set(model[1]["benchmark"])
    ]
    for protocol, suffix in PROTOCOLS:
        for row, predictions in (*models, *inputs.judged(list(SUBSETS))):
            scores = processbench_of(inputs, predictions, protocol)
            for score in () if scores is None else scores.iter_rows(named=True):
                yield row + suffix, predictions, score


def _accuracies(inputs: ReportInputs, predictions: pl.DataFrame, score: dict[str, Any]) -> tuple[Estimate, Estimate]:
    """Err and Corr of one subset at the threshold its F1 was taken at, in percent."""
    benchmark = next(name for name, short in SUBSETS.items() if short == score["subset"])
    problems = inputs.table(PROBLEMS).filter(pl.col("benchmark") == benchmark)
    predicted = predicted_first_error(pl.col("probabilities"), score["threshold"])
    judged = with_probabilities(predictions, problems).select(
        "question", erroneous=pl.col("first_error") >= 0, right=predicted == pl.col("first_error")
    )
    err, corr = (_share_right(inputs, judged.filter(pl.col("erroneous") == wrong)) for wrong in (True, False))
    return err, corr


def _share_right(inputs: ReportInputs, judged: pl.DataFrame) -> Estimate:
    right = judged["right"].to_numpy().astype(np.float64) * 100
    return bootstrap_mean(right, inputs.bootstrap_samples, inputs.seed, judged["question"].to_numpy()).estimate()


def _measure_prmbench(inputs: ReportInputs, levels: tuple[str, ...], overall: str) -> pl.DataFrame:
    measurements = []
    for row, predictions in (*_models(inputs, PRMBENCH_PREDICTIONS), *inputs.judged([PRMBENCH])):
        scores = prmbench_of(inputs, predictions)
        for score in scores.filter(pl.col("level").is_in(levels)).iter_rows(named=True):
            column = overall if score["name"] == OVERALL else score["name"]
            measurements.append(measurement(row, column, in_percent(score, "score")))
    return measured_frame(measurements)
