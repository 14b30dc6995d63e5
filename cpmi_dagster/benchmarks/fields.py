"""Reading the fields of a benchmark's rows, with an error that names the benchmark, the row and the field.

    required("math500", rows, problem=pl.String(), answer=pl.String())

gives a frame of exactly those two columns, or: benchmark `math500`, row 3: the field `answer` is missing; ….
"""

from typing import Any

import polars as pl

from cpmi_dagster.errors import BenchmarkError, SourceError


def required(benchmark: str, rows: pl.DataFrame, **fields: pl.DataType) -> pl.DataFrame:
    """The named fields of every row, cast to their types.

    Args:
        benchmark: name used in errors.
        **fields: polars type of each field.

    Returns:
        One column per field, in the order given, without nulls (nor null list items).

    Raises:
        BenchmarkError: there are no rows.
        SourceError: a field is missing, null or of another type.
    """
    if rows.is_empty():
        raise BenchmarkError(f"benchmark `{benchmark}` has no rows; check its source and split")
    columns = []
    for name, kind in fields.items():
        if name not in rows.columns:
            has = ", ".join(rows.columns)
            raise SourceError(f"benchmark `{benchmark}`, row 0: the field `{name}` is missing; the source has {has}")
        try:
            column = rows[name].cast(kind, strict=False)
        except pl.exceptions.InvalidOperationError as error:
            raise SourceError(
                f"benchmark `{benchmark}`: the field `{name}` is {rows[name].dtype}, not {kind}; check the source"
            ) from error
        missing = pl.col(name).is_null()
        if kind == pl.List:
            missing |= pl.col(name).list.eval(pl.element().is_null()).list.any()
        complaint = f"the field `{name}` is missing or is not {kind}; correct or remove the row"
        reject_rows(benchmark, column.to_frame(), missing, complaint)
        columns.append(column)
    return pl.DataFrame(columns)


def reject_rows(benchmark: str, rows: pl.DataFrame, wrong: pl.Expr, complaint: str) -> None:
    """Refuse rows for which `wrong` holds or is null.

    Raises:
        SourceError: names the benchmark, the first such row and the `complaint`.
    """
    bad = rows.select(wrong.fill_null(True).arg_true()).to_series()
    if len(bad):
        raise SourceError(f"benchmark `{benchmark}`, row {bad[0]}: {complaint}")


def first_row(wrong: pl.DataFrame) -> dict[str, Any] | None:
    """The first of some rows that an error is about; None if there are none."""
    return None if wrong.is_empty() else wrong.row(0, named=True)
