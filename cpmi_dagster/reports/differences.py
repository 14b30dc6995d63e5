"""Which differences between reward models are more than noise.

`differences` compares two models over the same resampled questions, so that the difficulty of a question cancels out.
One comparison is named beforehand, and its p-value stands as it is; those of all others have beside them Holm's.

    row "CPMI − MC"            PB 4.9 [0.8, 9.1]   PB p 0.02     CPMI finds more first errors
    row "Primary: CPMI − MC"   PB (official) 3.1 [0.4, 6.0]      PB (official) p 0.03
"""

import math
from collections.abc import Iterator

from cpmi_dagster.benchmarks.resampling import Estimate, holm
from cpmi_dagster.reports.figures import Figure, ReportInputs
from cpmi_dagster.reports.paper import ADJUSTED_P_VALUE, DIFFERENCE, P_VALUE
from cpmi_dagster.reports.quality import MEASURES
from cpmi_dagster.reports.reward_rows import (
    BASELINE,
    BASELINE_TYPE,
    INSTRUMENT_ROWS,
    METHOD,
    RecipeRow,
    main_rows,
    recipe_row,
)

COMPARED = ("AUC", "PB", "PB (official)", "PRMB", "MATH")
"""Measures by which models are compared pair by pair."""
PRIMARY = (f"{METHOD}{DIFFERENCE}{BASELINE}", "PB (official)")
"""Row and measure of the one comparison that is named beforehand."""
PRIMARY_ROW = f"Primary: {PRIMARY[0]}"
PAIRS = (
    ("cpmi_merge1", "rand_merge", "bce"),
    ("cpmi_merge2", "mc", "bce"),
    ("cpmi_merge3", "mc", "bce"),
    *((reward_type, "cpmi", "bce") for reward_type in ("gold_only", "neg_only", "cpmi_m1", "cpmi_m2")),
    *((f"pav_merge{steps}", "pav", "bce") for steps in (1, 2, 3)),
    *(("cpmi", "mc", objective) for objective in ("pqm", "mse")),
)
"""Reward type, the one it is compared with, and the objective of both; after the main rows against MC."""


def measure_differences(inputs: ReportInputs) -> Iterator[Figure]:
    """Every pair in every measure: difference with its 95 % interval, p-value of no difference, and Holm's p-value.

    The primary comparison has a row of its own and is not among those that are adjusted for.
    """
    tested = {
        (row, name): figure.minus(other)
        for row, recipe, baseline in _pairs(inputs)
        for name in COMPARED
        if (figure := MEASURES[name].resampled(inputs, recipe))
        and (other := MEASURES[name].resampled(inputs, baseline))
    }
    if primary := tested.pop(PRIMARY, None):
        yield from _of_test(PRIMARY_ROW, PRIMARY[1], primary)
    adjusted = holm([difference.p_value for difference in tested.values()])
    for ((row, name), difference), by_holm in zip(tested.items(), adjusted, strict=True):
        yield from _of_test(row, name, difference)
        yield row, name + ADJUSTED_P_VALUE, _p_value(by_holm, difference)


def compared_rows(inputs: ReportInputs) -> list[RecipeRow]:
    """The rows that the two parts of a label name: `CPMI`, `PQM, MC`."""
    pairs = dict.fromkeys((each.reward_type, each.objective) for each in inputs.recipes)
    return [*main_rows(inputs.recipes), *(RecipeRow(recipe_row(*pair), *pair) for pair in pairs)]


def _of_test(row: str, measure: str, difference: Estimate) -> Iterator[Figure]:
    yield row, measure, difference.scaled(MEASURES[measure].scale)
    yield row, measure + P_VALUE, _p_value(difference.p_value, difference)


def _p_value(value: float | None, difference: Estimate) -> Estimate:
    """A p-value in place of a difference; it has no interval."""
    return Estimate(math.nan if value is None else value, None, None, difference.n, difference.units, difference.unit)


def _pairs(inputs: ReportInputs) -> Iterator[tuple[str, str, str]]:
    """Row label and the two recipes, of pairs whose recipes are both in the profile."""

    def row_of(reward_type: str, objective: str) -> RecipeRow:
        return RecipeRow(recipe_row(reward_type, objective), reward_type, objective)

    rows: list[tuple[RecipeRow, RecipeRow]] = []
    for row in main_rows(inputs.recipes):
        if row.row != BASELINE and row not in INSTRUMENT_ROWS:
            # a recipe that differs in more than its labels is compared with the plain recipe of the same labels
            is_plain = row.recipe in (None, inputs.recipe_of(row_of(row.reward_type, row.objective)))
            rows.append((row, row_of(BASELINE_TYPE if is_plain else row.reward_type, row.objective)))
    rows += [(row_of(first, objective), row_of(second, objective)) for first, second, objective in PAIRS]
    for first, second in rows:
        recipe, baseline = inputs.recipe_of(first), inputs.recipe_of(second)
        if recipe is not None and baseline is not None:
            yield f"{first.row}{DIFFERENCE}{second.row}", recipe, baseline
