"""ProcessBench, PRMBench and the distribution of step scores: one row per reward type.

ProcessBench   row "CPMI"             the paper's protocol: threshold best on each subset
               row "CPMI (official)"  the benchmark's protocol: one threshold, the one best on GSM8K
               row "CPMI (released)"  the authors' code: threshold, patience and sign best on GSM8K
PRMBench       row "CPMI"             the authors' code: the threshold with the best F1 of wrong steps
               row "CPMI (best)"      the threshold with the best PRMScore
both           row "CPMI (fixed)"     the threshold 0.5
               row "My judge"         an external judge of the profile, on the benchmarks it has judged
               row "Chance"           uniform random scores, by each protocol
"""

from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from cpmi_dagster.benchmarks import prmbench, processbench
from cpmi_dagster.benchmarks.prm_score import OVERALL
from cpmi_dagster.benchmarks.prm_score import Protocol as PrmProtocol
from cpmi_dagster.benchmarks.prmbench import constant_predictions, prmbench_chance
from cpmi_dagster.benchmarks.processbench import AVERAGE, Protocol, processbench_chance
from cpmi_dagster.benchmarks.registry import AVERAGED_BENCHMARKS, PRMBENCH, STEP_BENCHMARKS, SUBSETS
from cpmi_dagster.benchmarks.resampling import bootstrap_mean
from cpmi_dagster.benchmarks.step_distribution import (
    CHANCE_AUC,
    DISTRIBUTION_SUBSET,
    StepDistribution,
    chance_wasserstein,
)
from cpmi_dagster.contracts.keys import PRMBENCH_PREDICTIONS, PROBLEMS, PROCESSBENCH
from cpmi_dagster.reports.inputs import Measurement, ReportInputs, measured_frame
from cpmi_dagster.reports.paper import BEST, CROSS_FITTED, FIXED, OFFICIAL, RELEASED
from cpmi_dagster.reports.quality import distribution_of, in_percent, measurement, prmbench_of, processbench_of
from cpmi_dagster.reports.reward_rows import CHANCE_ROW, FLAG_NOTHING_ROW, main_rows

SUBSET_COLUMNS = {**{subset: STEP_BENCHMARKS[name].label for name, subset in SUBSETS.items()}, AVERAGE: "Average"}
STEP_AUC = "ROC-AUC"
PROTOCOLS: dict[Protocol, str] = {"paper": "", "official": OFFICIAL, "released": RELEASED, "fixed": FIXED}
PRM_PROTOCOLS: dict[PrmProtocol, str] = {"released": "", "best": BEST, "fixed": FIXED}
"""Suffix of the rows of each protocol; rows without one stand beside the paper's figures."""


def measure_distribution(inputs: ReportInputs) -> pl.DataFrame:
    """ROC-AUC and 1-Wasserstein distance on ProcessBench-Math."""
    measurements = []
    for row, scores in _distributions(inputs):
        measurements.append(measurement(row, STEP_AUC, scores.auc))
        measurements.append(measurement(row, "Wasserstein", scores.wasserstein))
    if measurements:
        measurements.append(Measurement(CHANCE_ROW, STEP_AUC, CHANCE_AUC))
        by_chance = chance_wasserstein(inputs.table(PROBLEMS), inputs.seed)
        measurements.append(measurement(CHANCE_ROW, "Wasserstein", by_chance))
    return measured_frame(measurements)


def against_chance(distribution: pl.DataFrame) -> pl.DataFrame:
    """Whether the 95 % interval of each reward model's step AUC is above, around or below chance.

    Args:
        distribution: comparison of the artifact `distribution`.

    Returns:
        row, measured, low, high, verdict (`above`, `chance`, `below`); models without an interval are left out.
    """
    above, below = pl.col("low") > CHANCE_AUC, pl.col("high") < CHANCE_AUC
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
    """F1 of every subset and their mean, under every protocol."""
    return measured_frame(
        measurement(row, f"{column}{fitted}", in_percent(score, "f1"))
        for row, column, fitted, score in _subset_scores(inputs)
    )


def measure_processbench_detailed(inputs: ReportInputs) -> pl.DataFrame:
    """Err, Corr and F1 of every subset, and the mean F1, under every protocol."""
    measurements: list[Measurement] = []
    for row, column, fitted, score in _subset_scores(inputs):
        if column != SUBSET_COLUMNS[AVERAGE]:
            measurements += [
                measurement(row, f"{column} Err", in_percent(score, "err", "err_")),
                measurement(row, f"{column} Corr", in_percent(score, "cor", "cor_")),
            ]
        measurements.append(measurement(row, f"{column} F1{fitted}", in_percent(score, "f1")))
    return measured_frame(measurements)


def measure_prmbench(inputs: ReportInputs) -> pl.DataFrame:
    """PRMScore of the three groups and overall."""
    return _measure_prmbench(inputs, "group", "Total")


def measure_prmbench_detailed(inputs: ReportInputs) -> pl.DataFrame:
    """PRMScore of the nine categories and overall."""
    return _measure_prmbench(inputs, "category", "Overall")


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


def _subset_scores(inputs: ReportInputs) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Every subset of every recipe and judge, and of chance where recipes are measured, protocol by protocol.

    Each is the label of its row, that of its column, what a cross-fitted figure's column ends with, and a row of
    `processbench_scores`. A recipe without predictions for one of the subsets has no rows, a judge those of the subsets
    it has judged.
    """
    models = [
        model for model in _models(inputs, PROCESSBENCH) if set(AVERAGED_BENCHMARKS) <= set(model[1]["benchmark"])
    ]
    judged = {benchmark for _, predictions in models for benchmark in predictions["benchmark"].unique()}
    for protocol, suffix in PROTOCOLS.items():
        measured = [
            (row, processbench_of(inputs, predictions, protocol, cross_fitted=True))
            for row, predictions in (*models, *inputs.judged(list(SUBSETS)))
        ]
        if models:
            subsets = [SUBSETS[benchmark] for benchmark in judged]
            measured.append((CHANCE_ROW, processbench_chance(inputs.table(PROBLEMS), protocol, inputs.seed, subsets)))
        for row, scores in measured:
            for score in () if scores is None else scores.iter_rows(named=True):
                is_refitted = score["subset"] == processbench.CROSS_FITTED
                column = SUBSET_COLUMNS[AVERAGE if is_refitted else score["subset"]]
                yield row + suffix, column, CROSS_FITTED if is_refitted else "", score


def _measure_prmbench(inputs: ReportInputs, level: str, overall: str) -> pl.DataFrame:
    columns: dict[str, str] = {OVERALL: overall, prmbench.CROSS_FITTED: overall + CROSS_FITTED}

    def in_cells(row: str, scores: pl.DataFrame) -> Iterable[Measurement]:
        for score in scores.filter(pl.col("level").is_in([level, "overall"])).iter_rows(named=True):
            column = columns.get(score["name"]) or str(score["name"])
            yield measurement(row, column, in_percent(score, "score"))

    models, problems = list(_models(inputs, PRMBENCH_PREDICTIONS)), inputs.table(PROBLEMS)
    measurements: list[Measurement] = []
    for protocol, suffix in PRM_PROTOCOLS.items():
        for row, predictions in (*models, *inputs.judged([PRMBENCH])):
            measurements += in_cells(row + suffix, prmbench_of(inputs, predictions, protocol, cross_fitted=True))
        if models:
            measurements += in_cells(CHANCE_ROW + suffix, prmbench_chance(problems, protocol, inputs.seed))
    if models:
        nothing_flagged = prmbench_of(inputs, constant_predictions(problems, 1.0), "fixed")
        measurements += in_cells(FLAG_NOTHING_ROW, nothing_flagged)
    return measured_frame(measurements)
