"""Question (f) of docs/evidence.md from a finished home: reward models on real text, one for each label.

    python scripts/heads_table.py .cpmi/evidence/heads/heads.yaml .cpmi/evidence/heads/home

    reward model on       GSM8K F1           MATH F1            AUC                less Uniform random
    CPMI (incremental)    0.31 [0.24, 0.38]  0.28 [0.24, 0.33]  0.61 [0.58, 0.64]  0.09 [0.05, 0.13], p 0.002

F1 is ProcessBench's, where each part of the questions is judged at the threshold that is best on the others. AUC is
over the steps up to the first error, of all sets; differences are of that AUC, paired.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl
from rich.console import Console
from rich.table import Table

from cpmi_dagster.benchmarks.first_errors import cross_fitted_score, read_solutions, rules_to_try
from cpmi_dagster.benchmarks.metrics import bootstrap_auc
from cpmi_dagster.benchmarks.predictions import with_probabilities
from cpmi_dagster.benchmarks.processbench import processbench_chance, up_to_first_error
from cpmi_dagster.benchmarks.registry import STEP_BENCHMARKS, SUBSETS
from cpmi_dagster.benchmarks.resampling import Estimate, Resampled, shown
from cpmi_dagster.contracts.keys import PROBLEMS, PROCESSBENCH
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.reports.paper import format_figure
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.rewards.registry import reward_label

FLOOR, TO_BEAT = "uniform", "final_answer"


class ModelFigures(NamedTuple):
    """Of a reward model on ProcessBench.

    Attributes:
        f1: cross-fitted, by benchmark, as a share.
        auc: of step scores up to the first error.
        inner: the same without last steps.
    """

    f1: dict[str, Resampled]
    auc: Resampled
    inner: Resampled


def judge_of(predictions: pl.DataFrame, problems: pl.DataFrame, samples: int, seed: int) -> ModelFigures:
    """The figures of one reward model.

    Args:
        predictions: `ProcessBenchPredictions` columns of one recipe.
        problems: `BenchmarkProblems` rows.
    """
    judged = with_probabilities(predictions, problems)
    f1 = {}
    for name in SUBSETS:
        if (own := judged.filter(benchmark=name)).height:
            solutions = read_solutions(own, samples, seed)
            f1[name] = cross_fitted_score(solutions, rules_to_try(solutions), seed).f1
    keys, last = ["benchmark", "problem_id"], pl.col("steps").list.len() - 1
    asked = problems.select(*keys, "question", "first_error", last=last)
    steps = up_to_first_error(predictions.join(asked, on=keys))

    def auc(part: pl.DataFrame) -> Resampled:
        scores, correct, questions = (part[of].to_numpy() for of in ("probability", "is_right", "question"))
        return bootstrap_auc(scores, correct, questions, samples, seed)

    return ModelFigures(f1, auc(steps), auc(steps.filter(pl.col("step_index") < pl.col("last"))))


def figures_of_models(settings: Settings) -> Iterator[tuple[str, ModelFigures]]:
    """Each label of the profile's reward models with the figures of its model."""
    lake = Lake.of(settings)
    predictions, problems = lake.read(PROCESSBENCH), lake.read(PROBLEMS)
    for recipe in settings.recipes:
        own = predictions.filter(recipe=recipe.name)
        yield recipe.reward_type, judge_of(own, problems, settings.benchmarks.bootstrap_samples, settings.seed)


def table_of(found: dict[str, ModelFigures], chance: pl.DataFrame) -> Table:
    """A row for each reward model, then chance."""
    table, names = Table(), list(next(iter(found.values())).f1)
    for column in (
        "reward model on",
        *(f"{STEP_BENCHMARKS[name].label} F1" for name in names),
        "AUC",
        "without last steps",
    ):
        table.add_column(column)
    for other in (FLOOR, TO_BEAT):
        table.add_column(f"less {reward_label(other)}")
    for label, judge in found.items():
        apart = [judge.auc.minus(found[other].auc) for other in (FLOOR, TO_BEAT)]
        table.add_row(
            reward_label(label),
            *(shown(figure.estimate()) for figure in (*judge.f1.values(), judge.auc, judge.inner)),
            *(f"{shown(each)}, p {format_figure(each.p_value, 3) or '–'}" for each in apart),
        )
    guessed = (Estimate(*own) for own in chance.select("f1", "low", "high", "n", "units", "unit").iter_rows())
    table.add_row("Chance", *map(shown, guessed))
    return table


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile", help="as scripts/heads_on_solutions.py wrote it")
    parser.add_argument("home", type=Path)
    chosen = parser.parse_args()
    settings = load_settings(chosen.profile, chosen.home)
    problems = Lake.of(settings).read(PROBLEMS)
    subsets = [SUBSETS[name] for name in SUBSETS if name in problems["benchmark"]]
    chance = processbench_chance(problems, "official", settings.seed, subsets)
    Console(width=200).print(table_of(dict(figures_of_models(settings)), chance))


if __name__ == "__main__":
    main()
