"""The paper's own figures, read from `paper.yaml`: one entry per table or figure.

    processbench:
      label: tab:pb
      title: ProcessBench, F1 of finding the first wrong step
      columns: {GSM8K: 1, Math: 1, Olympiad: 1, Omni: 1, Average: 1}      # decimals as printed
      rows:
        MC:  [35.2, 38.8, 17.9, 18.9, 27.7]

becomes five rows of `tables.PaperComparison` with `measured` null.
"""

from functools import cache
from importlib import resources
from typing import Literal

import polars as pl
import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from cpmi_dagster.contracts.report_tables import PaperComparison
from cpmi_dagster.errors import SourceError, first_complaint

OFFICIAL = " (official)"
"""Suffix of rows and columns that follow ProcessBench's own protocol."""
RELEASED = " (released)"
"""Suffix of ProcessBench's rows by the rule of the authors' code; PRMBench's follow it without a suffix."""
BEST = " (best)"
"""Suffix of PRMBench's rows and columns at the threshold with the best PRMScore."""
FIXED = " (fixed)"
"""Suffix of rows at the threshold 0.5."""
CROSS_FITTED = " (cross-fitted)"
"""Suffix of columns where each half of the questions is judged by what was chosen on the other."""
PROTOCOL_SUFFIXES = (OFFICIAL, RELEASED, BEST, FIXED, CROSS_FITTED)

COMPARISON_SCHEMA = PaperComparison.create_empty().schema


class PaperTable(BaseModel):
    """One table or figure of the paper; `label` is null for those that only our report has.

    Attributes:
        artifact: name of the asset that compares it with our figures.
        label: LaTeX label in the paper.
        columns: decimals each column is printed with.
        own_columns: decimals of columns that the paper's table lacks.
        other_columns: decimals of columns that neither names, such as those of a benchmark that is added.
        rows: figures by row label, in the order of `columns`.
        note: what a reader must know to compare the two.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    artifact: str
    label: str | None
    title: str
    kind: Literal["table", "figure"] = "table"
    columns: dict[str, int]
    own_columns: dict[str, int] = {}
    other_columns: int | None = None
    rows: dict[str, list[float | None]]
    note: str = ""

    def decimals(self, column: str) -> int | None:
        """Decimals a column is shown with; a column of another protocol has those of its namesake."""
        return {**self.columns, **self.own_columns}.get(without_protocol(column), self.other_columns)

    @model_validator(mode="after")
    def _rows_fit_the_columns(self) -> "PaperTable":
        for row, figures in self.rows.items():
            if len(figures) != len(self.columns):
                raise ValueError(f"row `{row}` has {len(figures)} figures for {len(self.columns)} columns")
        return self


def without_protocol(name: str) -> str:
    """A row or column label without the suffix that names its protocol: `PB (official)` -> `PB`."""
    suffix = next((suffix for suffix in PROTOCOL_SUFFIXES if name.endswith(suffix)), "")
    return name.removesuffix(suffix)


def parse_paper_tables(text: str) -> dict[str, PaperTable]:
    """The tables by artifact name, from YAML as in `paper.yaml`, in its order.

    Raises:
        SourceError: the text is not such a mapping, or a row does not fit its columns; names the artifact.
    """
    entries = yaml.safe_load(text)
    if not isinstance(entries, dict):
        raise SourceError("the paper's figures must be a mapping of artifact name to table; see `reports/paper.yaml`")
    return {artifact: _parse_table(artifact, entry) for artifact, entry in entries.items()}


@cache
def load_paper_tables() -> dict[str, PaperTable]:
    """The tables of the shipped `paper.yaml`, by artifact name."""
    return parse_paper_tables(shipped_text("paper.yaml"))


def shipped_text(name: str) -> str:
    """A file that is shipped next to this module."""
    return resources.files("cpmi_dagster.reports").joinpath(name).read_text(encoding="utf-8")


def paper_figures(table: PaperTable, profile: str) -> pl.DataFrame:
    """The paper's figures as rows of `tables.PaperComparison`, nothing measured.

    Returns:
        One row per printed figure; `measured`, `low`, `high` and `n` are null.
    """
    figures = [
        {"artifact": table.artifact, "row": row, "column": column, "paper": figure, "profile": profile}
        for row, figures in table.rows.items()
        for column, figure in zip(table.columns, figures, strict=True)
        if figure is not None
    ]
    return pl.DataFrame(figures, schema=COMPARISON_SCHEMA)


def _parse_table(artifact: str, entry: object) -> PaperTable:
    if not isinstance(entry, dict):
        raise SourceError(f"artifact `{artifact}` of the paper's figures must be a mapping with columns and rows")
    try:
        return PaperTable.model_validate({"artifact": artifact, **entry})
    except ValidationError as error:
        wrong = first_complaint(error)
        raise SourceError(
            f"artifact `{artifact}` of the paper's figures: {wrong.place} {wrong.reason}; correct it"
        ) from error
