"""Which differences between reward models are more than noise: of the problems, and of the training seed.

`differences` compares two models over the same resampled questions, so that the difficulty of a question cancels out.
One comparison is named beforehand, and its p-value stands as it is; those of all others have beside them Holm's.

    row "CPMI − MC"            PB 4.9 [0.8, 9.1]   PB p 0.02     CPMI finds more first errors
    row "Primary: CPMI − MC"   PB (official) 3.1 [0.4, 6.0]      PB (official) p 0.03

`training_seeds` compares recipes that differ in their seed alone. Bootstrap intervals elsewhere hold the trained model
fixed; these hold the problems fixed.

    PB of mc_bce, mc_bce_seed1, mc_bce_seed2: 31.0, 33.4, 30.1    of cpmi_bce, …: 35.2, 33.8, 36.1
    row MC           PB 31.5 [27.3, 35.7]   PB spread 1.7         mean with Student's interval, and deviation
                     PB over seeds 31.5 [30.1, 33.4]              mean with the least and the greatest
    row CPMI − MC    PB 3.5 [0.3, 6.8]                            Welch's interval of the difference
"""

from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl
from scipy import stats

from cpmi_dagster.benchmarks.resampling import Difference, holm
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.reports.inputs import Measurement, ReportInputs, measured_frame, measurement, p_value
from cpmi_dagster.reports.paper import ADJUSTED_P_VALUE, DIFFERENCE, P_VALUE
from cpmi_dagster.reports.quality import MAIN_MEASURES, MEASURES, scaled
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
SPREAD = " spread"
RANGE = " over seeds"
"""Columns of standard deviations, and of means with the least and the greatest figure in the interval's place."""
CONFIDENCE = 0.95
FEWEST, TRAINING = 2, "training run"
"""Recipes of which a spread is taken. Student's and Welch's intervals are as wide as their small number makes them."""


def measure_differences(inputs: ReportInputs) -> pl.DataFrame:
    """Every pair in every measure: difference with its 95 % interval, p-value of no difference, and Holm's p-value.

    The primary comparison has a row of its own and is not among those that are adjusted for.
    """
    pairs = list(_pairs(inputs))
    recipes = {recipe for _, *pair in pairs for recipe in pair}
    figures = {(name, recipe): MEASURES[name].resampled(inputs, recipe) for name in COMPARED for recipe in recipes}
    tested = {
        (row, name): one.minus(other)
        for row, recipe, baseline in pairs
        for name in COMPARED
        if (one := figures[name, recipe]) and (other := figures[name, baseline])
    }
    primary = tested.pop(PRIMARY, None)
    measurements = [] if primary is None else _of_test(PRIMARY_ROW, PRIMARY[1], primary)
    adjusted = holm([difference.p_value for difference in tested.values()])
    for ((row, name), difference), by_holm in zip(tested.items(), adjusted, strict=True):
        measurements += _of_test(row, name, difference)
        measurements.append(p_value(row, name + ADJUSTED_P_VALUE, by_holm, difference))
    return measured_frame(measurements)


def _of_test(row: str, measure: str, difference: Difference) -> list[Measurement]:
    return [
        measurement(row, measure, scaled(difference, MEASURES[measure].scale)),
        p_value(row, measure + P_VALUE, difference.p_value, difference),
    ]


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


def repeats(recipes: Iterable[Recipe]) -> dict[str, list[str]]:
    """Recipes that differ in their seed alone, by row label; only those with at least two.

    Returns:
        Names of the recipes, those with MC labels first.
    """
    alike: dict[str, list[Recipe]] = {}
    for recipe in sorted(recipes, key=lambda recipe: recipe.reward_type != BASELINE_TYPE):
        alike.setdefault(recipe.model_dump_json(exclude={"name", "seed"}), []).append(recipe)
    return {_seed_row(kind[0]): [recipe.name for recipe in kind] for kind in alike.values() if len(kind) >= FEWEST}


def measure_seeds(inputs: ReportInputs) -> pl.DataFrame:
    """Mean and spread over seeds of every measure, and the difference of each kind to MC with the same objective."""
    rows = repeats(inputs.recipes)
    comparable = {_seed_row(recipe) for recipe in inputs.recipes if recipe.is_plain or recipe.is_repeat}
    measurements = []
    for name in MAIN_MEASURES:
        figures = {row: [MEASURES[name].of(inputs, recipe) for recipe in recipes] for row, recipes in rows.items()}
        values = {row: [each.value for each in found if each is not None] for row, found in figures.items()}
        values = {row: own for row, own in values.items() if len(own) >= FEWEST}
        for row, own in values.items():
            mean, spread, count = float(np.mean(own)), float(np.std(own, ddof=1)), len(own)
            arm = float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1)) * spread / count**0.5
            measurements.append(Measurement(row, name, mean, mean - arm, mean + arm, count, count, TRAINING))
            measurements.append(Measurement(row, name + SPREAD, spread, n=count))
            measurements.append(Measurement(row, name + RANGE, mean, min(own), max(own), count, count, TRAINING))
            objective, comma, _ = row.rpartition(", ")
            baseline = f"{objective}{comma}{BASELINE}"  # `PQM, CPMI` is compared with `PQM, MC`
            if row in comparable and row != baseline and baseline in values:
                # Welch's interval; none where no value varies
                bounds = None, None
                if np.var(own) or np.var(values[baseline]):
                    test = stats.ttest_ind(own, values[baseline], equal_var=False)
                    interval = test.confidence_interval(CONFIDENCE)
                    bounds = float(interval.low), float(interval.high)
                apart, both = float(np.mean(own) - np.mean(values[baseline])), count + len(values[baseline])
                difference = f"{row}{DIFFERENCE}{baseline}"
                measurements.append(Measurement(difference, name, apart, *bounds, both, both, TRAINING))
    return measured_frame(measurements)


def _seed_row(recipe: Recipe) -> str:
    """The row label of a recipe and its repeats; its name where it differs in more than labels and objective."""
    is_comparable = recipe.is_plain or recipe.is_repeat
    return recipe_row(recipe.reward_type, recipe.objective) if is_comparable else recipe.name
