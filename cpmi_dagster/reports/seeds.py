"""How much a reward model varies when only its training seed does, and whether two kinds differ by more than that.

    recipes      mc_bce  mc_bce_seed1  mc_bce_seed2   cpmi_bce  cpmi_bce_seed1  cpmi_bce_seed2
    PB           31.0    33.4          30.1           35.2      33.8            36.1
    row MC           PB 31.5 [27.3, 35.7]   PB spread 1.7       mean over seeds with Student's interval, and deviation
    row CPMI − MC    PB 3.5 [0.3, 6.8]                          Welch's interval of the difference

Bootstrap intervals elsewhere hold the trained model fixed; these hold the problems fixed.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl
from scipy import stats

from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.reports.html_tables import DIFFERENCE
from cpmi_dagster.reports.inputs import Measurement, ReportInputs, measured_frame
from cpmi_dagster.reports.quality import MAIN_MEASURES, QUALITY
from cpmi_dagster.reports.reward_rows import BASELINE, BASELINE_TYPE, recipe_row

SPREAD = " spread"
CONFIDENCE = 0.95
FEWEST = 2


def repeats(recipes: Iterable[Recipe]) -> dict[str, list[str]]:
    """Recipes that differ in their seed alone, by row label; only those with at least two.

    Returns:
        Names of the recipes, those with MC labels first.
    """
    alike: dict[str, list[Recipe]] = {}
    for recipe in sorted(recipes, key=lambda recipe: recipe.reward_type != BASELINE_TYPE):
        alike.setdefault(recipe.model_dump_json(exclude={"name", "seed"}), []).append(recipe)
    return {seed_row(kind[0]): [recipe.name for recipe in kind] for kind in alike.values() if len(kind) >= FEWEST}


def seed_row(recipe: Recipe) -> str:
    """The row label of a recipe and its repeats; its name where it differs in more than labels and objective."""
    is_comparable = recipe.is_plain or recipe.is_repeat
    return recipe_row(recipe.reward_type, recipe.objective) if is_comparable else recipe.name


def measure_seeds(inputs: ReportInputs) -> pl.DataFrame:
    """Mean and spread over seeds of every measure, and the difference of each kind to MC with the same objective."""
    rows = repeats(inputs.recipes)
    comparable = {seed_row(recipe) for recipe in inputs.recipes if recipe.is_plain or recipe.is_repeat}
    measurements = []
    for measure in MAIN_MEASURES:
        figures = {row: _figures(inputs, names, measure) for row, names in rows.items()}
        for row, values in figures.items():
            if len(values) >= FEWEST:
                measurements += _of_row(row, measure, values)
                baseline = figures.get(_baseline(row), [])
                if row in comparable and row != _baseline(row) and len(baseline) >= FEWEST:
                    measurements.append(_difference(row, measure, values, baseline))
    return measured_frame(measurements)


def _figures(inputs: ReportInputs, recipes: Sequence[str], measure: str) -> list[float]:
    estimates = [QUALITY[measure](inputs, recipe) for recipe in recipes]
    return [estimate.value for estimate in estimates if estimate is not None]


def _baseline(row: str) -> str:
    """The row of MC labels with the same objective: `PQM, CPMI` -> `PQM, MC`."""
    objective, comma, _ = row.rpartition(", ")
    return f"{objective}{comma}{BASELINE}"


def _of_row(row: str, measure: str, values: Sequence[float]) -> list[Measurement]:
    mean, spread, count = float(np.mean(values)), float(np.std(values, ddof=1)), len(values)
    arm = float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1)) * spread / count**0.5
    return [
        Measurement(row, measure, mean, mean - arm, mean + arm, count),
        Measurement(row, measure + SPREAD, spread, n=count),
    ]


def _difference(row: str, measure: str, values: Sequence[float], baseline: Sequence[float]) -> Measurement:
    difference = float(np.mean(values) - np.mean(baseline))
    bounds = None, None
    if np.var(values) or np.var(baseline):
        interval = stats.ttest_ind(values, baseline, equal_var=False).confidence_interval(CONFIDENCE)
        bounds = float(interval.low), float(interval.high)
    name = f"{row}{DIFFERENCE}{_baseline(row)}"
    return Measurement(name, measure, difference, *bounds, len(values) + len(baseline))
