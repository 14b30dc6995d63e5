"""Rows from anywhere as trajectories: `label`, `score`, `judge` and their functions read here, as a run does.

[{"question": "1 + 1?", "solution": "1 + 1 = 2.", "gold_answer": np.int64(2), "negative_answers": [3]}, {"a": 1}]
-> trajectories   row_number 0, id "0", question "1 + 1?", steps ["1 + 1 = 2."], gold_answer "2", negatives ["3"]
   rejected       row_number 1, id "1", "the row has columns a; it needs …"
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from cpmi_dagster.answers.gold import read_gold_answer
from cpmi_dagster.contracts.tables import MathShepherd
from cpmi_dagster.errors import MalformedRow, ScoringError, first_line
from cpmi_dagster.trajectories.fields import read_list
from cpmi_dagster.trajectories.given_choices import name_choice
from cpmi_dagster.trajectories.identifiers import name_trajectory
from cpmi_dagster.trajectories.rows import Reading, Row, Unreadable, number_rows, separate_defects


class GivenRows(NamedTuple):
    """Rows as they came, and the trajectories in them.

    Attributes:
        rows: of plain values; a broken line of a file is `Unreadable`.
        trajectories: those of `sources.math_shepherd`, with trajectory_id (as in a run of these rows), id and
            negative_answers (null if the row lists none).
        rejected: row_number (from 0), source_id, stage, reason, excerpt and id of the other rows.
    """

    rows: Sequence[Row]
    trajectories: pl.DataFrame
    rejected: pl.DataFrame


def read_table(table: Any, keeps_empty: bool = False) -> GivenRows:
    """Read a table of Python: a list of dicts, a pandas or polars frame, or a `datasets.Dataset`.

    Args:
        keeps_empty: an empty step of a benchmark's row is kept.

    Raises:
        ScoringError: it is no table.
    """
    return read_given(table_rows(table), Reading(place="", keeps_empty=keeps_empty))


def read_given(rows: Sequence[Row], reading: Reading) -> GivenRows:
    """Read rows in any form; one that cannot be read is rejected with its reason.

    A row's id is its own. Without one it is the number of the row, from 0, or, counted from 1, `row 3` if other rows
    have ids.

    Raises:
        SourceError: the reading names a file, and the first row is an object without a form.
    """
    named = [reading.named(row) for row in rows]
    numbered = number_rows(named, 0, 1, reading=reading) if named else MathShepherd.create_empty()
    given = zip(named, numbered["final_answer"], strict=True)
    negatives, wrong = zip(*(_read_negatives(*each) for each in given), strict=True) if named else ((), ())
    numbers, has_ids = numbered["row_number"].to_list(), numbered["source_id"].count() > 0
    names = [f"row {number + 1}" if has_ids else str(number) for number in numbers]
    read = numbered.with_columns(
        trajectory_id=pl.Series(map(name_trajectory, numbers), dtype=pl.String),
        id=pl.coalesce("source_id", pl.Series(names, dtype=pl.String)),
        negative_answers=pl.Series(negatives, dtype=pl.List(pl.String)),
        wrong=pl.Series(wrong, dtype=pl.String),
    )
    excerpt = pl.when(pl.col("wrong").is_not_null()).then(pl.coalesce("excerpt", "question")).otherwise("excerpt")
    read = read.with_columns(defect=pl.coalesce("defect", "wrong"), excerpt=excerpt).drop("wrong")
    trajectories, rejected = separate_defects(read)
    return GivenRows(rows, trajectories, rejected.join(read.select("row_number", "id"), on="row_number"))


def own_reason(reason: str, trajectory_id: str) -> str:
    """A reason without the name of the trajectory, which is not the user's."""
    return reason.removeprefix(f"trajectory `{trajectory_id}`").lstrip(": ")


def _read_negatives(row: Row, final_answer: str | None) -> tuple[list[str] | None, str | None]:
    """The negative answers of a row, as its gold answer is read, and the reason if they cannot be read."""
    if isinstance(row, Unreadable) or row.get("negative_answers") is None:
        return None, None
    try:
        answers = read_list(row, "negative_answers", read_gold_answer, least=0)
        if None in answers:
            raise MalformedRow(f"`negative_answers.{answers.index(None)}`: it is empty")
        answers = [name_choice(row, answer, None, final_answer) for answer in answers]
    except MalformedRow as error:
        return None, str(error)
    return [answer for answer in answers if answer is not None], None


def table_rows(table: Any) -> list[dict[str, Any]]:
    """Rows of a table of Python as they came, of plain values; a `ScoringError` if it is no table."""
    given = table.to_polars() if hasattr(table, "to_polars") else table
    try:
        if isinstance(given, str | bytes | Path):
            raise TypeError("it is the name of a file")
        if isinstance(given, Iterator):
            raise TypeError("it can be read only once")
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
    return [dict(name_classes(to_plain(row), class_names(table))) for row in rows]


def as_they_came(table: Any, given: GivenRows) -> Sequence[Mapping[str, Any]]:
    """The rows of a table: a user's own dicts with the values they have, else the plain ones that were read."""
    is_list = isinstance(table, list | tuple) and all(isinstance(row, Mapping) for row in table)
    return table if is_list else [row for row in given.rows if isinstance(row, Mapping)]


def class_names(table: Any) -> dict[str, list[str]]:
    """The names of the classes in each column of a `datasets.Dataset` that holds their numbers."""
    return {name: kind.names for name, kind in (getattr(table, "features", None) or {}).items() if _is_class(kind)}


def _is_class(feature: Any) -> bool:
    return type(feature).__name__ == "ClassLabel"


def name_classes(row: Mapping[str, Any], names: Mapping[str, Sequence[str]]) -> Mapping[str, Any]:
    """A row with the names of classes in place of their numbers."""
    named = {
        column: classes[value]
        for column, classes in names.items()
        if isinstance(value := row.get(column), int) and value in range(len(classes))
    }
    return {**row, **named} if named else row


def to_plain(value: Any) -> Any:
    """Convert values of numpy, pandas and polars to plain ones, also within lists and mappings."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    elif isinstance(value, pl.Series):
        value = value.to_list()
    if isinstance(value, Mapping):
        return {name: to_plain(inner) for name, inner in value.items()}
    return [to_plain(inner) for inner in value] if isinstance(value, list | tuple) else value
