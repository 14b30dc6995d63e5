"""Rows given from Python, with values of numpy, pandas and polars, checked one by one.

[{"question": "1 + 1?", "solution": "1 + 1 = 2.", "gold_answer": np.int64(2)}]
-> id  question  steps           gold_answer
   0   1 + 1?    ["1 + 1 = 2."]  2

[{"question": "1 + 1?", "steps": [b"2"]}]  ->  row 1 of the trajectories: `steps.0`: it must be text
"""

from collections.abc import Mapping
from typing import Annotated, Any

import polars as pl
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from cpmi_dagster.answers.gold import answer_text
from cpmi_dagster.errors import ScoringError, first_complaint, first_line
from cpmi_dagster.files.text import Identifier, Text
from cpmi_dagster.trajectories.chats import QuestionText
from cpmi_dagster.trajectories.fields import name_in
from cpmi_dagster.trajectories.form_readers import GOLD_ANSWER
from cpmi_dagster.trajectories.rows import with_steps

PRMBENCH_ID = ("idx", "classification")
GivenAnswer = Annotated[Text, BeforeValidator(answer_text)]

INPUT_COLUMNS: dict[str, pl.DataType] = {
    "id": pl.String(),
    "question": pl.String(),
    "steps": pl.List(pl.String()),
    "gold_answer": pl.String(),
    "negative_answers": pl.List(pl.String()),
}


class GivenRow(BaseModel):
    """A row as given from Python; missing columns are found later, in the frame of all rows."""

    model_config = ConfigDict(strict=True)

    id: Identifier | None = None
    question: QuestionText | None = None
    steps: list[Text] | None = None
    gold_answer: GivenAnswer | None = None
    negative_answers: list[GivenAnswer] | None = None


def as_frame(trajectories: Any) -> pl.DataFrame:
    """Trajectories as a polars frame; chats and texts are split into steps.

    Without a column `id`, rows are numbered from 0, except for those of PRMBench.

    Args:
        trajectories: a list of dicts, a pandas or polars frame, or a `datasets.Dataset`.

    Raises:
        ScoringError: it is no table, or a row is wrong or cannot be split; the message names the row.
    """
    given = trajectories.to_polars() if hasattr(trajectories, "to_polars") else trajectories
    if isinstance(given, pl.DataFrame) and "steps" in given.columns and not given["steps"].null_count():
        has_id = "id" in given.columns or set(PRMBENCH_ID) <= set(given.columns)
        there = [name for name in GOLD_ANSWER.split("|") if name in given.columns and given[name].count()]
        named = given.with_columns(gold_answer=pl.col(there[0])) if there else given
        return named if has_id else named.with_row_index("id")
    rows = [_rename_gold_answer(row) for row in given_rows(given)]
    checked = [_check_row(number, row) for number, row in enumerate(rows)]
    columns = {
        name: pl.Series([getattr(row, name) for row in checked], dtype=dtype, strict=name != "id")
        for name, dtype in INPUT_COLUMNS.items()
        if any(name in row for row in rows)
    }
    return pl.DataFrame(columns)


def given_rows(trajectories: Any) -> list[dict[str, Any]]:
    """Rows of plain values with all their fields, unchecked; arguments and errors as of `as_frame`."""
    split = [_with_steps(number, row) for number, row in enumerate(table_rows(trajectories))]
    names = set().union(*split)
    has_id = "id" in names or set(PRMBENCH_ID) <= names
    return split if has_id else [{**row, "id": number} for number, row in enumerate(split)]


def table_rows(table: Any) -> list[dict[str, Any]]:
    """Rows as they came, of plain values; a `ScoringError` if it is no table."""
    given = table.to_polars() if hasattr(table, "to_polars") else table
    try:
        if hasattr(given, "notna"):  # pandas, which has no null but NaN
            rows = given.astype(object).where(given.notna(), None).to_dict("records")
        elif isinstance(given, list | tuple) and all(isinstance(row, Mapping) for row in given):
            rows = given
        else:
            rows = pl.DataFrame(given, infer_schema_length=None).to_dicts()
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise ScoringError(
            f"the trajectories are no table ({first_line(error)}); give a list of dicts, a pandas or polars frame, or "
            "a datasets.Dataset"
        ) from error
    return [to_plain(row) for row in rows]


def to_plain(value: Any) -> Any:
    """Convert values of numpy, pandas and polars to plain ones, also within lists and mappings."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    elif isinstance(value, pl.Series):
        value = value.to_list()
    if isinstance(value, Mapping):
        return {name: to_plain(inner) for name, inner in value.items()}
    return [to_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _rename_gold_answer(row: Mapping[str, Any]) -> dict[str, Any]:
    """Rename the field of the gold answer to `gold_answer`."""
    gold = name_in(row, GOLD_ANSWER)
    return {**row, "gold_answer": row[gold]} if gold in row else dict(row)


def _with_steps(number: int, row: dict[str, Any]) -> dict[str, Any]:
    try:
        return row if row.get("steps") is not None else dict(with_steps(row))
    except ValueError as error:
        raise _wrong_row(number, error) from error


def _check_row(number: int, row: Mapping[str, Any]) -> GivenRow:
    try:
        return GivenRow.model_validate(row)
    except ValidationError as error:
        raise _wrong_row(number, first_complaint(error)) from error


def _wrong_row(number: int, reason: object) -> ScoringError:
    return ScoringError(f"row {number + 1} of the trajectories: {reason}")
