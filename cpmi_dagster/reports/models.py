"""The reward models: every measure on benchmarks, and their scores of the solutions that they were made from.

row        column                                          measured
cpmi_bce   AUC against its own labels                      0.71  [0.64, 0.78]   of questions held out
cpmi_bce   AUC against judged steps                        0.66  [0.55, 0.76]   without last steps, of all questions
cpmi_bce   AUC against judged steps of questions held out  0.64  [0.51, 0.77]
cpmi_bce   Lowest score                                    0.51                 of the middle nine tenths
cpmi_bce   Highest score                                   0.55
cpmi_bce   PB                                              34.6  [31.0, 38.1]   and other `MEASURES`
Chance     PB                                              20.2  [14.7, 25.0]

A question is held out if it did not train the model. `differences` compares two models over the same resampled
questions, so that the difficulty of a question cancels out. One comparison is named beforehand, and its p-value stands
as it is; those of all others have beside them Holm's.

    row "CPMI − MC"            PB 4.9 [0.8, 9.1]   PB p 0.02     CPMI finds more first errors
    row "Primary: CPMI − MC"   PB (official) 3.1 [0.4, 6.0]      PB (official) p 0.03
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import polars as pl

from cpmi_dagster.benchmarks import prmbench, processbench
from cpmi_dagster.benchmarks.label_quality import IS_LAST, STEP
from cpmi_dagster.benchmarks.metrics import CHANCE_AUC, bootstrap_auc
from cpmi_dagster.benchmarks.resampling import Estimate, Resampled, holm
from cpmi_dagster.contracts.keys import CHOICES, MODELS, TRAJECTORIES
from cpmi_dagster.reports.figures import (
    STEP_AUC,
    Columns,
    Figure,
    ReportInputs,
    best_of_n,
    distribution_figures,
    figures_by_column,
    first_error_chance,
    first_error_scores,
    format_estimate,
    format_figure,
    unless_few,
    wrong_step_chance,
    wrong_step_scores,
)
from cpmi_dagster.reports.labels import judged_steps
from cpmi_dagster.reports.paper import (
    ADJUSTED_P_VALUE,
    BASELINE,
    BASELINE_TYPE,
    CHANCE_ROW,
    DIFFERENCE,
    INSTRUMENT_ROWS,
    METHOD,
    P_VALUE,
    RecipeRow,
    main_rows,
    recipe_row,
)

OWN_LABELS, JUDGED = "AUC against its own labels", "AUC against judged steps"
JUDGED_HELD_OUT = f"{JUDGED} of questions held out"
LOWEST, HIGHEST = "Lowest score", "Highest score"
ALL_QUESTIONS = "of training questions too"
ENDS = {LOWEST: 0.05, HIGHEST: 0.95}
RIGHT_FROM = 0.5
"""Soft label from which a step counts as right."""
NARROW = 0.1
"""Distance of the highest score from the lowest, below which a model says the same of every step."""
SAME = "hardly any difference, it says the same of every step"
CANDIDATES = 8
"""N of best-of-N if the paper gives a single figure."""
DEFAULT_RULE, BLIND_RULE = "mean", "pass_at_1"


@dataclass(frozen=True)
class Measure:
    """A measure of reward models.

    Attributes:
        name: on a model card.
        words: in a sentence.
        resampled: a recipe's figure as a share, with its resamples; None if its benchmarks were not judged.
        by_chance: as a share, of random step scores, or of a blind pick in best of 8; None if there is none.
        scale: what shares are multiplied by.
        decimals: that it is shown with.
    """

    name: str
    words: str
    resampled: Callable[[ReportInputs, str], Resampled | None]
    by_chance: Callable[[ReportInputs], Estimate | None]
    scale: float = 100
    decimals: int = 1

    def of(self, inputs: ReportInputs, recipe: str) -> Estimate | None:
        """A recipe's figure with its interval; None if a benchmark was not judged."""
        figure = self.resampled(inputs, recipe)
        return figure and figure.estimate().scaled(self.scale)

    def chance(self, inputs: ReportInputs) -> Estimate | None:
        """The figure by chance."""
        figure = self.by_chance(inputs)
        return figure and figure.scaled(self.scale)


def best_of_eight(benchmark: str, name: str, words: str = "") -> Measure:
    """Best-of-8 accuracy on one question set, by the mean step reward."""

    def resampled(inputs: ReportInputs, recipe: str, rule: str = DEFAULT_RULE) -> Resampled | None:
        return best_of_n(inputs, recipe, rule, benchmark).get(CANDIDATES)

    def by_chance(inputs: ReportInputs) -> Estimate | None:
        # a blind pick does not depend on a reward model: that of any recipe stands for all
        recipe = inputs.table(CHOICES)["recipe"].min()
        blind = resampled(inputs, str(recipe), BLIND_RULE)
        return blind and blind.estimate()

    return Measure(name, words, resampled, by_chance)


def _processbench(protocol: processbench.Protocol, name: str, words: str) -> Measure:
    """Mean F1 of the paper's four subsets."""

    def resampled(inputs: ReportInputs, recipe: str) -> Resampled | None:
        average = first_error_scores(inputs, recipe).get(protocol, {}).get(processbench.AVERAGE)
        return average and average.resampled("f1")

    def by_chance(inputs: ReportInputs) -> Estimate:
        return first_error_chance(inputs, protocol)[processbench.AVERAGE].resampled("f1").estimate()

    return Measure(name, words, resampled, by_chance)


def _prmbench(protocol: prmbench.Protocol, name: str, words: str) -> Measure:
    """Overall PRMScore."""
    overall = ("overall", prmbench.OVERALL)

    def resampled(inputs: ReportInputs, recipe: str) -> Resampled | None:
        scores = wrong_step_scores(inputs, recipe)
        return scores[protocol].figures[overall] if scores else None

    return Measure(name, words, resampled, lambda inputs: wrong_step_chance(inputs, protocol)[overall].estimate())


MEASURES: dict[str, Measure] = {
    "AUC": Measure(
        "ROC-AUC of step scores on ProcessBench-Math",
        "AUC of steps",
        lambda inputs, recipe: distribution_figures(inputs, recipe).get(STEP_AUC),
        lambda _: Estimate(CHANCE_AUC),
        scale=1,
        decimals=3,
    ),
    "PB": _processbench(
        "paper",
        "ProcessBench F1, mean of four subsets, the best threshold on each",
        "ProcessBench F1 at the best thresholds",
    ),
    "PB (official)": _processbench(
        "official", "ProcessBench F1, mean of four subsets, one threshold from GSM8K", "ProcessBench F1"
    ),
    "PRMB": _prmbench(
        "released", "PRMBench, overall PRMScore, the threshold with the best F1 of wrong steps", "PRMScore"
    ),
    "PRMB (best)": _prmbench(
        "best", "PRMBench, overall PRMScore, the threshold with the best PRMScore", "PRMScore at the best threshold"
    ),
    "MATH": best_of_eight("math500", "MATH500, best of 8 (%)", "MATH500"),
    "MMLU": best_of_eight("mmlu_stem", "MMLU-STEM, best of 8 (%)", "MMLU-STEM"),
}


def measure_reward_models(inputs: ReportInputs) -> Iterator[Figure]:
    """AUCs and the range of the scores of every model, then its measures; what cannot be measured is left out."""
    judged = judged_steps(inputs).filter(~IS_LAST).select(*STEP, "correct")
    questions = inputs.table(TRAJECTORIES).select("trajectory_id", "question_id")
    models = inputs.table(MODELS).select("recipe", "scores").explode("scores").unnest("scores")
    for (recipe,), scores in models.drop_nulls("trajectory_id").group_by("recipe", maintain_order=True):
        steps = scores.join(questions, on="trajectory_id", maintain_order="left")
        held_out = steps.filter("held_out").with_columns(correct=pl.col("label") >= RIGHT_FROM)
        known = steps.join(judged, on=STEP, maintain_order="left")
        for column, rows in ((OWN_LABELS, held_out), (JUDGED, known), (JUDGED_HELD_OUT, known.filter("held_out"))):
            if rows["correct"].n_unique() > 1:
                auc = bootstrap_auc(rows["probability"], rows["correct"], rows["question_id"], *inputs.draws)
                yield str(recipe), column, auc.estimate()
        for column, share in ENDS.items():
            if (end := steps["probability"].quantile(share, "linear")) is not None:
                yield str(recipe), column, Estimate(end, n=steps.height)
    for name, measure in MEASURES.items():
        figures = {each.name: figure for each in inputs.recipes if (figure := measure.of(inputs, each.name))}
        if figures and (chance := measure.chance(inputs)):
            figures[CHANCE_ROW] = chance
        yield from ((recipe, name, figure) for recipe, figure in figures.items())


def model_rows(inputs: ReportInputs) -> list[RecipeRow]:
    """The row of every recipe."""
    return [RecipeRow(each.name, each.reward_type, each.objective, each.name) for each in inputs.recipes]


def model_figures(table: pl.DataFrame | None, recipe: str) -> list[tuple[str, str]]:
    """Name and value of a model's figures with their chance, for its card."""
    columns = figures_by_column(table)
    words = {
        OWN_LABELS: f"{OWN_LABELS}, of questions held out",
        JUDGED: f"{JUDGED}, without last steps, {ALL_QUESTIONS}",
        JUDGED_HELD_OUT: f"{JUDGED_HELD_OUT}, without last steps",
    }
    figures = [
        (name, f"{format_estimate(figure, 3)} (chance {CHANCE_AUC})")
        for column, name in words.items()
        if (figure := unless_few(columns[column].get(recipe)))
    ]
    if band := score_band(columns, recipe, 3):
        figures.append(("Scores, the middle nine tenths", band))
    for column, measure in MEASURES.items():
        if figure := unless_few(columns[column].get(recipe)):
            chance = columns[column].get(CHANCE_ROW)
            beside = f" (chance {format_figure(chance.value, measure.decimals)})" if chance else ""
            figures.append((measure.name, format_estimate(figure, measure.decimals) + beside))
    return figures


def score_band(columns: Columns, recipe: str, decimals: int) -> str:
    """The middle nine tenths of a model's scores, `0.51 to 0.55: hardly any difference, …`; empty if it has none."""
    if recipe not in columns[LOWEST]:
        return ""
    low, high = (columns[name][recipe].value for name in ENDS)
    same = f": {SAME}" if high - low < NARROW else ""
    return f"{format_figure(low, decimals)} to {format_figure(high, decimals)}{same}"


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
    return [*main_rows(inputs.recipes), *(recipe_row(*pair) for pair in pairs)]


def _of_test(row: str, measure: str, difference: Estimate) -> Iterator[Figure]:
    yield row, measure, difference.scaled(MEASURES[measure].scale)
    yield row, measure + P_VALUE, _p_value(difference.p_value, difference)


def _p_value(value: float | None, difference: Estimate) -> Estimate:
    """A p-value in place of a difference; it has no interval."""
    return Estimate(math.nan if value is None else value, None, None, difference.n, difference.units, difference.unit)


def _pairs(inputs: ReportInputs) -> Iterator[tuple[str, str, str]]:
    """Row label and the two recipes, of pairs whose recipes are both in the profile."""
    rows: list[tuple[RecipeRow, RecipeRow]] = []
    for row in main_rows(inputs.recipes):
        if row.row != BASELINE and row not in INSTRUMENT_ROWS:
            # a recipe that differs in more than its labels is compared with the plain recipe of the same labels
            is_plain = row.recipe in (None, inputs.recipe_of(recipe_row(row.reward_type, row.objective)))
            rows.append((row, recipe_row(BASELINE_TYPE if is_plain else row.reward_type, row.objective)))
    rows += [(recipe_row(first, objective), recipe_row(second, objective)) for first, second, objective in PAIRS]
    for first, second in rows:
        recipe, baseline = inputs.recipe_of(first), inputs.recipe_of(second)
        if recipe is not None and baseline is not None:
            yield f"{first.row}{DIFFERENCE}{second.row}", recipe, baseline
