"""Paired differences to MC, and to no reward model: is a reward type better on the same questions, or is it noise?

    reward      baseline   measure           difference   low   high   p_value
    CPMI        MC         processbench_f1         -1.9  -6.0    2.3     0.37
    CPMI        Pass@1     best_of_8                4.8   0.2    9.1     0.04

`measure` is a column of the headline; differences are in its unit.
"""

from collections.abc import Callable, Iterator
from functools import partial

import polars as pl

from cpmi_dagster.benchmarks.best_of_n import accuracy_difference
from cpmi_dagster.benchmarks.label_quality import label_quality_differences
from cpmi_dagster.benchmarks.prmbench import prmbench_difference
from cpmi_dagster.benchmarks.processbench import processbench_difference
from cpmi_dagster.benchmarks.registry import AVERAGED_BENCHMARKS, PRMBENCH
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
    **dict.fromkeys(("reward", "baseline", "measure"), pl.String()),
    **dict.fromkeys(("difference", "low", "high", "p_value"), pl.Float64()),
}
COMPARED_PREDICTIONS: dict[str, tuple[str, tuple[str, ...], Callable[..., Difference]]] = {
    "AUC": (PROCESSBENCH, (DISTRIBUTION_SUBSET,), step_auc_difference),
    "PB": (PROCESSBENCH, AVERAGED_BENCHMARKS, partial(processbench_difference, protocol="paper")),
    "PRMB": (PRMBENCH_PREDICTIONS, (PRMBENCH,), prmbench_difference),
}
"""By measure: the table of predictions, the benchmarks that both models must have judged, the paired comparison."""


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
    table, benchmarks, difference = COMPARED_PREDICTIONS[measure]
    both = [inputs.predictions(table, name) for name in (recipe, baseline)]
    if not all(set(benchmarks) <= _benchmarks_of(table, predictions) for predictions in both):
        return None
    return difference(*both, problems=inputs.table(PROBLEMS), samples=inputs.bootstrap_samples, seed=inputs.seed)


def _label_differences(inputs: ReportInputs) -> Iterator[tuple[RecipeRow, str, float, Difference]]:
    tables = [inputs.table(key) for key in (REWARDS, TRAJECTORIES, TRUTH)]
    if any(table.is_empty() for table in tables) or BASELINE_REWARD not in tables[0]["reward_type"]:
        return
    measured = label_quality_differences(tables[0], tables[1], tables[2], inputs.bootstrap_samples, inputs.seed)
    figures = measured.select("reward_type", "difference", "low", "high", "p_value", "n").iter_rows()
    differences = {reward_type: Difference(*figure) for reward_type, *figure in figures}
    for row in main_rows(inputs.recipes):
        if row.reward_type in differences and row.recipe is None:
            yield row, "label_auc", 1.0, differences[row.reward_type]


def _model_differences(inputs: ReportInputs) -> Iterator[tuple[RecipeRow, str, float, Difference]]:
    baseline = inputs.recipe_name(BASELINE_REWARD)
    for row in main_rows(inputs.recipes):
        recipe = inputs.recipe_of(row)
        # a recipe that differs in more than its labels does not compare labels
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


def _benchmarks_of(table: str, predictions: pl.DataFrame) -> set[str]:
    """The benchmarks that predictions are for; those for PRMBench have no column that says so."""
    if table == PRMBENCH_PREDICTIONS:
        return set() if predictions.is_empty() else {PRMBENCH}
    return set(predictions["benchmark"])


def _best_of_n(inputs: ReportInputs, first: tuple[str, str], second: tuple[str, str]) -> Difference | None:
    """Between two pairs of a recipe and an aggregation."""
    both = [
        inputs.predictions(CHOICES, recipe).filter(benchmark="math500", n=CANDIDATES, aggregation=aggregation)
        for recipe, aggregation in (first, second)
    ]
    if any(each.is_empty() for each in both):
        return None
    return accuracy_difference(both[0], both[1], inputs.bootstrap_samples, inputs.seed)
