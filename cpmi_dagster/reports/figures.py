"""Figures: their inputs, what each measure says of a reward model or external judge, and figures as rows.

ReportInputs(frames={"benchmarks/best_of_n_choices": choices, ...}, recipes=settings.recipes, labeler="Qwen3-8B-Base")
first_error_scores(inputs, "cpmi_bce")["paper"]        ->  the figures of all subsets, with their resamples
("CPMI", "Label AUC", Estimate(0.791, 0.766, 0.815, n=2893, units=154))   row, column and figure of a table

A function that is marked `once` computes the first time it is asked; tables and differences select from that.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import polars as pl

from cpmi_dagster.answers.comparison import BUILT_IN, Comparison
from cpmi_dagster.benchmarks import prmbench, processbench
from cpmi_dagster.benchmarks.best_of_n import accuracies
from cpmi_dagster.benchmarks.metrics import (
    DISTRIBUTION_SUBSET,
    bootstrap_auc,
    bootstrap_wasserstein,
    scored_steps,
)
from cpmi_dagster.benchmarks.processbench import Scores
from cpmi_dagster.benchmarks.registry import PRMBENCH, SUBSETS
from cpmi_dagster.benchmarks.resampling import Estimate, Resampled, bootstrap_mean, is_left_out, too_few
from cpmi_dagster.contracts.keys import CHOICES, JUDGES, PRMBENCH_PREDICTIONS, PROBLEMS, PROCESSBENCH
from cpmi_dagster.contracts.tables import TABLES, columns_of
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.reports.paper import COMPARISON_SCHEMA, RecipeRow

Figure = tuple[str, str, Estimate]
"""Row, column, figure; labels are the paper's if it has them."""
Columns = Mapping[str, Mapping[str, Estimate]]
"""Figures by column, then by row."""
Options = ParamSpec("Options")
Value = TypeVar("Value")
JUDGED_IN: Mapping[str, Collection[str]] = {PROCESSBENCH: tuple(SUBSETS), PRMBENCH_PREDICTIONS: (PRMBENCH,)}
"""The benchmarks of a table of predictions."""
STEP_AUC, WASSERSTEIN = "ROC-AUC", "Wasserstein"
RIGHT_MEAN, WRONG_MEAN = "Right steps, mean", "Wrong steps, mean"
ABOVE, BELOW, UNCLEAR = "above", "below", "not distinguishable from"
"""Sides of a level, as `side_of` has them."""


@dataclass(frozen=True)
class ReportInputs:
    """Frames and settings that figures are measured from.

    Attributes:
        frames: frames by table key (`group/name`); a table that is absent counts as empty.
        labeler: name of the profile's labeler, for its rows in the table of labelers.
        negatives: M, hard negatives of a question.
        comparison: says which answers are the same.
        fewest_judged: right steps, and wrong ones, below which a truth counts as none.
        shards: by table key, reads the frames of a large table's shards one after another.
        computed: what functions marked `once` have returned, by function and arguments; a copy begins without it.
    """

    frames: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    recipes: tuple[Recipe, ...] = ()
    labeler: str = ""
    bootstrap_samples: int = 1000
    seed: int = 0
    negatives: int = 4
    comparison: Comparison = BUILT_IN
    fewest_judged: int = 0
    shards: Mapping[str, Callable[[], Iterator[pl.DataFrame]]] = field(default_factory=dict)
    computed: dict[tuple[Any, ...], Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def draws(self) -> tuple[int, int]:
        """Resamples and seed, as the functions that resample take them."""
        return self.bootstrap_samples, self.seed

    def table(self, key: str) -> pl.DataFrame:
        """The frame of a table; if it is absent, an empty one with its columns."""
        return self.frames[key] if key in self.frames else pl.DataFrame(schema=columns_of(TABLES[key]))

    def by_shard(self, key: str) -> Iterator[pl.DataFrame]:
        """The frames of a table's shards; those in `shards` are never in memory together."""
        return self.shards[key]() if key in self.shards else iter([self.table(key)])

    def recipe_of(self, row: RecipeRow) -> str | None:
        """The recipe that feeds a row, None if the profile has none."""
        wanted = (row.reward_type, row.objective)
        plain = (each.name for each in self.recipes if each.is_plain and (each.reward_type, each.objective) == wanted)
        return row.recipe or next(plain, None)

    def predictions(self, key: str, model: str) -> pl.DataFrame:
        """The rows of a recipe in a table by recipe, or of an external judge on the same benchmarks."""
        of_recipe = self.table(key).filter(recipe=model)
        if of_recipe.height or key not in JUDGED_IN:
            return of_recipe
        judged = self.table(JUDGES).filter(pl.col("judge") == model, pl.col("benchmark").is_in(JUDGED_IN[key]))
        return judged.select("benchmark", "problem_id", "step_index", "probability")

    def judges(self, benchmarks: Collection[str]) -> list[str]:
        """Every external judge that has judged some of these benchmarks, in the order of the table."""
        rows = self.table(JUDGES).filter(pl.col("benchmark").is_in(benchmarks))
        return rows["judge"].unique(maintain_order=True).to_list()


def once(
    measure: Callable[Concatenate[ReportInputs, Options], Value],
) -> Callable[Concatenate[ReportInputs, Options], Value]:
    """Make a function of inputs remember what it returns for them and its other arguments."""

    @wraps(measure)
    def remembered(inputs: ReportInputs, *args: Options.args, **options: Options.kwargs) -> Value:
        key = (measure, *args, *options.items())
        if key not in inputs.computed:
            inputs.computed[key] = measure(inputs, *args, **options)
        return inputs.computed[key]

    return remembered


@once
def first_error_scores(inputs: ReportInputs, model: str) -> Mapping[processbench.Protocol, Mapping[str, Scores]]:
    """ProcessBench by a recipe or judge: by protocol, then by subset; empty if it has judged none."""
    predictions = inputs.predictions(PROCESSBENCH, model)
    if predictions.is_empty():
        return {}
    subsets = subsets_in(predictions)
    return processbench.processbench_scores(predictions, inputs.table(PROBLEMS), *inputs.draws, subsets)


@once
def first_error_chance(inputs: ReportInputs, protocol: processbench.Protocol) -> Mapping[str, Scores]:
    """ProcessBench by random step scores, of the subsets that recipes have judged."""
    subsets = subsets_in(inputs.table(PROCESSBENCH))
    return processbench.processbench_chance(inputs.table(PROBLEMS), protocol, inputs.seed, subsets)


def subsets_in(predictions: pl.DataFrame) -> list[str]:
    """Short names of the subsets that predictions are about."""
    judged = set(predictions["benchmark"].unique())
    return [subset for benchmark, subset in SUBSETS.items() if benchmark in judged]


@once
def wrong_step_scores(inputs: ReportInputs, model: str) -> Mapping[prmbench.Protocol, prmbench.PrmScores]:
    """PRMBench by a recipe or judge, by protocol; empty if it has not judged it."""
    predictions = inputs.predictions(PRMBENCH_PREDICTIONS, model)
    if predictions.is_empty():
        return {}
    return prmbench.prmbench_scores(predictions, inputs.table(PROBLEMS), *inputs.draws)


@once
def wrong_step_chance(inputs: ReportInputs, protocol: prmbench.Protocol) -> Mapping[tuple[str, str], Resampled]:
    """PRMBench by random step scores, by level and name."""
    return prmbench.prmbench_chance(inputs.table(PROBLEMS), protocol, inputs.seed)


@once
def distribution_steps(inputs: ReportInputs, model: str) -> pl.DataFrame | None:
    """`scored_steps` of ProcessBench-Math by a recipe or judge; None if it has not judged it."""
    predictions = inputs.predictions(PROCESSBENCH, model)
    is_judged = DISTRIBUTION_SUBSET in predictions["benchmark"]
    return scored_steps(predictions, inputs.table(PROBLEMS)) if is_judged else None


@once
def distribution_figures(inputs: ReportInputs, model: str) -> Mapping[str, Resampled]:
    """How the scores of right and of wrong steps of ProcessBench-Math lie, by name; empty if it was not judged."""
    if (steps := distribution_steps(inputs, model)) is None:
        return {}
    columns = steps["probability"], steps["correct"], steps["question"]
    figures = {
        STEP_AUC: bootstrap_auc(*columns, *inputs.draws),
        WASSERSTEIN: bootstrap_wasserstein(*columns, *inputs.draws),
    }
    for correct, name in ((True, RIGHT_MEAN), (False, WRONG_MEAN)):
        chosen = steps.filter(correct=correct)
        figures[name] = bootstrap_mean(chosen["probability"], *inputs.draws, chosen["question"])
    return figures


@once
def best_of_n(inputs: ReportInputs, recipe: str, rule: str, benchmark: str) -> Mapping[int, Resampled]:
    """Share of the questions of a set that are answered rightly by the chosen candidate of N, by N."""
    chosen = inputs.predictions(CHOICES, recipe).filter(aggregation=rule, benchmark=benchmark)
    return accuracies(chosen, *inputs.draws)


def figure_frame(figures: Iterable[Figure]) -> pl.DataFrame:
    """Our figures as rows: row, column, measured, low, high, n, units, unit."""
    rows = [
        (row, column, each.value, each.low, each.high, each.n, each.units, None if each.units is None else each.unit)
        for row, column, each in figures
    ]
    columns = ("row", "column", "measured", "low", "high", "n", "units", "unit")
    schema = {column: COMPARISON_SCHEMA[column] for column in columns}
    return pl.DataFrame(rows, schema, orient="row").with_columns(pl.col("measured").fill_nan(None))


def figures_by_column(comparison: pl.DataFrame | None) -> Columns:
    """Our figures of a comparison by column, then by row; columns without a figure are empty."""
    columns: defaultdict[str, dict[str, Estimate]] = defaultdict(dict)
    if comparison is not None:
        names = ("column", "row", "measured", "low", "high", "n", "units", "unit")
        for column, row, *figure in comparison.drop_nulls("measured").select(names).iter_rows():
            columns[column][row] = Estimate(*figure)
    return columns


def side_of(figure: Estimate, level: float = 0) -> str:
    """The side of a level on which a figure's whole 95 % interval lies, `ABOVE` or `BELOW`, or `UNCLEAR`.

    From too few units it is said so: `too few (9 questions)`.
    """
    if few := too_few(figure.units, figure.unit):
        return few
    if figure.low is None or figure.high is None or figure.low <= level <= figure.high:
        return UNCLEAR
    return ABOVE if figure.value > level else BELOW


def compare(difference: Estimate, other: str, decimals: int) -> str:
    """A difference in words: `is 0.09 [0.04, 0.15; n=40] above that of MC`."""
    side = side_of(difference)
    if side in (ABOVE, BELOW):
        return f"is {format_estimate(difference.through(abs), decimals)} {side} {other}"
    if side == UNCLEAR:
        return f"is {side} {other}, with a difference of {format_estimate(difference, decimals)}"
    return f"cannot be compared with {other}: {side}"


def unless_few(figure: Estimate | None) -> Estimate | None:
    """A figure that people are shown; None if it is of too few questions."""
    return None if figure is None or is_left_out(figure.units, figure.unit) else figure


def format_figure(figure: float | None, decimals: int | None = None) -> str:
    """A figure with fixed decimals, or with three significant digits; empty for null."""
    if figure is None:
        return ""
    if decimals is None:
        decimals = 0 if abs(figure) >= 100 else 1 if abs(figure) >= 10 else 2 if abs(figure) >= 1 else 3
    return f"{round(figure, decimals) + 0.0:,.{decimals}f}".replace("-", "−")  # + 0.0: no minus before a zero


def format_interval(figure: Mapping[str, Any], decimals: int | None = None) -> str:
    """`[31.0, 38.1; n=96]`, n of what is resampled; without an interval `too few (1 question)` or nothing.

    Args:
        figure: a row with low, high, units and unit.
    """
    low, high, units, unit = (figure[name] for name in ("low", "high", "units", "unit"))
    if low is None or high is None:
        return too_few(units, unit)
    count = "" if units is None else f"; n={units:,}"
    return f"[{format_figure(low, decimals)}, {format_figure(high, decimals)}{count}]"


def format_estimate(figure: Estimate, decimals: int | None = None) -> str:
    """A figure and its interval: `34.6 [31.0, 38.1; n=96]`; of too few questions only `too few (1 question)`."""
    value = "" if is_left_out(figure.units, figure.unit) else format_figure(figure.value, decimals)
    return f"{value} {format_interval(asdict(figure), decimals)}".strip()
