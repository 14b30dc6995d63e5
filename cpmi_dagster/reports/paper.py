"""The paper's own figures, read from `paper.yaml`, and how figures and their labels are written.

    processbench:
      label: tab:pb
      title: ProcessBench, F1 of finding the first wrong step
      columns: {GSM8K: 1, Math: 1, Olympiad: 1, Omni: 1, Average: 1}      # decimals as printed
      rows:
        MC:  [35.2, 38.8, 17.9, 18.9, 27.7]

becomes five rows of `tables.PaperComparison` with `measured` null.
"""

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib import resources
from typing import Any

import polars as pl
import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

from cpmi_dagster.benchmarks.resampling import Estimate, is_left_out, too_few
from cpmi_dagster.contracts.report_tables import ARTIFACT_TITLES, PaperComparison

PROTOCOL_SUFFIXES = (" (official)", " (released)", " (best)", " (fixed)", " (cross-fitted)")
"""Suffixes of rows and columns: ProcessBench's own protocol; the rule of the authors' code, which PRMBench's rows
follow without a suffix; the threshold with the best PRMScore; the threshold 0.5; each half of the questions judged by
the choice on the other."""
OFFICIAL, RELEASED, BEST, FIXED, CROSS_FITTED = PROTOCOL_SUFFIXES
P_VALUE, ADJUSTED_P_VALUE = " p", " p (Holm)"
"""Suffixes of columns of p-values; the second are adjusted for the number of tests."""
SIGNIFICANT = 0.05
DIFFERENCE = " − "
"""Part of the label of a row or column that is one figure minus another."""
DIFFERENCE_COLUMN = "Difference"
"""Prefix of columns of differences."""

COMPARISON_SCHEMA = PaperComparison.create_empty().schema


class PaperTable(BaseModel):
    """One table or figure of the paper; `label` is null for those that only our report has.

    Attributes:
        label: LaTeX label in the paper.
        columns: decimals each column is printed with.
        own_columns: decimals of columns that the paper's table lacks.
        other_columns: decimals of columns that neither names, such as those of a benchmark that is added.
        counted: what the n of our figures counts, in words; empty if they count different things.
        rows: figures by row label, in the order of `columns`.
        note: what a reader must know of the figures.
        paper_note: what they must know besides to compare them with the paper's.
        plot: caption of the report's plot.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: str | None
    title: str
    columns: dict[str, int]
    own_columns: dict[str, int] = {}
    other_columns: int | None = None
    counted: str = "problems, steps or trajectories"
    rows: dict[str, list[float | None]]
    note: str = ""
    paper_note: str = ""
    plot: str = ""

    def decimals(self, column: str) -> int | None:
        """Decimals a column is shown with; a column of another protocol has those of its namesake."""
        return {**self.columns, **self.own_columns}.get(without_protocol(column), self.other_columns)


def without_protocol(name: str) -> str:
    """A row or column label without the suffix that names its protocol: `PB (official)` -> `PB`."""
    suffix = next((suffix for suffix in PROTOCOL_SUFFIXES if name.endswith(suffix)), "")
    return name.removesuffix(suffix)


@cache
def load_paper_tables() -> dict[str, PaperTable]:
    """The tables of the shipped `paper.yaml`, by artifact name, in its order."""
    written = yaml.safe_load(shipped_text("paper.yaml"))
    titled = {name: {"title": ARTIFACT_TITLES[name], **table} for name, table in written.items()}
    return TypeAdapter(dict[str, PaperTable]).validate_python(titled)


def shipped_text(name: str) -> str:
    """A file that is shipped next to this module."""
    return resources.files("cpmi_dagster.reports").joinpath(name).read_text(encoding="utf-8")


def paper_figures(artifact: str, profile: str) -> pl.DataFrame:
    """The paper's figures of one artifact as rows of `tables.PaperComparison`, nothing measured."""
    table = load_paper_tables()[artifact]
    figures = [
        {"artifact": artifact, "row": row, "column": column, "paper": figure, "profile": profile}
        for row, figures in table.rows.items()
        for column, figure in zip(table.columns, figures, strict=True)
        if figure is not None
    ]
    return pl.DataFrame(figures, schema=COMPARISON_SCHEMA)


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
