"""ProcessBench, PRMBench and the distribution of step scores: one row per reward type.

row "CPMI"             the paper's protocol: threshold best on each subset
row "CPMI (official)"  the benchmark's protocol: one threshold, the one best on GSM8K
"""

from collections.abc import Iterator

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.predictions import with_probabilities
from cpmi_dagster.benchmarks.prm_score import OVERALL
from cpmi_dagster.benchmarks.processbench import AVERAGE, SUBSETS, Protocol, predicted_first_error
from cpmi_dagster.benchmarks.resampling import Estimate, bootstrap_mean
from cpmi_dagster.benchmarks.step_distribution import StepDistribution
from cpmi_dagster.reports.inputs import Measurement, ReportInputs, measured_frame
from cpmi_dagster.reports.paper import OFFICIAL
from cpmi_dagster.reports.quality import (
    PROBLEMS,
    PROCESSBENCH,
    distribution,
    in_percent,
    measurement,
    prmbench,
    processbench,
)
from cpmi_dagster.reports.reward_rows import MAIN_ROWS

SUBSET_COLUMNS = {"gsm8k": "GSM8K", "math": "Math", "olympiadbench": "Olympiad", "omnimath": "Omni", AVERAGE: "Average"}
PROTOCOLS: tuple[tuple[Protocol, str], ...] = (("paper", ""), ("official", OFFICIAL))


def measure_distribution(inputs: ReportInputs) -> pl.DataFrame:
    """ROC-AUC and 1-Wasserstein distance on ProcessBench-Math."""
    measurements = []
    for row, scores in _distributions(inputs):
        measurements.append(measurement(row, "ROC-AUC", scores.auc))
        measurements.append(measurement(row, "Wasserstein", scores.wasserstein))
    return measured_frame(measurements)


def measure_score_means(inputs: ReportInputs) -> pl.DataFrame:
    """Mean scores of right and of wrong steps on ProcessBench-Math, resampled over problems."""
    measurements = []
    for row, scores in _distributions(inputs):
        for correct, column in ((True, "Right steps, mean"), (False, "Wrong steps, mean")):
            chosen = scores.steps.filter(pl.col("correct") == correct)
            mean = bootstrap_mean(
                chosen["probability"].to_numpy(), inputs.bootstrap_samples, inputs.seed, chosen["problem_id"].to_numpy()
            )
            measurements.append(measurement(row, column, mean.estimate()))
    return measured_frame(measurements)


def score_histogram_steps(inputs: ReportInputs) -> dict[str, pl.DataFrame]:
    """By row label, the scored steps of ProcessBench-Math: problem_id, step_index, probability, correct."""
    return {row: scores.steps for row, scores in _distributions(inputs)}


def measure_processbench(inputs: ReportInputs) -> pl.DataFrame:
    """F1 of every subset and their mean, under both protocols."""
    return measured_frame(
        measurement(row, SUBSET_COLUMNS[subset], f1) for row, _, subset, f1 in _subset_figures(inputs)
    )


def measure_processbench_detailed(inputs: ReportInputs) -> pl.DataFrame:
    """Err, Corr and F1 of every subset, and the mean F1, under both protocols."""
    measurements: list[Measurement] = []
    for row, scores, subset, f1 in _subset_figures(inputs):
        column = SUBSET_COLUMNS[subset]
        if subset != AVERAGE:
            err, corr = _accuracies(inputs, scores, subset)
            measurements += [measurement(row, f"{column} Err", err), measurement(row, f"{column} Corr", corr)]
        measurements.append(measurement(row, f"{column} F1", f1))
    return measured_frame(measurements)


def measure_prmbench(inputs: ReportInputs) -> pl.DataFrame:
    """PRMScore of the three groups and overall."""
    return _measure_prmbench(inputs, ("group", "overall"), "Total")


def measure_prmbench_detailed(inputs: ReportInputs) -> pl.DataFrame:
    """PRMScore of the nine categories and overall."""
    return _measure_prmbench(inputs, ("category", "overall"), "Overall")


def _distributions(inputs: ReportInputs) -> Iterator[tuple[str, StepDistribution]]:
    for recipe_row in MAIN_ROWS:
        recipe = inputs.recipe_name(recipe_row.reward_type)
        scores = None if recipe is None else distribution(inputs, recipe)
        if scores is not None:
            yield recipe_row.row, scores


def _subset_figures(inputs: ReportInputs) -> Iterator[tuple[str, pl.DataFrame, str, Estimate]]:
    """(row, scores, subset, F1 in percent) of every recipe under both protocols; the official rows come last."""
    for protocol, suffix in PROTOCOLS:
        for recipe_row in MAIN_ROWS:
            recipe = inputs.recipe_name(recipe_row.reward_type)
            scores = None if recipe is None else processbench(inputs, recipe, protocol)
            if recipe is None or scores is None:
                continue
            for subset in scores["subset"]:
                figure = in_percent(scores.row(by_predicate=pl.col("subset") == subset, named=True), "f1")
                yield recipe_row.row + suffix, scores.with_columns(recipe=pl.lit(recipe)), subset, figure


def _accuracies(inputs: ReportInputs, scores: pl.DataFrame, subset: str) -> tuple[Estimate, Estimate]:
    """Err and Corr of one subset at the threshold its F1 was taken at, in percent."""
    score = scores.filter(pl.col("subset") == subset).row(0, named=True)
    benchmark = next(name for name, short in SUBSETS.items() if short == subset)
    problems = inputs.table(PROBLEMS).filter(pl.col("benchmark") == benchmark)
    judged = with_probabilities(inputs.predictions(PROCESSBENCH, score["recipe"]), problems).select(
        "question",
        erroneous=pl.col("first_error") >= 0,
        right=predicted_first_error(pl.col("probabilities"), score["threshold"]) == pl.col("first_error"),
    )
    err, corr = (_share_right(inputs, judged.filter(pl.col("erroneous") == wrong)) for wrong in (True, False))
    return err, corr


def _share_right(inputs: ReportInputs, judged: pl.DataFrame) -> Estimate:
    right = judged["right"].to_numpy().astype(np.float64) * 100
    return bootstrap_mean(right, inputs.bootstrap_samples, inputs.seed, judged["question"].to_numpy()).estimate()


def _measure_prmbench(inputs: ReportInputs, levels: tuple[str, ...], overall: str) -> pl.DataFrame:
    measurements = []
    for recipe_row in MAIN_ROWS:
        recipe = inputs.recipe_name(recipe_row.reward_type)
        scores = None if recipe is None else prmbench(inputs, recipe)
        if scores is None:
            continue
        for score in scores.filter(pl.col("level").is_in(levels)).iter_rows(named=True):
            column = overall if score["name"] == OVERALL else score["name"]
            measurements.append(measurement(recipe_row.row, column, in_percent(score, "score")))
    return measured_frame(measurements)
