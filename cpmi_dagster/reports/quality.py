"""How good a reward model is: the measures that the paper's tables share, and the tables that consist of them.

    MEASURES["PB"].of(inputs, "cpmi_bce")  ->  Estimate(34.6, 31.0, 38.1, n=240)

Shares are in percent as the paper prints them, AUC is in [0, 1].

Best-of-N on the question sets has a row per way to choose a candidate:

    CPMI            highest mean step reward wins, the paper's rule
    CPMI, min       another way to weigh a candidate's steps
    Majority vote   needs no reward model; so do Pass@1 (a blind pick) and Pass@N (the best that any pick could be)
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from cpmi_dagster.benchmarks import prmbench, processbench
from cpmi_dagster.benchmarks.label_quality import IS_LAST, label_aucs
from cpmi_dagster.benchmarks.metrics import CHANCE_AUC
from cpmi_dagster.benchmarks.registry import question_set_labels
from cpmi_dagster.benchmarks.resampling import Estimate, Resampled, bootstrap_mean
from cpmi_dagster.contracts.keys import CHOICES, NEGATIVES, TRAJECTORIES
from cpmi_dagster.reports.figures import (
    STEP_AUC,
    Figure,
    ReportInputs,
    best_of_n,
    distribution_figures,
    first_error_chance,
    first_error_scores,
    wrong_step_chance,
    wrong_step_scores,
)
from cpmi_dagster.reports.labels import LABEL_AUC, WITHOUT_LAST, steps_with_truth
from cpmi_dagster.reports.reward_rows import (
    CONTRAST_ROWS,
    METHOD_TYPE,
    RecipeRow,
    main_rows,
    negatives_rows,
    objective_rows,
)

CANDIDATES = 8
"""N of best-of-N if the paper gives a single figure."""
DEFAULT_RULE, BLIND_RULE = "mean", "pass_at_1"
OTHER_RULES = {"min": "min", "last": "last", "product": "product", "weighted_vote": "weighted vote"}
BOUNDS = {BLIND_RULE: "Pass@1", "majority": "Majority vote", "pass_at_n": "Pass@N"}
NOT_IN_LOGIC = "pav"
OWN_ANSWER = "Own answer among them (%)"


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
MAIN_MEASURES = {name: measure for name, measure in MEASURES.items() if name != "MMLU"}
OBJECTIVE_HEADINGS = {
    "PB": "ProcessBench",
    "PB (official)": "ProcessBench (official)",
    "PRMB": "PRMBench",
    "PRMB (best)": "PRMBench (best)",
    "MATH": "MATH500",
}


def measure_quality(
    inputs: ReportInputs,
    rows: Iterable[RecipeRow],
    measures: Mapping[str, Measure] = MAIN_MEASURES,
    headings: Mapping[str, str] = {},
) -> Iterator[Figure]:
    """A figure per row and measure that can be measured; rows whose recipe the profile lacks are left out.

    Args:
        headings: columns of measures whose column is not their name.
    """
    for row in rows:
        recipe = inputs.recipe_of(row)
        for name, measure in measures.items() if recipe else ():
            if (figure := measure.of(inputs, str(recipe))) is not None:
                yield row.row, headings.get(name, name), figure


def measure_contrast(inputs: ReportInputs) -> Iterator[Figure]:
    """The two terms of CPMI alone, and both with one and with all hard negatives."""
    return measure_quality(inputs, CONTRAST_ROWS, MEASURES, {"MATH": "Math"})


def measure_objectives(inputs: ReportInputs) -> Iterator[Figure]:
    """MC and CPMI labels under every training objective."""
    measures = {name: MEASURES[name] for name in OBJECTIVE_HEADINGS}
    return measure_quality(inputs, objective_rows(inputs.recipes), measures, OBJECTIVE_HEADINGS)


def measure_logic(inputs: ReportInputs) -> Iterator[Figure]:
    """Best-of-8 accuracy on the logic sets."""
    rows = (row for row in main_rows(inputs.recipes) if row.reward_type != NOT_IN_LOGIC)
    sets = question_set_labels("logic").items()
    return measure_quality(inputs, rows, {label: best_of_eight(name, label) for name, label in sets})


def measure_negatives_ablation(inputs: ReportInputs) -> Iterator[Figure]:
    """By number and kind of hard negatives: reward models, labels on judged steps, own wrong answers among them."""
    rows, steps = negatives_rows(inputs.negatives), steps_with_truth(inputs)
    yield from measure_quality(inputs, rows, MEASURES, {"AUC": "ROC-AUC", "MATH": "Math"})
    for column, is_in in ((LABEL_AUC, True), (WITHOUT_LAST, ~IS_LAST)) if steps.height else ():
        labelled = steps.filter(pl.col("reward_type").is_in([row.reward_type for row in rows]), is_in)
        aucs = label_aucs(labelled, *inputs.draws)
        for row in rows:
            if row.reward_type in aucs:
                yield row.row, column, aucs[row.reward_type].estimate()
    for row in rows:
        if row.reward_type == METHOD_TYPE and (share := own_answers_share(inputs)):
            yield row.row, OWN_ANSWER, share.estimate().scaled(100)


def own_answers_share(inputs: ReportInputs) -> Resampled | None:
    """How often a wrong final answer is itself among the trajectory's hard negatives; None without any."""
    if (negatives := inputs.table(NEGATIVES).select("trajectory_id", "answer")).is_empty():
        return None
    answers = inputs.table(TRAJECTORIES).select("trajectory_id", "question_id", "gold_answer", "final_answer")
    pairs = answers.drop_nulls().join(negatives, on="trajectory_id")
    gold, final, wrong = (pairs[name].to_list() for name in ("gold_answer", "final_answer", "answer"))
    is_right, is_own = inputs.comparison.each(gold, final), inputs.comparison.each(final, wrong)
    judged = pairs.with_columns(right=pl.Series(is_right, dtype=pl.Boolean), own=pl.Series(is_own, dtype=pl.Boolean))
    solutions = judged.filter(~pl.col("right")).group_by("question_id", "trajectory_id").agg(pl.col("own").any())
    return bootstrap_mean(solutions["own"], *inputs.draws, solutions["question_id"]) if solutions.height else None


def measure_best_of_n(inputs: ReportInputs) -> Iterator[Figure]:
    """Accuracy for every N, by the mean step reward, without a reward model, and by the other rules."""
    recipes = {name: row.row for row in main_rows(inputs.recipes) if (name := inputs.recipe_of(row))}
    choices, labels = inputs.table(CHOICES), question_set_labels("best_of_n")
    if choices.is_empty():
        return
    first = choices["recipe"].min()  # bounds do not depend on a reward model: those of any recipe stand for all
    rows = [
        *((recipe, DEFAULT_RULE, row) for recipe, row in recipes.items()),
        *((first, rule, row) for rule, row in BOUNDS.items()),
        *((recipe, rule, f"{row}, {name}") for recipe, row in recipes.items() for rule, name in OTHER_RULES.items()),
    ]
    for recipe, rule, row in rows:
        for benchmark, label in labels.items():
            for n, figure in best_of_n(inputs, str(recipe), rule, benchmark).items():
                yield row, f"{label} N={n}", figure.estimate().scaled(100)
