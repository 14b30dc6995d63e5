"""Rows of a trajectory source, in any of the forms of `forms.py`, numbered and assigned to shards, not parsed yet.

    {"input": "Ann has 3 hats … ки", "label": "Ann has 3 hats … +", "task": "GSM8K"}    line 17 of the source
    -> row_number 17, shard "002" by the hash of its question

A row that cannot be read is kept as it is, with its defect, and rejected when the rows are parsed. Math-Shepherd's own
rows pass through unchanged, except that lone surrogates, which no text file can hold, become U+FFFD.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import polars as pl
from pydantic import BaseModel, ValidationError

from cpmi_dagster.contracts.tables import MathShepherd
from cpmi_dagster.errors import SourceError, first_complaint
from cpmi_dagster.files.text import encodable
from cpmi_dagster.trajectories.forms import NEEDED, RowModel, columns_of, filled, form_of, in_words_of, refused, renamed
from cpmi_dagster.trajectories.identifiers import shard_key
from cpmi_dagster.trajectories.math_shepherd import question_of
from cpmi_dagster.trajectories.question_text import question_id
from cpmi_dagster.trajectories.row_fields import RawRow, id_text
from cpmi_dagster.trajectories.solution_text import AUTO, Splitting
from cpmi_dagster.trajectories.step_rows import QUESTION, QuestionAlone
from cpmi_dagster.trajectories.text_rows import SolutionRow

CACHED_SHARDS = 1 << 15
Form = TypeVar("Form", bound=BaseModel)
ROW_SCHEMA = {**MathShepherd.create_empty().schema, "shard": pl.String()}


@dataclass(frozen=True)
class Unreadable:
    """A line of a source that is not a JSON object: its text, what is wrong with it, and its place."""

    text: str
    reason: str
    place: str


Row = Mapping[str, Any] | Unreadable


class Reading(NamedTuple):
    """How rows of a source are read.

    Attributes:
        fields: by the name that a form has, the name that the file has.
        steps: where a solution that is one text is split.
        place: what errors call the source.
        of_questions: the rows are questions without solutions.
    """

    fields: Mapping[str, str] = {}
    steps: Splitting = AUTO
    place: str = "rows.jsonl"
    of_questions: bool = False

    def named(self, row: Row) -> Row:
        """A row by the names of the forms; one that lacks a field to be renamed cannot be read."""
        if not self.fields or isinstance(row, Unreadable):
            return row
        try:
            return renamed(row, self.fields)
        except SourceError as error:
            return Unreadable(str(dict(row)), str(error), self.place)


AS_IT_IS = Reading()


def number_rows(
    rows: Iterable[Row], first: int, shards: int, ids: dict[str, int] | None = None, reading: Reading = AS_IT_IS
) -> pl.DataFrame:
    """A batch of source rows with the columns of `sources.math_shepherd` and their shard.

    Args:
        rows: by the names of the forms.
        first: number of the first of them in the source, from 0.
        shards: how many there are.
        ids: rows by the ids of earlier batches, to which those of this one are added; a row with the id of an earlier
            one gets a defect that names it.
        reading: of their source.

    Raises:
        SourceError: the very first row of the source is an object in none of the forms: this is another kind of file.
    """
    columns: dict[str, list[Any]] = {name: [] for name in ROW_SCHEMA}
    ids = {} if ids is None else ids
    for number, row in enumerate(rows, start=first):
        read = read_question if reading.of_questions else read_row
        raw = read(row, reading)
        if number == 0 and not (reading.of_questions or isinstance(row, Unreadable) or form_of(row)):
            raise refused(row, reading.place, reading.fields)
        earlier = number if raw.source_id is None or raw.defect else ids.setdefault(raw.source_id, number)
        if earlier != number:
            defect = f'row {earlier} (from 0) has the id "{raw.source_id}" already; give every row its own'
            raw = raw._replace(defect=defect)
        shard = _shard_of(raw.question or question_of(raw.input), shards)
        for column, value in zip(columns.values(), (number, *raw, shard), strict=True):
            column.append(value)
    return pl.DataFrame(columns, schema=ROW_SCHEMA)


def read_row(row: Row, reading: Reading = AS_IT_IS) -> RawRow:
    """One row of any form. Never raises: what is wrong is the row's defect."""
    if isinstance(row, Unreadable):
        return RawRow(encodable(row.text), defect=encodable(row.reason))
    form, given = form_of(row), filled(row)
    if form is None:
        return _without_form(row, NEEDED, reading)
    return _read(given if form.is_of(given) else row, form.model, reading)


def with_steps(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row whose solution is a chat or one text as one of question and steps; any other row as it is.

    Its other fields stay, the gold answer unread, and the text is split as `auto` does.

    Raises:
        ValueError: it cannot be split.
    """
    form = form_of(row)
    if form is None or not issubclass(form.model, SolutionRow):
        return row
    raw = read_row({name: value for name, value in row.items() if name != "gold_answer"})
    if raw.defect is not None:
        raise ValueError(raw.defect)
    return {name: row[name] for name in row if name not in form.names} | {"question": raw.question, "steps": raw.steps}


def read_question(row: Row, reading: Reading = AS_IT_IS) -> RawRow:
    """One question without its solution: a row without steps. Never raises, likewise."""
    if isinstance(row, Unreadable):
        return RawRow(encodable(row.text), defect=encodable(row.reason))
    if all(row.get(name) is None for name in QUESTION):
        return _without_form(row, f"a text in {' or '.join(QUESTION)}", reading)
    return _read(row, QuestionAlone, reading)


def _without_form(row: Mapping[str, Any], needed: str, reading: Reading) -> RawRow:
    defect = f"the row has columns {columns_of(row, reading.fields)}; it needs {needed}"
    return RawRow(encodable(str(dict(row))), defect=encodable(defect))


def _read(row: Mapping[str, Any], model: RowModel | type[QuestionAlone], reading: Reading) -> RawRow:
    try:
        return model.model_validate(row, context=reading.steps).raw()
    except ValidationError as error:
        text = row["input"] if isinstance(row.get("input"), str) else str(dict(row))
        source_id = id_text(row.get("id")) if "id" in model.model_fields else None
        defect = in_words_of(reading.fields, str(first_complaint(error)))
        return RawRow(encodable(text), defect=defect, source_id=source_id)


def validated(what: str, place: int, row: Row, form: type[Form], advice: str) -> Form:
    """A row of a file in which every row must be sound.

    Args:
        what: the file, as the error names it.
        place: of the row, from 0.
        advice: what to do about a row of another form.

    Raises:
        SourceError: it cannot be read, or is of another form.
    """
    if isinstance(row, Unreadable):
        raise SourceError(f"{what}, {row.place}: {row.reason}; correct or remove it")
    try:
        return form.model_validate(dict(row))
    except ValidationError as error:
        raise SourceError(f"{what}, row {place} (from 0): {first_complaint(error)}; {advice}") from error


@lru_cache(maxsize=CACHED_SHARDS)
def _shard_of(question: str, shards: int) -> str:
    """Cached: a corpus has many rows of every question."""
    return shard_key(question_id(question), shards)
