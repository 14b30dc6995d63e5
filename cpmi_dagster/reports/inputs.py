"""Inputs of the report's figures, and figures as rows.

ReportInputs(frames={"benchmarks/best_of_n_choices": choices, ...}, recipes=settings.recipes, labeler="Qwen3-8B-Base")
("CPMI", "Label AUC", Estimate(0.791, 0.766, 0.815, n=2893, units=154))   row, column and figure of a table
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from cpmi_dagster.answers.comparison import BUILT_IN, Comparison
from cpmi_dagster.benchmarks.resampling import Estimate
from cpmi_dagster.contracts.keys import JUDGES
from cpmi_dagster.contracts.tables import TABLES, columns_of
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.reports.paper import COMPARISON_SCHEMA
from cpmi_dagster.reports.reward_rows import RecipeRow

Figure = tuple[str, str, Estimate]
"""Row, column, figure; labels are the paper's if it has them."""


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
        return [(str(name), judgement) for (name,), judgement in by_judge.items()]


def figure_frame(figures: Iterable[Figure]) -> pl.DataFrame:
    """Our figures as rows: row, column, measured, low, high, n, units, unit."""
    rows = [
        (row, column, each.value, each.low, each.high, each.n, each.units, None if each.units is None else each.unit)
        for row, column, each in figures
    ]
    columns = ("row", "column", "measured", "low", "high", "n", "units", "unit")
    schema = {column: COMPARISON_SCHEMA[column] for column in columns}
    return pl.DataFrame(rows, schema, orient="row").with_columns(pl.col("measured").fill_nan(None))


def figures_by_column(comparison: pl.DataFrame | None) -> Mapping[str, dict[str, Estimate]]:
    """Our figures of a comparison by column, then by row; columns without a figure are empty."""
    columns: defaultdict[str, dict[str, Estimate]] = defaultdict(dict)
    if comparison is not None:
        names = ("column", "row", "measured", "low", "high", "n", "units", "unit")
        for column, row, *figure in comparison.drop_nulls("measured").select(names).iter_rows():
            columns[column][row] = Estimate(*figure)
    return columns


def percent(row: Mapping[str, Any], figure: str, prefix: str = "") -> Estimate:
    """A row's share in percent, with its interval in the columns `low` and so on behind the prefix."""
    others = (row[f"{prefix}{name}"] for name in ("low", "high", "n", "units", "unit"))
    return Estimate(row[figure], *others).scaled(100)
