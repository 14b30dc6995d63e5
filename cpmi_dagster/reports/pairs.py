"""Which differences between reward models are more than noise: the pairs that the paper compares.

    row "CPMI − MC"            PB 4.9 [0.8, 9.1]   PB p 0.02     CPMI finds more first errors
    row "Neg_only − CPMI"      PB -1.2 [-4.0, 1.7] PB p 0.4      within noise

Both models are measured over the same resampled questions, so the difficulty of a question cancels out.
"""

from collections.abc import Iterator

import polars as pl

from cpmi_dagster.reports.differences import model_difference
from cpmi_dagster.reports.html_tables import DIFFERENCE, P_VALUE
from cpmi_dagster.reports.inputs import Measurement, ReportInputs, measured_frame
from cpmi_dagster.reports.reward_rows import RecipeRow, main_rows, recipe_row
from cpmi_dagster.rewards.registry import reward_label

SCALES = {"AUC": 1.0, "PB": 100.0, "PRMB": 100.0, "MATH": 100.0}
PAIRS: tuple[tuple[str, str, str], ...] = (
    ("cpmi_merge1", "rand_merge", "bce"),
    ("cpmi_merge2", "mc", "bce"),
    ("cpmi_merge3", "mc", "bce"),
    ("gold_only", "cpmi", "bce"),
    ("neg_only", "cpmi", "bce"),
    ("cpmi_m1", "cpmi", "bce"),
    ("cpmi_m2", "cpmi", "bce"),
    ("pav_merge1", "pav", "bce"),
    ("pav_merge2", "pav", "bce"),
    ("pav_merge3", "pav", "bce"),
    ("cpmi", "mc", "pqm"),
    ("cpmi", "mc", "mse"),
)
"""Reward type, the one it is compared with, and the objective of both; after the main rows against MC."""


def measure_differences(inputs: ReportInputs) -> pl.DataFrame:
    """Every pair in every measure: difference with its 95 % interval, and the p-value of no difference."""
    return measured_frame(
        measurement
        for row, recipe, baseline in _pairs(inputs)
        for measure, scale in SCALES.items()
        for measurement in _of_pair(inputs, row, recipe, baseline, measure, scale)
    )


def _pairs(inputs: ReportInputs) -> Iterator[tuple[str, str, str]]:
    """Row label and the two recipes, of pairs whose recipes are both in the profile."""
    baseline = RecipeRow(reward_label("mc"), "mc")
    rows = [(row, _compared_with(inputs, row)) for row in main_rows(inputs.recipes) if row.row != baseline.row]
    rows += [(_row(first, objective), _row(second, objective)) for first, second, objective in PAIRS]
    for first, second in rows:
        recipes = inputs.recipe_of(first), inputs.recipe_of(second)
        if recipes[0] is not None and recipes[1] is not None:
            yield f"{first.row}{DIFFERENCE}{second.row}", recipes[0], recipes[1]


def _compared_with(inputs: ReportInputs, row: RecipeRow) -> RecipeRow:
    """MC with the same objective, or the plain recipe of the same labels where the row's differs in more than these."""
    plain = inputs.recipe_name(row.reward_type, row.objective)
    return _row("mc" if row.recipe in (None, plain) else row.reward_type, row.objective)


def _row(reward_type: str, objective: str) -> RecipeRow:
    return RecipeRow(recipe_row(reward_type, objective), reward_type, objective)


def _of_pair(
    inputs: ReportInputs, row: str, recipe: str, baseline: str, measure: str, scale: float
) -> Iterator[Measurement]:
    difference = model_difference(inputs, recipe, baseline, measure)
    if difference is not None:
        low, high = scale * difference.low, scale * difference.high
        yield Measurement(row, measure, scale * difference.value, low, high, difference.n)
        yield Measurement(row, measure + P_VALUE, difference.p_value, n=difference.n)
