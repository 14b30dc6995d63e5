"""Parse rows of a trajectory source in any of the forms of `forms`, number them and assign them to shards.

A trajectory is called after its row (`t000000017`), a shard by its number (`000`, `001`, …); a question's trajectories
are in one shard.

{"input": "Ann has 3 hats … ки", "label": "Ann has 3 hats … +", "task": "GSM8K"}    line 17 of the source
-> row_number 17, question "Ann has 3 hats …", steps […], labels [true], shard "002" by the hash of its question

{"question": "2 + 3?", "steps": []}                                                 line 18
-> row_number 18, defect "`steps`: it is empty", excerpt "{'question': '2 + 3?', 'steps': []}"
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from cpmi_dagster.contracts.tables import MathShepherd, RejectedRows
from cpmi_dagster.errors import MalformedRow, SourceError
from cpmi_dagster.files.text import encodable
from cpmi_dagster.trajectories.columns import list_columns, refuse, rename, use_file_names
from cpmi_dagster.trajectories.fields import read_identifier, read_optional, read_text, read_whole_number
from cpmi_dagster.trajectories.forms import NEEDED, drop_nulls, form_of
from cpmi_dagster.trajectories.question_key import question_id
from cpmi_dagster.trajectories.readers import QUESTION, Trajectory, read_question_row
from cpmi_dagster.trajectories.steps import AUTO, Splitting

BATCH_ROWS = 10_000
CACHED_QUESTIONS = 1 << 15
EXCERPT_CHARACTERS = 120
MOST_ROWS = 10**18
TRAJECTORY_ID = r"^t[0-9]{9,18}$"
"""Pattern of `name_trajectory`."""
ROW_SCHEMA = MathShepherd.create_empty().to_arrow().schema


@dataclass(frozen=True)
class Unreadable:
    """A line of a source that is not a JSON object: its text, the reason, and its place."""

    text: str
    reason: str
    place: str


Row = Mapping[str, Any] | Unreadable


class Defect(NamedTuple):
    """The reason why a row cannot be read, an excerpt, and its id if it has one."""

    reason: str
    excerpt: str
    source_id: str | None = None


class RowFormat(NamedTuple):
    """How rows of a source are read.

    Attributes:
        fields: the file's field name by our name.
        steps: how a solution that is one text is split.
        place: name of the source in errors; without one, a first row of no form is a defect.
        of_questions: whether the rows are questions without solutions.
        keeps_empty: an empty step of a benchmark's row is kept, for judges; else the row has a defect.
    """

    fields: Mapping[str, str] = {}
    steps: Splitting = AUTO
    place: str = "rows.jsonl"
    of_questions: bool = False
    keeps_empty: bool = False

    def named(self, row: Row) -> Row:
        """A row by our field names; `Unreadable` if it lacks a mapped field."""
        if not self.fields or isinstance(row, Unreadable):
            return row
        try:
            return rename(row, self.fields)
        except SourceError as error:
            return Unreadable(str(dict(row)), str(error), self.place)


AS_IT_IS = RowFormat()


def number_rows(
    rows: Iterable[Row], first: int, shards: int, ids: dict[str, int] | None = None, row_format: RowFormat = AS_IT_IS
) -> pl.DataFrame:
    """A batch of source rows as rows of `sources.math_shepherd`, with their shard.

    Args:
        rows: by our field names.
        first: number of the first row in the source, from 0.
        shards: number of shards.
        ids: row numbers by id, updated by each batch; a row with the id of an earlier row gets a defect.

    Raises:
        SourceError: the first row of the source is an object without a form: the file is of another kind.
    """
    numbered: list[dict[str, Any]] = []
    ids = {} if ids is None else ids
    for number, row in enumerate(rows, start=first):
        if (
            number == 0
            and row_format.place
            and not (row_format.of_questions or isinstance(row, Unreadable) or not row or form_of(row))
        ):
            raise refuse(row, row_format.place, row_format.fields)
        read = read_row(row, row_format)
        if isinstance(read, Trajectory):
            earlier = number if read.source_id is None else ids.setdefault(read.source_id, number)
            if earlier != number:
                reason = f'row {earlier + 1} has the id "{read.source_id}" already; give every row its own'
                read = Defect(reason, read.question, read.source_id)
            elif "" in read.steps and not row_format.keeps_empty:
                read = Defect(f"step {read.steps.index('')} (from 0) is empty", read.question, read.source_id)
        numbered.append(row_of(number, read))
    keys = [shard_key(row["question_id"], shards) for row in numbered]
    return frame_of(numbered).with_columns(shard=pl.Series(keys, dtype=pl.String))


def number_batches(rows: Iterable[Row], row_format: RowFormat) -> Iterator[pl.DataFrame]:
    """All rows of a source, of one shard, batch by batch; see `number_rows`."""
    stream, first = iter(rows), 0
    ids: dict[str, int] = {}
    while batch := list(islice(stream, BATCH_ROWS)):
        yield number_rows(batch, first, 1, ids, row_format)
        first += len(batch)


def row_of(number: int, read: Trajectory | Defect) -> dict[str, Any]:
    """A row of `sources.math_shepherd`; missing fields are null."""
    if isinstance(read, Defect):
        excerpt = read.excerpt[:EXCERPT_CHARACTERS]
        values = {"task": "", "question_id": _question_id(excerpt), "defect": read.reason, "excerpt": excerpt}
    else:
        values = {
            "question": read.question,
            "steps": read.steps,
            "labels": read.shepherd_labels,
            "task": read.task,
            "question_id": _question_id(read.question),
            "final_answer": read.final_answer,
            "gold_answer": read.gold_answer,
            "split": read.split,
        }
    return {"row_number": number, "source_id": read.source_id, **values}


def frame_of(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Rows of `row_of` as a frame, by Arrow, which is 20 times faster than polars for lists."""
    return pl.DataFrame(pa.Table.from_pylist(rows, schema=ROW_SCHEMA))


def read_row(row: Row, row_format: RowFormat = AS_IT_IS) -> Trajectory | Defect:
    """Read a row of any form, or a question; a row that cannot be read becomes a `Defect`."""
    if isinstance(row, Unreadable):
        return Defect(encodable(row.reason), encodable(row.text))
    given = drop_nulls(row)
    if row_format.of_questions:
        read = read_question_row if any(name in given for name in QUESTION.split("|")) else None
        needed = f"a text in {QUESTION.replace('|', ' or ')}"
    else:
        form, needed = form_of(row), NEEDED
        read = form and form.read
        given = given if form is None or form.is_of(given) else dict.fromkeys(row) | given
    try:
        if read is None:
            columns = list_columns(row, row_format.fields)
            raise MalformedRow(f"the row has {f'columns {columns}' if columns else 'no columns'}; it needs {needed}")
        return read(given, row_format.steps)
    except MalformedRow as error:
        text = row["input"] if isinstance(row.get("input"), str) else str(dict(row))
        reason = encodable(use_file_names(row_format.fields, str(error)))
        return Defect(reason, encodable(text), _id_of(row))


def _id_of(row: Mapping[str, Any]) -> str | None:
    """The id of a row that cannot be read, if it has one."""
    try:
        return read_optional(row, "id", read_identifier)
    except MalformedRow:
        return None


def shard_name(number: int) -> str:
    """Partition key of a shard: 3 is `003`."""
    return f"{number:03d}"


def shard_key(question_id: str, shards: int) -> str:
    """Partition key of the shard of a question, whose id is a hexadecimal hash."""
    return shard_name(int(question_id, 16) % shards)


def name_trajectory(row_number: int) -> str:
    """`t000000042` for row 42 of the source."""
    return f"t{row_number:09d}"


def read_row_number(row: Mapping[str, Any]) -> int | None:
    """The row of the source that a row names by its number, by our id of the trajectory, or by both alike.

    Raises:
        MalformedRow: there cannot be such a row, or the two are not of one.
    """
    number, named = read_optional(row, "row_number", read_whole_number), read_optional(row, "trajectory_id", read_text)
    if number is not None and not 0 <= number < MOST_ROWS:
        raise MalformedRow(f"the trajectories have no row {number} (from 0)")
    if named is None:
        return number
    if not re.match(TRAJECTORY_ID, named):
        raise MalformedRow(f"`trajectory_id`: {named!r} is none of ours, which are like t000000042; yours is an `id`")
    if number not in (None, of_name := int(named.removeprefix("t"))):
        raise MalformedRow("`trajectory_id` and `row_number` are not of one row")
    return of_name


def separate_defects(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Separate trajectories from rows with defects, which become rejected rows (stage `read`)."""
    is_sound = pl.col("defect").is_null()
    rejected = rows.filter(~is_sound).select(
        "row_number", "source_id", pl.lit("read").alias("stage"), pl.col("defect").alias("reason"), "excerpt"
    )
    return rows.filter(is_sound), RejectedRows.cast(rejected)


def separate_duplicates(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Separate the first row with each question and steps from its duplicates (stage `duplicate`).

    Args:
        rows: columns row_number, source_id, question, steps, gold_answer and others; all rows of a question must be
            included.
    """
    pairs = _repeated(rows)
    same = pl.format("the same question and steps as row {}", pl.col("first") + 1)
    other = pl.format(
        "{}, with the gold answer `{}`, there `{}`", same, "gold_answer", pl.col("gold").fill_null("none")
    )
    rejected = pairs.select(
        "row_number",
        "source_id",
        stage=pl.lit("duplicate"),
        reason=pl.when("differs").then(other).otherwise(same),
        excerpt=pl.col("question").str.head(EXCERPT_CHARACTERS),
    )
    return rows.join(pairs, on="row_number", how="anti", maintain_order="left"), RejectedRows.cast(rejected)


def originals(rows: pl.DataFrame) -> dict[int, int]:
    """The number of the first equal row, by that of a duplicate without another gold answer."""
    return dict(_repeated(rows).filter(~pl.col("differs")).select("row_number", "first").iter_rows())


def _repeated(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows that repeat a question and steps; first: number of the first, gold: its answer, differs: theirs does.

    The first is the first one with a gold answer, if there is one. Rows with other wrong answers are no repetitions.
    """
    alike = [name for name in ("question", "steps", "negative_answers") if name in rows.columns]
    answered = pl.col("row_number").filter(pl.col("gold_answer").is_not_null()).min()
    first = rows.with_columns(first=pl.coalesce(answered, pl.col("row_number").min()).over(alike))
    golds = rows.select(first="row_number", gold="gold_answer")
    repeated = first.filter(pl.col("row_number") != pl.col("first"))
    pairs = repeated.join(golds, on="first", how="left", maintain_order="left")
    differs = pl.col("gold_answer").is_not_null() & pl.col("gold").ne_missing(pl.col("gold_answer"))
    return pairs.with_columns(differs=differs)


@lru_cache(maxsize=CACHED_QUESTIONS)
def _question_id(question: str) -> str:
    """Cached, since a corpus has many rows of every question."""
    return question_id(question)
