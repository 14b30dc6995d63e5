"""A user's rows: read as trajectories, as a run reads them, and given back in their type with columns of ours.

[{"question": "1 + 1?", "solution": "1 + 1 = 2.", "gold_answer": np.int64(2), "negative_answers": [3]}, {"a": 1}]
-> trajectories   row_number 0, id "0", question "1 + 1?", steps ["1 + 1 = 2."], gold_answer "2", negatives ["3"]
   rejected       row_number 1, id "1", "the row has columns a; it needs …"

beside({"id": 7, "reason": "mine"}, ["2 + 3 = 5."], {"reason": None})
                                                        {"id": 7, "input_reason": "mine", "steps": […], "reason": None}
as_cells([{"meta": {"n": 1}, "kept": [true, false]}])   [{"meta": '{"n": 1}', "kept": [true, false]}]
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from cpmi_dagster.answers.gold import is_missing, read_gold_answer
from cpmi_dagster.contracts.tables import MathShepherd
from cpmi_dagster.errors import MalformedRow, ScoringError, UsageError, first_line
from cpmi_dagster.files.text import encodable
from cpmi_dagster.files.whole_files import whole_file
from cpmi_dagster.trajectories.choices import name_choice
from cpmi_dagster.trajectories.fields import read_list
from cpmi_dagster.trajectories.forms import without_answers
from cpmi_dagster.trajectories.rows import Row, RowFormat, Unreadable, name_trajectory, number_rows, separate_defects

STEPS = "steps"
"""The column of ours that takes the place of one of the same name."""
FORMATS = (".jsonl", ".parquet")

MOST_OF_AN_INTEGER, MOST_OF_A_FLOAT = 63, 53
"""Bits."""


class GivenRows(NamedTuple):
    """Rows as they came, and the trajectories in them.

    Attributes:
        rows: a broken line of a file is `Unreadable`.
        trajectories: those of `sources.math_shepherd`, with trajectory_id (as in a run of these rows), id and
            negative_answers (null if the row lists none).
        rejected: row_number (from 0), source_id, stage, reason, excerpt and id of the other rows.
    """

    rows: Sequence[Row]
    trajectories: pl.DataFrame
    rejected: pl.DataFrame


def read_table(table: Any, for_judge: bool = False) -> GivenRows:
    """Read a table of Python, a list of dicts, a pandas or polars frame, or a `datasets.Dataset`, as `read_given` does.

    Raises:
        ScoringError: it is no table.
    """
    given = read_given(table_rows(table), RowFormat(place=""), for_judge)
    return given._replace(rows=table) if _are_dicts(table) else given


def read_given(rows: Sequence[Row], row_format: RowFormat, for_judge: bool = False) -> GivenRows:
    """Read rows in any form; one that cannot be read is rejected with its reason.

    Args:
        for_judge: question and steps alone are read, and an empty step of a benchmark's row is kept.

    Raises:
        SourceError: the format names a file, and the first row is an object without a form.
    """
    named = [row_format.named(row) for row in rows]
    if for_judge:
        named = [row if isinstance(row, Unreadable) else without_answers(row) for row in named]
    how = row_format._replace(keeps_empty=for_judge)
    numbered = number_rows(named, 0, 1, None, how) if named else MathShepherd.create_empty()
    given = zip(named, numbered["final_answer"], strict=True)
    negatives, wrong = zip(*(_read_negatives(*each) for each in given), strict=True) if named else ((), ())
    read = numbered.with_columns(
        trajectory_id=pl.Series(map(name_trajectory, numbered["row_number"]), dtype=pl.String),
        id=pl.Series(name_rows(numbered["source_id"]), dtype=pl.String),
        negative_answers=pl.Series(negatives, dtype=pl.List(pl.String)),
        wrong=pl.Series(wrong, dtype=pl.String),
    )
    excerpt = pl.when(pl.col("wrong").is_not_null()).then(pl.coalesce("excerpt", "question")).otherwise("excerpt")
    read = read.with_columns(defect=pl.coalesce("defect", "wrong"), excerpt=excerpt).drop("wrong")
    trajectories, rejected = separate_defects(read)
    return GivenRows(rows, trajectories, rejected.join(read.select("row_number", "id"), on="row_number"))


def name_rows(ids: Iterable[str | None]) -> list[str]:
    """The id of each row; without one it is its number, from 0, or, from 1, `row 3` if other rows have ids."""
    given = list(ids)
    has_ids = any(each is not None for each in given)
    return [each or (f"row {number + 1}" if has_ids else str(number)) for number, each in enumerate(given)]


def without_trajectory(reason: str, trajectory_id: str) -> str:
    """A reason without the name of the trajectory, which is not the user's."""
    return reason.removeprefix(f"trajectory `{trajectory_id}`").lstrip(": ")


def _read_negatives(row: Row, final_answer: str | None) -> tuple[list[str] | None, str | None]:
    """The negative answers of a row, as its gold answer is read, and the reason if they cannot be read."""
    if isinstance(row, Unreadable) or is_missing(row.get("negative_answers")):
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
        elif _are_dicts(given):
            rows = given
        else:
            rows = pl.DataFrame(given, infer_schema_length=None).to_dicts()
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise ScoringError(
            f"the trajectories are no table ({first_line(error)}); give a list of dicts, a pandas or polars frame, or "
            "a datasets.Dataset"
        ) from error
    return [dict(name_classes(to_plain(row), class_names(table))) for row in rows]


def _are_dicts(table: Any) -> bool:
    return isinstance(table, list | tuple) and all(isinstance(row, Mapping) for row in table)


def class_names(table: Any) -> dict[str, list[str]]:
    """The names of the classes in each column of a `datasets.Dataset` that holds their numbers."""
    kinds = getattr(table, "features", None) or {}
    return {name: kind.names for name, kind in kinds.items() if type(kind).__name__ == "ClassLabel"}


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


def plain(value: Any) -> Any:
    """A value as JSON can hold it: no lone surrogates, and null for NaN and infinity."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def beside(row: Row, steps: Sequence[str] | None, ours: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its steps and columns of ours behind its own; one of theirs with such a name becomes `input_…`.

    A line that is no object is the `text` of its row.

    Args:
        steps: as split; None if the row was not read, and then its own stay, or stand in `input_steps` if they are
            none.
    """
    row = {"text": row.text} if isinstance(row, Unreadable) else row
    theirs = {free_name(column, row, ours): value for column, value in row.items()}
    if steps is None and STEPS in row:
        if _are_steps(row[STEPS]):
            steps = row[STEPS]
        else:  # as they came, they fit no column of steps
            theirs = {free_name(STEPS, row, [STEPS, *ours]): row[STEPS]} | theirs
    return theirs | {STEPS: steps, **ours}


def _are_steps(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(step, str) for step in value)


def give_back(table: Any, rows: list[dict[str, Any]], ours: Mapping[str, pl.DataType | type[pl.DataType]]) -> Any:
    """Rows in the type of the table they came in: a list of dicts, a pandas frame, a Dataset, or else a polars frame.

    Args:
        table: as for `table_rows`.
        rows: of `beside`, one for each row of the table.
        ours: the types of our columns but `steps`.
    """
    if isinstance(table, list | tuple):
        return rows
    is_pandas, is_dataset = hasattr(table, "notna"), hasattr(table, "to_polars")
    theirs: Any = table if is_pandas or is_dataset else pl.DataFrame(table)
    columns = dict.fromkeys(theirs.column_names if is_dataset else theirs.columns)
    names = {name: free_name(name, columns, ours) for name in columns}
    schema = {STEPS: pl.List(pl.String), **ours}
    # `input_steps` of `beside` too, which stands in rows that were not read
    further = dict.fromkeys(name for row in rows for name in row if name not in (*names.values(), *schema))
    added = {name: [row.get(name) for row in rows] for name in (*schema, *further)}
    if is_pandas:
        return theirs.rename(columns=names).assign(**added)
    frame = pl.DataFrame(added, schema_overrides=schema, strict=False)
    if not is_dataset:
        return theirs.rename(names).with_columns(frame.get_columns())
    from datasets import Dataset, concatenate_datasets

    if not rows:  # datasets drops empty tables when it joins them
        return Dataset.from_polars(theirs.to_polars().rename(names).with_columns(frame.get_columns()))
    theirs = theirs.rename_columns(names).remove_columns([name for name in columns if name == STEPS])
    return concatenate_datasets([theirs, Dataset.from_polars(frame)], axis=1)


def check_format(output: Path, what: str) -> None:
    """Refuse a file whose name has no ending of `FORMATS`, by a `UsageError`."""
    if output.suffix not in FORMATS:
        raise UsageError(f"--output {output}: {what} are written as {' or '.join(FORMATS)}; give it such an ending")


def write_rows(output: Path, rows: Iterable[Mapping[str, Any]], ours: Collection[str]) -> None:
    """Write rows of plain values as JSON Lines or Parquet; the file appears whole or not at all.

    Args:
        ours: columns whose values are of one type; in Parquet the others are as of `as_cells`.
    """
    with whole_file(output) as unfinished:
        if output.suffix == ".parquet":
            given = list(rows)
            theirs = as_cells([{name: value for name, value in row.items() if name not in ours} for row in given])
            added = ({name: row[name] for name in ours} for row in given)
            whole = [columns | of_ours for columns, of_ours in zip(theirs, added, strict=True)]
            pl.DataFrame(whole, infer_schema_length=None, strict=False).write_parquet(unfinished)
        else:
            with unfinished.open("w", encoding="utf-8") as file:
                file.writelines(f"{json.dumps(row, ensure_ascii=False, default=str)}\n" for row in rows)


def free_name(name: str, row: Mapping[str, Any], ours: Collection[str]) -> str:
    """The name of a column of a row beside ours: `input_…` if we have one of its name."""
    free = name
    while free in ours or (free != name and free in row):
        free = f"input_{free}"
    return free


def as_cells(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of plain values as columns of Parquet can hold them.

    A column of truth values, of numbers or of texts, or of lists of one of these, stays one. Elsewhere all but texts
    are JSON text: objects, values of several kinds, and numbers that a column of them would round.
    """
    columns: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    whole = {name for name, values in columns.items() if _is_of_one_kind(values)}
    return [{name: value if name in whole else _as_text(value) for name, value in row.items()} for row in rows]


def _is_of_one_kind(values: Sequence[Any]) -> bool:
    known = [value for value in values if value is not None]
    lists = [value for value in known if isinstance(value, list)]
    if lists:
        items = [item for value in lists for item in value if item is not None]
        return len(lists) == len(known) and bool(items) and _are_alike(items)
    return _are_alike(known)


def _are_alike(values: Sequence[Any]) -> bool:
    kinds = {type(value) for value in values}
    if kinds <= {int, float}:
        exact = MOST_OF_A_FLOAT if float in kinds else MOST_OF_AN_INTEGER
        return all(value.bit_length() <= exact for value in values if isinstance(value, int))
    return kinds <= {bool} or kinds <= {str}


def _as_text(value: Any) -> Any:
    is_kept = value is None or isinstance(value, str)
    return value if is_kept else json.dumps(value, ensure_ascii=False, default=str)
