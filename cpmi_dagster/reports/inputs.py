"""What the tables and figures are measured from, and what a measurement is.

ReportInputs(frames={"benchmarks/best_of_n_choices": choices, ...}, recipes=settings.recipes, labeler="Qwen3-8B-Base")
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl

from cpmi_dagster.answers.comparison import BUILT_IN, Comparison
from cpmi_dagster.benchmarks.resampling import Difference, Estimate
from cpmi_dagster.contracts.keys import JUDGES
from cpmi_dagster.contracts.tables import TABLES, columns_of
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.reports.paper import COMPARISON_SCHEMA
from cpmi_dagster.reports.reward_rows import RecipeRow


class Measurement(NamedTuple):
    """One measured figure with its 95 % interval.

    Attributes:
        row: row label, as in the paper where it has the row.
        column: column label, likewise.
        measured: None for a p-value that too few units do not give.
        low: lower end of the interval; None where there is none.
        n: number of problems, steps or trajectories.
        units: how many of `unit` are resampled; None where nothing is.
    """

    row: str
    column: str
    measured: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    units: int | None = None
    unit: str | None = None


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

    @property
    def draws(self) -> tuple[int, int]:
        """Resamples and seed, as the functions that resample take them."""
        return self.bootstrap_samples, self.seed

    def table(self, key: str) -> pl.DataFrame:
        """The frame of a table, empty with its columns where it is absent."""
        return self.frames[key] if key in self.frames else pl.DataFrame(schema=columns_of(TABLES[key]))

    def by_shard(self, key: str) -> Iterator[pl.DataFrame]:
        """The frames of a table's shards; those in `shards` are never in memory together."""
        return self.shards[key]() if key in self.shards else iter([self.table(key)])

    def recipe_of(self, row: RecipeRow) -> str | None:
        """The recipe that feeds a row, None where the profile has none."""
        wanted = (row.reward_type, row.objective)
        plain = (each.name for each in self.recipes if each.is_plain and (each.reward_type, each.objective) == wanted)
        return row.recipe or next(plain, None)

    def predictions(self, key: str, recipe: str) -> pl.DataFrame:
        """The rows of one recipe in a table that is partitioned by recipe."""
        return self.table(key).filter(pl.col("recipe") == recipe)

    def judged(self, benchmarks: Collection[str]) -> list[tuple[str, pl.DataFrame]]:
        """Every external judge that has judged some of these benchmarks, with its predictions for them.

        Returns:
            Row label, then benchmark, problem_id, step_index, probability; in the order of the table.
        """
        rows = self.table(JUDGES).filter(pl.col("benchmark").is_in(benchmarks))
        by_judge = rows.select("judge", "benchmark", "problem_id", "step_index", "probability").partition_by(
            "judge", as_dict=True, include_key=False
        )
        return [(str(name), said) for (name,), said in by_judge.items()]


def measurement(row: str, column: str, figure: Estimate) -> Measurement:
    """An estimate in its cell of a table."""
    units, unit = (None, None) if figure.units is None else (figure.units, figure.unit)
    return Measurement(row, column, figure.value, figure.low, figure.high, figure.n, units, unit)


def p_value(row: str, column: str, value: float | None, difference: Difference) -> Measurement:
    """A p-value of a difference in its cell of a table."""
    return measurement(row, column, difference)._replace(measured=value, low=None, high=None)


def measured_frame(measurements: Iterable[Measurement]) -> pl.DataFrame:
    """Measurements as a frame, one row each, with the columns of `Measurement`."""
    schema = {column: COMPARISON_SCHEMA[column] for column in Measurement._fields}
    return pl.DataFrame(list(measurements), schema=schema, orient="row")
