"""Paired differences to MC, and to no reward model: is a reward type better on the same questions, or is it noise?

    reward      baseline   measure           difference   low   high   p_value
    CPMI        MC         processbench_f1         -1.9  -6.0    2.3     0.37
    CPMI        Pass@1     best_of_8                4.8   0.2    9.1     0.04

`measure` is a column of the headline; differences are in its unit.
"""

from collections.abc import Iterator

import polars as pl

from cpmi_dagster.benchmarks.best_of_n import accuracy_difference
from cpmi_dagster.benchmarks.label_quality import label_quality_differences
from cpmi_dagster.benchmarks.prmbench import prmbench_difference
from cpmi_dagster.benchmarks.processbench import processbench_difference
from cpmi_dagster.benchmarks.registry import AVERAGED_BENCHMARKS
from cpmi_dagster.benchmarks.resampling import Difference
from cpmi_dagster.benchmarks.step_distribution import DISTRIBUTION_SUBSET, step_auc_difference
from cpmi_dagster.reports.headline import BASELINE
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.labels import REWARDS, TRAJECTORIES, TRUTH
from cpmi_dagster.reports.quality import (
    CANDIDATES,
    CHOICES,
    DEFAULT_AGGREGATION,
    PRMBENCH_PREDICTIONS,
    PROBLEMS,
    PROCESSBENCH,
)
from cpmi_dagster.reports.question_sets import NO_REWARD_MODEL
from cpmi_dagster.reports.reward_rows import RecipeRow, main_rows

BASELINE_REWARD = "mc"
HEADLINE_NAMES = {"PB": "processbench_f1", "PRMB": "prm_score", "MATH": "best_of_8"}
"""Columns of the headline by measure."""
DIFFERENCE_SCHEMA: dict[str, pl.DataType] = {
    "reward": pl.String(),
    "baseline": pl.String(),
    "measure": pl.String(),
    "difference": pl.Float64(),
    "low": pl.Float64(),
    "high": pl.Float64(),
    "p_value": pl.Float64(),
}


def differences_to_baseline(inputs: ReportInputs) -> pl.DataFrame:
    """Every main reward type minus MC, and its best of 8 minus that without a reward model, over the same questions.

    Args:
        inputs: frames and settings.

    Returns:
        reward and baseline (row labels), measure, difference, low, high, p_value (two-sided); pairs not
        measured are left out.
    """
    to_mc = [
        (row, BASELINE, measure, scale, difference)
        for row, measure, scale, difference in (*_label_differences(inputs), *_model_differences(inputs))
    ]
    rows = [
        {"reward": row.row, "baseline": baseline, "measure": measure, "difference": scale * difference.value,
         "low": scale * difference.low, "high": scale * difference.high, "p_value": difference.p_value}
        for row, baseline, measure, scale, difference in (*to_mc, *_differences_to_no_model(inputs))
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=DIFFERENCE_SCHEMA)


def model_difference(inputs: ReportInputs, recipe: str, baseline: str, measure: str) -> Difference | None:
    """One recipe's model minus another's, as a share; None where either was not measured.

    Args:
        measure: AUC (of steps), PB, PRMB or MATH.
    """
    if measure == "MATH":
        return _best_of_n(inputs, (recipe, DEFAULT_AGGREGATION), (baseline, DEFAULT_AGGREGATION))
    return {"AUC": _step_auc, "PB": _processbench, "PRMB": _prmbench}[measure](inputs, recipe, baseline)


def _label_differences(inputs: ReportInputs) -> Iterator[tuple[RecipeRow, str, float, Difference]]:
    tables = [inputs.table(key) for key in (REWARDS, TRAJECTORIES, TRUTH)]
    if any(table.is_empty() for table in tables) or BASELINE_REWARD not in tables[0]["reward_type"]:
        return
    found = label_quality_differences(tables[0], tables[1], tables[2], inputs.bootstrap_samples, inputs.seed)
    figures = {row["reward_type"]: row for row in found.iter_rows(named=True)}
    for row in main_rows(inputs.recipes):
        figure = figures.get(row.reward_type)
        if figure and row.recipe is None:
            values = (figure[column] for column in ("difference", "low", "high", "p_value", "n"))
            yield row, "label_auc", 1.0, Difference(*values)


def _model_differences(inputs: ReportInputs) -> Iterator[tuple[RecipeRow, str, float, Difference]]:
    baseline = inputs.recipe_name(BASELINE_REWARD)
    for row in main_rows(inputs.recipes):
        recipe = inputs.recipe_of(row)
        # what differs in more than its labels is no comparison of labels
        if baseline is None or recipe is None or recipe == baseline or row.recipe:
            continue
        for measure in ("PB", "PRMB", "MATH"):
            difference = model_difference(inputs, recipe, baseline, measure)
            if difference is not None:
                yield row, HEADLINE_NAMES[measure], 100.0, difference


def _differences_to_no_model(inputs: ReportInputs) -> Iterator[tuple[RecipeRow, str, str, float, Difference]]:
    for row in main_rows(inputs.recipes):
        recipe = inputs.recipe_of(row)
        for aggregation, baseline in NO_REWARD_MODEL.items() if recipe else ():
            difference = _best_of_n(inputs, (str(recipe), DEFAULT_AGGREGATION), (str(recipe), aggregation))
            if difference is not None:
                yield row, baseline, "best_of_8", 100.0, difference


def _processbench(inputs: ReportInputs, recipe: str, baseline: str) -> Difference | None:
    both = [inputs.predictions(PROCESSBENCH, name) for name in (recipe, baseline)]
    if not all(set(AVERAGED_BENCHMARKS) <= set(each["benchmark"]) for each in both):
        return None
    draws = (inputs.bootstrap_samples, inputs.seed)
    return processbench_difference(both[0], both[1], inputs.table(PROBLEMS), "paper", *draws)


def _step_auc(inputs: ReportInputs, recipe: str, baseline: str) -> Difference | None:
    subset = pl.col("benchmark") == DISTRIBUTION_SUBSET
    both = [inputs.predictions(PROCESSBENCH, name).filter(subset) for name in (recipe, baseline)]
    if any(each.is_empty() for each in both):
        return None
    return step_auc_difference(both[0], both[1], inputs.table(PROBLEMS), inputs.bootstrap_samples, inputs.seed)


def _prmbench(inputs: ReportInputs, recipe: str, baseline: str) -> Difference | None:
    both = [inputs.predictions(PRMBENCH_PREDICTIONS, name) for name in (recipe, baseline)]
    if any(each.is_empty() for each in both):
        return None
    return prmbench_difference(both[0], both[1], inputs.table(PROBLEMS), inputs.bootstrap_samples, inputs.seed)


def _best_of_n(inputs: ReportInputs, first: tuple[str, str], second: tuple[str, str]) -> Difference | None:
    """Between two pairs of a recipe and an aggregation."""
    both = [
        inputs.predictions(CHOICES, recipe).filter(benchmark="math500", n=CANDIDATES, aggregation=aggregation)
        for recipe, aggregation in (first, second)
    ]
    if any(each.is_empty() for each in both):
        return None
    return accuracy_difference(both[0], both[1], inputs.bootstrap_samples, inputs.seed)
