"""ProcessBench, PRMBench, the distribution of step scores, and best-of-N: a row per reward type or external judge.

ProcessBench   row "CPMI"             the paper's protocol: threshold best on each subset
               row "CPMI (official)"  the benchmark's protocol: one threshold, the one best on GSM8K
               row "CPMI (released)"  the authors' code: threshold, patience and sign best on GSM8K
PRMBench       row "CPMI"             the authors' code: the threshold with the best F1 of wrong steps
               row "CPMI (best)"      the threshold with the best PRMScore
both           row "CPMI (fixed)"     the threshold 0.5
               row "My judge"         an external judge of the profile, on the benchmarks it has judged
               row "Chance"           uniform random scores, by each protocol
best-of-N      row "CPMI"             the candidate with the highest mean step reward wins, the paper's rule
               row "CPMI, min"        another way to weigh a candidate's steps
               row "Majority vote"    needs no reward model; so do Pass@1 (a blind pick) and Pass@N (the best there is)

`evaluate` gives the same figures of one judge, for `cpmi evaluate`:

    benchmark     protocol  figure    value  low   high  n    units  unit
    ProcessBench  paper     GSM8K F1  47.9   42.1  53.0  200  96     question
    PRMBench      released  NR        41.2   39.9  42.4  380  380    question

Shares are in percent, with 95 % intervals over questions; AUC, Wasserstein and means are in [0, 1].
"""

from collections.abc import Iterator, Mapping
from functools import partial

import polars as pl

from cpmi_dagster.benchmarks import prmbench, processbench
from cpmi_dagster.benchmarks.metrics import CHANCE_AUC, chance_wasserstein
from cpmi_dagster.benchmarks.predictions import PlacedLine, external_predictions
from cpmi_dagster.benchmarks.prmbench import OVERALL
from cpmi_dagster.benchmarks.prmbench import Protocol as PrmProtocol
from cpmi_dagster.benchmarks.processbench import AVERAGE, Protocol
from cpmi_dagster.benchmarks.registry import AVERAGED_BENCHMARKS, STEP_BENCHMARKS, SUBSETS, question_set_labels
from cpmi_dagster.benchmarks.resampling import Estimate, Resampled
from cpmi_dagster.contracts.keys import CHOICES, JUDGES, PRMBENCH_PREDICTIONS, PROBLEMS, PROCESSBENCH
from cpmi_dagster.reports.figures import (
    JUDGED_IN,
    RIGHT_MEAN,
    STEP_AUC,
    WASSERSTEIN,
    WRONG_MEAN,
    Figure,
    ReportInputs,
    best_of_n,
    distribution_figures,
    distribution_steps,
    figure_frame,
    figures_by_column,
    first_error_chance,
    first_error_scores,
    format_estimate,
    side_of,
    wrong_step_chance,
    wrong_step_scores,
)
from cpmi_dagster.reports.models import BLIND_RULE, DEFAULT_RULE
from cpmi_dagster.reports.paper import (
    BEST,
    CHANCE_ROW,
    CROSS_FITTED,
    FIXED,
    FLAG_NOTHING_ROW,
    OFFICIAL,
    RELEASED,
    load_paper_tables,
    main_rows,
)

SUBSET_COLUMNS = {**{subset: STEP_BENCHMARKS[name].label for name, subset in SUBSETS.items()}, AVERAGE: "Average"}
PROTOCOLS: dict[Protocol, str] = {"paper": "", "official": OFFICIAL, "released": RELEASED, "fixed": FIXED}
PRM_PROTOCOLS: dict[PrmProtocol, str] = {"released": "", "best": BEST, "fixed": FIXED}
"""Suffix of the rows of each protocol; rows without one stand beside the paper's figures."""
PRM_TOTALS = {"group": "Total", "category": "Overall"}
"""Column of the overall PRMScore, beside the groups and beside the categories."""
OTHER_RULES = {"min": "min", "last": "last", "product": "product", "weighted_vote": "weighted vote"}
BOUNDS = {BLIND_RULE: "Pass@1", "majority": "Majority vote", "pass_at_n": "Pass@N"}


def _models(inputs: ReportInputs, key: str) -> dict[str, str]:
    """Every recipe that has predictions in a table, by the label of its row."""
    recipes = {row.row: recipe for row in main_rows(inputs.recipes) if (recipe := inputs.recipe_of(row))}
    asked = set(inputs.table(key)["recipe"].unique())
    return {row: recipe for row, recipe in recipes.items() if recipe in asked}


def _and_judges(inputs: ReportInputs, key: str, models: dict[str, str]) -> dict[str, str]:
    """Models, then the external judges on the benchmarks of a table."""
    return models | {judge: judge for judge in inputs.judges(JUDGED_IN[key])}


def distribution_models(inputs: ReportInputs) -> dict[str, str]:
    """Every recipe and judge that has judged ProcessBench-Math, by the label of its row."""
    models = _and_judges(inputs, PROCESSBENCH, _models(inputs, PROCESSBENCH))
    return {row: model for row, model in models.items() if distribution_steps(inputs, model) is not None}


def measure_distribution(inputs: ReportInputs) -> Iterator[Figure]:
    """ROC-AUC and 1-Wasserstein distance on ProcessBench-Math."""
    models = distribution_models(inputs)
    for row, model in models.items():
        for column in (STEP_AUC, WASSERSTEIN):
            yield row, column, distribution_figures(inputs, model)[column].estimate()
    if models:
        yield CHANCE_ROW, STEP_AUC, Estimate(CHANCE_AUC)
        yield CHANCE_ROW, WASSERSTEIN, chance_wasserstein(inputs.table(PROBLEMS), inputs.seed).estimate()


def against_chance(distribution: pl.DataFrame) -> dict[str, tuple[Estimate, str]]:
    """The step AUC of each reward model, and its side of chance; from the lowest, without those of too few questions.

    Args:
        distribution: comparison of the artifact `distribution`.
    """
    aucs = figures_by_column(distribution)[STEP_AUC]
    models = ((row, auc, side_of(auc, CHANCE_AUC)) for row, auc in aucs.items() if auc.low is not None)
    return {row: (auc, side) for row, auc, side in sorted(models, key=lambda each: each[1].value)}


def measure_score_means(inputs: ReportInputs) -> Iterator[Figure]:
    """Mean scores of right and of wrong steps on ProcessBench-Math, resampled over questions."""
    for row, model in distribution_models(inputs).items():
        for column in (RIGHT_MEAN, WRONG_MEAN):
            yield row, column, distribution_figures(inputs, model)[column].estimate()


def measure_processbench(inputs: ReportInputs, *, detailed: bool = False) -> Iterator[Figure]:
    """F1 of every subset and their mean, with Err and Corr if detailed, under every protocol.

    Of every recipe and judge, and of chance if recipes are measured. A recipe without predictions for one of the
    paper's subsets has no rows, a judge those of the subsets it has judged.
    """
    benchmarks = inputs.table(PROCESSBENCH).select("recipe", "benchmark").unique()
    models = {
        row: recipe
        for row, recipe in _models(inputs, PROCESSBENCH).items()
        if set(AVERAGED_BENCHMARKS) <= set(benchmarks.filter(recipe=recipe)["benchmark"])
    }
    for protocol, suffix in PROTOCOLS.items():
        scores = {
            row: first_error_scores(inputs, model).get(protocol, {})
            for row, model in _and_judges(inputs, PROCESSBENCH, models).items()
        }
        if models:
            scores[CHANCE_ROW] = first_error_chance(inputs, protocol)
        for row, of_subsets in scores.items():
            for subset, score in of_subsets.items():
                is_refitted = subset == processbench.CROSS_FITTED
                column = SUBSET_COLUMNS[AVERAGE if is_refitted else subset]
                is_detailed = detailed and column != SUBSET_COLUMNS[AVERAGE]
                headings = {"err": f"{column} Err", "cor": f"{column} Corr"} if is_detailed else {}
                f1 = f"{column} F1" if detailed else column
                headings["f1"] = f1 + CROSS_FITTED if is_refitted else f1
                for name, heading in headings.items():
                    yield row + suffix, heading, score.resampled(name).estimate().scaled(100)


def measure_prmbench(inputs: ReportInputs, level: str = "category") -> Iterator[Figure]:
    """PRMScore overall and of the nine categories, or of the three groups."""
    columns: dict[str, str] = {OVERALL: PRM_TOTALS[level], prmbench.CROSS_FITTED: PRM_TOTALS[level] + CROSS_FITTED}
    models, problems = _models(inputs, PRMBENCH_PREDICTIONS), inputs.table(PROBLEMS)
    tables: dict[str, Mapping[tuple[str, str], Resampled]] = {}
    for protocol, suffix in PRM_PROTOCOLS.items():
        for row, model in _and_judges(inputs, PRMBENCH_PREDICTIONS, models).items():
            tables[row + suffix] = wrong_step_scores(inputs, model)[protocol].figures
        if models:
            tables[CHANCE_ROW + suffix] = wrong_step_chance(inputs, protocol)
    if models:
        scores = prmbench.prmbench_scores(1.0, problems, *inputs.draws, ["fixed"])  # flags nothing
        tables[FLAG_NOTHING_ROW] = scores["fixed"].figures
    for row, figures in tables.items():
        for (of_level, name), figure in figures.items():
            if of_level in (level, "overall"):
                yield row, columns.get(name, name), figure.estimate().scaled(100)


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


EVALUATED = {
    "processbench_detailed": ("ProcessBench", partial(measure_processbench, detailed=True), PROTOCOLS),
    "distribution": ("ProcessBench-Math", measure_distribution, {}),
    "distribution_figure": ("ProcessBench-Math", measure_score_means, {}),
    "prmbench_detailed": ("PRMBench", measure_prmbench, PRM_PROTOCOLS),
    "prmbench": ("PRMBench", partial(measure_prmbench, level="group"), PRM_PROTOCOLS),
}
"""By artifact: the benchmark that `evaluate` names, its measure, and the suffix of rows by protocol."""


def evaluate(
    name: str, lines: list[PlacedLine], problems: pl.DataFrame, bootstrap_samples: int, seed: int
) -> pl.DataFrame:
    """The figures of one judge on every benchmark it covers.

    Returns:
        judge, benchmark, protocol (null if no threshold is involved; `chance` is a random judge), figure, value,
        low, high, n, units, unit.

    Raises:
        BenchmarkError: the lines do not fit the problems; the message names the line.
    """
    predictions = external_predictions(lines, problems).select(pl.lit(name).alias("judge"), pl.all())
    inputs = ReportInputs({PROBLEMS: problems, JUDGES: predictions}, bootstrap_samples=bootstrap_samples, seed=seed)
    figures = []
    for benchmark, measure, suffixes in EVALUATED.values():
        protocols = {CHANCE_ROW: "chance", **{name + suffix: protocol for protocol, suffix in suffixes.items()}}
        protocol = pl.col("row").replace_strict(protocols, default=None, return_dtype=pl.String)
        renamed = figure_frame(measure(inputs)).rename({"column": "figure", "measured": "value"})
        named = renamed.with_columns(judge=pl.lit(name), benchmark=pl.lit(benchmark), protocol=protocol)
        figures.append(
            named.select("judge", "benchmark", "protocol", pl.exclude("row", "judge", "benchmark", "protocol"))
        )
    if any(line.is_decision for _, line, _ in lines):  # nothing of a decision is left to choose
        figures = [
            each.filter(pl.col("protocol").is_null() | pl.col("protocol").is_in(["fixed", "chance"]))
            for each in figures
        ]
    # the total beside the groups is the overall score beside the categories
    return pl.concat(figures).filter(~pl.col("figure").str.starts_with(PRM_TOTALS["group"]))


def readable(figures: pl.DataFrame) -> pl.DataFrame:
    """Figures of `evaluate` for people: `47.9 [42.1, 53.0; n=96]`, with the decimals of the paper's tables."""
    tables = load_paper_tables()
    shown = []
    for row in figures.iter_rows(named=True):
        of_benchmark = (tables[artifact] for artifact, (name, *_) in EVALUATED.items() if name == row["benchmark"])
        decimals = (table.decimals(row["figure"]) for table in of_benchmark)
        places = next((each for each in decimals if each is not None), 1)
        names = ("value", "low", "high", "n", "units", "unit")
        shown.append(format_estimate(Estimate(*(row[name] for name in names)), places))
    return figures.select("benchmark", "protocol", "figure", pl.Series("value", shown, pl.String))
