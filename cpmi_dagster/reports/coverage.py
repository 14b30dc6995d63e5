"""Which of the paper's figures a profile measures, known from its settings alone, and which profiles do the others.

figure                              needs                                       measured by
merge_points, CPMI_Merge2, PB       a model of these labels; ProcessBench       miniature-all, paper
best_of_n, MC, GSM8K N=16           a model of these labels; 16 candidates      paper
processbench, MS*, Math             nothing that we have: the paper quotes it   –
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from cpmi_dagster.reports.artifacts import Artifact
from cpmi_dagster.reports.inputs import ReportInputs


@dataclass(frozen=True)
class Coverage:
    """What a profile has to measure figures with.

    Attributes:
        inputs: its recipes, its labeler and its number of hard negatives; without frames.
        reward_types: that it computes.
        benchmarks: that its reward models are judged on.
        candidates: sampled of each question.
    """

    profile: str
    inputs: ReportInputs
    reward_types: Collection[str]
    benchmarks: Collection[str]
    candidates: int

    def measures(self, artifact: Artifact, row: str, column: str) -> bool:
        """Whether it measures a figure that the paper has."""
        fed = artifact.row_named(row, self.inputs)
        if fed is None:
            return not artifact.rows
        tested = artifact.tested(column)
        if tested is None:
            return fed.reward_type in self.reward_types
        is_judged = tested.candidates <= self.candidates and set(tested.benchmarks) <= set(self.benchmarks)
        return is_judged and self.inputs.recipe_of(fed) is not None


class Unmeasured(NamedTuple):
    """How many figures are in all of some rows and columns of an artifact, and the profiles that measure them."""

    rows: str
    columns: str
    figures: int
    profiles: str


def unmeasured(artifact: Artifact, comparison: pl.DataFrame, shipped: Sequence[Coverage]) -> list[Unmeasured]:
    """The paper's figures that have none of ours beside them, rows with the same columns and profiles together.

    Args:
        comparison: rows of the artifact, as `tables.PaperComparison` has them.
        shipped: profiles that may measure them.
    """
    printed = comparison.drop_nulls("paper")
    by_row: dict[tuple[str, str], list[str]] = {}
    for row, column in printed.filter(pl.col("measured").is_null()).select("row", "column").iter_rows():
        profiles = ", ".join(each.profile for each in shipped if each.measures(artifact, row, column))
        by_row.setdefault((row, profiles), []).append(column)
    blocks: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for (row, profiles), columns in by_row.items():
        blocks.setdefault((tuple(columns), profiles), []).append(row)
    return [
        Unmeasured(
            _listed(rows, printed["row"], "every row"),
            _listed(columns, printed.filter(pl.col("row").is_in(rows))["column"], "every column"),
            len(rows) * len(columns),
            profiles,
        )
        for (columns, profiles), rows in blocks.items()
    ]


def _listed(names: Sequence[str], every: Iterable[str], words: str) -> str:
    """Names in their order; words for them where they are all there are."""
    return words if set(names) == set(every) else "; ".join(names)
