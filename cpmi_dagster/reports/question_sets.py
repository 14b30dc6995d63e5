"""Best-of-N accuracy on the question sets, of mathematics and of logic.

row "CPMI"            highest mean step reward wins, the paper's rule
row "CPMI, min"       another way to weigh a candidate's steps
row "Majority vote"   what needs no reward model, as Pass@1 (a blind pick) and Pass@N (the best that any pick could be)
"""

from collections.abc import Sequence
from functools import partial

import polars as pl

from cpmi_dagster.benchmarks.registry import question_set_labels
from cpmi_dagster.contracts.keys import CHOICES
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.reports.inputs import ReportInputs, measured_frame
from cpmi_dagster.reports.quality import DEFAULT_AGGREGATION, accuracies, best_of_n, measure_quality, measurement
from cpmi_dagster.reports.reward_rows import MAIN_ROWS, RecipeRow, main_rows

NOT_IN_LOGIC = "pav"
LOGIC_ROWS: tuple[RecipeRow, ...] = tuple(row for row in MAIN_ROWS if row.reward_type != NOT_IN_LOGIC)
OTHER_RULES = {"min": "min", "last": "last", "product": "product", "weighted_vote": "weighted vote"}
NO_REWARD_MODEL = {"pass_at_1": "Pass@1", "majority": "Majority vote"}
BOUNDS = {**NO_REWARD_MODEL, "pass_at_n": "Pass@N"}


def other_rule_rows(recipes: Sequence[Recipe]) -> frozenset[str]:
    """Rows of `best_of_n` that weigh steps in other ways than the paper."""
    return frozenset(f"{row.row}, {name}" for row in main_rows(recipes) for name in OTHER_RULES.values())


def measure_best_of_n(inputs: ReportInputs) -> pl.DataFrame:
    """Accuracy for every N, by the mean step reward, without a reward model, and by the other rules."""
    rows = _rows_of_rules(inputs)
    wanted = pl.DataFrame(list(rows), schema=["recipe", "aggregation"], orient="row")
    labels = question_set_labels("best_of_n")
    choices = inputs.table(CHOICES).filter(pl.col("benchmark").is_in(list(labels)))
    figures = accuracies(inputs, choices.join(wanted, on=["recipe", "aggregation"], how="semi"))
    places = {benchmark: place for place, benchmark in enumerate(labels)}
    return measured_frame(
        measurement(row, f"{labels[benchmark]} N={candidates}", estimate)
        for (recipe, aggregation), row in rows.items()
        for (other, benchmark, candidates, rule), estimate in sorted(
            figures.items(), key=lambda figure: (places[figure[0][1]], figure[0][2])
        )
        if (other, rule) == (recipe, aggregation)
    )


def measure_logic(inputs: ReportInputs) -> pl.DataFrame:
    """Best-of-8 accuracy on the logic sets."""
    rows = (row for row in main_rows(inputs.recipes) if row.reward_type != NOT_IN_LOGIC)
    labels = question_set_labels("logic")
    columns = {label: partial(best_of_n, benchmark=benchmark) for benchmark, label in labels.items()}
    return measured_frame(measure_quality(inputs, rows, columns))


def _rows_of_rules(inputs: ReportInputs) -> dict[tuple[str, str], str]:
    """Row label by (recipe, aggregation): the paper's rule, then the bounds, then the other rules.

    Bounds do not depend on a reward model; those kept with the first recipe stand for all.
    """
    recipes = {name: row.row for row in main_rows(inputs.recipes) if (name := inputs.recipe_of(row))}
    first = inputs.table(CHOICES)["recipe"].min()
    return {
        **{(recipe, DEFAULT_AGGREGATION): row for recipe, row in recipes.items()},
        **{(str(first), aggregation): row for aggregation, row in BOUNDS.items()},
        **{(recipe, rule): f"{row}, {name}" for recipe, row in recipes.items() for rule, name in OTHER_RULES.items()},
    }
