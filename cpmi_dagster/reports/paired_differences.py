"""Paired differences between reward models, and to no reward model: which are more than noise?

    row "CPMI − MC"            PB 4.9 [0.8, 9.1]   PB p 0.02     CPMI finds more first errors
    row "Neg_only − CPMI"      PB -1.2 [-4.0, 1.7] PB p 0.4      within noise

    row "Primary: CPMI − MC"   PB (official) 3.1 [0.4, 6.0], PB (official) p 0.03

Both models are measured over the same resampled questions, so the difficulty of a question cancels out. One comparison
is named beforehand, and its p-value stands as it is; those of all others have beside them Holm's, which count how many
there are.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import polars as pl

from cpmi_dagster.benchmarks.best_of_n import accuracy_difference
from cpmi_dagster.benchmarks.prmbench import prmbench_overall
from cpmi_dagster.benchmarks.processbench import processbench_average
from cpmi_dagster.benchmarks.registry import AVERAGED_BENCHMARKS, PRMBENCH
from cpmi_dagster.benchmarks.resampling import Difference, Resampled, holm
from cpmi_dagster.benchmarks.step_distribution import DISTRIBUTION_SUBSET, resampled_step_auc
from cpmi_dagster.contracts.keys import CHOICES, PRMBENCH_PREDICTIONS, PROBLEMS, PROCESSBENCH
from cpmi_dagster.reports.html_tables import ADJUSTED_P_VALUE, DIFFERENCE, P_VALUE
from cpmi_dagster.reports.inputs import Measurement, ReportInputs, measured_frame
from cpmi_dagster.reports.quality import CANDIDATES, DEFAULT_AGGREGATION
from cpmi_dagster.reports.reward_rows import BASELINE, BASELINE_TYPE, METHOD, RecipeRow, main_rows, recipe_row

SCALES = {"AUC": 1.0, "PB": 100.0, "PB (official)": 100.0, "PRMB": 100.0, "MATH": 100.0}
PRIMARY = (f"{METHOD}{DIFFERENCE}{BASELINE}", "PB (official)")
"""Row and measure of the one comparison that is named beforehand."""
PRIMARY_ROW = f"Primary: {PRIMARY[0]}"
COMPARED_PREDICTIONS: dict[str, tuple[str, tuple[str, ...], Callable[..., Resampled]]] = {
    "AUC": (PROCESSBENCH, (DISTRIBUTION_SUBSET,), resampled_step_auc),
    "PB": (PROCESSBENCH, AVERAGED_BENCHMARKS, partial(processbench_average, protocol="paper")),
    "PB (official)": (PROCESSBENCH, AVERAGED_BENCHMARKS, partial(processbench_average, protocol="official")),
    "PRMB": (PRMBENCH_PREDICTIONS, (PRMBENCH,), partial(prmbench_overall, protocol="released")),
}
"""By measure: the table of predictions, the benchmarks that both models must have judged, its resampled figure."""
PAIRS: tuple[tuple[str, str, str], ...] = (
    ("cpmi_merge1", "rand_merge", "bce"),
    ("cpmi_merge2", "mc", "bce"),
    ("cpmi_merge3", "mc", "bce"),
    *((reward_type, "cpmi", "bce") for reward_type in ("gold_only", "neg_only", "cpmi_m1", "cpmi_m2")),
    *((f"pav_merge{steps}", "pav", "bce") for steps in (1, 2, 3)),
    *(("cpmi", "mc", objective) for objective in ("pqm", "mse")),
)
"""Reward type, the one it is compared with, and the objective of both; after the main rows against MC."""


@dataclass(frozen=True)
class ModelFigures:
    """Figures of reward models with their resamples, each computed once however many models it is compared with."""

    inputs: ReportInputs
    _known: dict[tuple[str, str], Resampled | None] = field(default_factory=dict)

    def difference(self, recipe: str, baseline: str, measure: str) -> Difference | None:
        """One recipe's model minus another's, as a share; None where either was not measured.

        Args:
            measure: AUC (of steps), PB, PB (official), PRMB or MATH.
        """
        if measure == "MATH":
            return _best_of_n(self.inputs, (recipe, DEFAULT_AGGREGATION), (baseline, DEFAULT_AGGREGATION))
        both = [self._figure(name, measure) for name in (recipe, baseline)]
        return None if both[0] is None or both[1] is None else both[0].minus(both[1])

    def _figure(self, recipe: str, measure: str) -> Resampled | None:
        if (recipe, measure) not in self._known:
            self._known[recipe, measure] = self._resampled(recipe, measure)
        return self._known[recipe, measure]

    def _resampled(self, recipe: str, measure: str) -> Resampled | None:
        table, benchmarks, figure = COMPARED_PREDICTIONS[measure]
        predictions, problems = self.inputs.predictions(table, recipe), self.inputs.table(PROBLEMS)
        if not set(benchmarks) <= _benchmarks_of(table, predictions):
            return None
        return figure(predictions, problems, samples=self.inputs.bootstrap_samples, seed=self.inputs.seed)


def measure_differences(inputs: ReportInputs) -> pl.DataFrame:
    """Every pair in every measure: difference with its 95 % interval, p-value of no difference, and Holm's p-value.

    The primary comparison has a row of its own and is not among those that are adjusted for.
    """
    models = ModelFigures(inputs)
    tested = {
        (row, measure): difference
        for row, recipe, baseline in _pairs(inputs)
        for measure in SCALES
        if (difference := models.difference(recipe, baseline, measure)) is not None
    }
    primary = tested.pop(PRIMARY, None)
    measurements = [] if primary is None else _of_test(PRIMARY_ROW, PRIMARY[1], primary)
    adjusted = holm([difference.p_value for difference in tested.values()])
    for ((row, measure), difference), p_value in zip(tested.items(), adjusted, strict=True):
        measurements += _of_test(row, measure, difference)
        measurements.append(Measurement(row, measure + ADJUSTED_P_VALUE, p_value, n=difference.n))
    return measured_frame(measurements)


def _of_test(row: str, measure: str, difference: Difference) -> list[Measurement]:
    scale = SCALES[measure]
    low, high = scale * difference.low, scale * difference.high
    return [
        Measurement(row, measure, scale * difference.value, low, high, difference.n),
        Measurement(row, measure + P_VALUE, difference.p_value, n=difference.n),
    ]


def _pairs(inputs: ReportInputs) -> Iterator[tuple[str, str, str]]:
    """Row label and the two recipes, of pairs whose recipes are both in the profile."""
    rows = [(row, _compared_with(inputs, row)) for row in main_rows(inputs.recipes) if row.row != BASELINE]
    rows += [(_row(first, objective), _row(second, objective)) for first, second, objective in PAIRS]
    for first, second in rows:
        recipes = inputs.recipe_of(first), inputs.recipe_of(second)
        if recipes[0] is not None and recipes[1] is not None:
            yield f"{first.row}{DIFFERENCE}{second.row}", recipes[0], recipes[1]


def _compared_with(inputs: ReportInputs, row: RecipeRow) -> RecipeRow:
    """MC with the same objective, or the plain recipe of the same labels where the row's differs in more than these."""
    plain = inputs.recipe_name(row.reward_type, row.objective)
    return _row(BASELINE_TYPE if row.recipe in (None, plain) else row.reward_type, row.objective)


def _row(reward_type: str, objective: str) -> RecipeRow:
    return RecipeRow(recipe_row(reward_type, objective), reward_type, objective)


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
