"""Counts what a source of trajectories holds, before anything is run.

    line 1   {"question": "2 + 3?", "steps": ["2 + 3 = 5."], "id": "a", "gold_answer": 5}
    line 3   {"question": "2 + 3?", "steps": []}
    -> FirstLook(rows=2, forms={"question and steps": 2}, trajectories=1, answered=1, identified=1, questions=1, …,
                 rejected: row_number 1, place "row 2 (line 3)", "`steps`: it is empty")

Rows are read by the functions of a run, which therefore rejects the same ones. Only a few numbers of each row are kept,
so that a large corpus fits the memory.
"""

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import polars as pl

from cpmi_dagster.answers.gold import MOST_READ, doubt_gold_answers
from cpmi_dagster.errors import SourceError
from cpmi_dagster.trajectories.columns import propose_fields
from cpmi_dagster.trajectories.forms import ROW_FORMS, form_of, list_unread_fields
from cpmi_dagster.trajectories.readers import find_gold_answer
from cpmi_dagster.trajectories.rows import (
    AS_IT_IS,
    Row,
    RowFormat,
    Unreadable,
    number_rows,
    separate_defects,
    separate_duplicates,
)

NO_FORM = "in none of the forms"
UNREADABLE = "unreadable"
JUDGED = [form.name for form in ROW_FORMS if form.is_judged]
PROPOSED, EXAMPLES = ("gold_answer", "id"), 5
BATCH_ROWS = 10_000
TRAJECTORIES_PER_SHARD, MOST_SHARDS = 1250, 99


@dataclass(frozen=True)
class FirstRow:
    """The first readable row as a run reads it; a question alone has no steps.

    Attributes:
        gold_field: the field that the gold answer is in.
        unread: fields that are not read.
        proposed: by our name, those of them that may be the gold answer or the id.
    """

    place: str
    form: str
    question: str
    steps: Sequence[str]
    labels: Sequence[bool] | None
    gold_answer: str | None
    gold_field: str
    unread: Sequence[str]
    proposed: Mapping[str, str]


@dataclass(frozen=True)
class FirstLook:
    """Counts of the rows of a source.

    Attributes:
        rows: all rows, `trajectories` and `rejected`.
        forms: rows by form, the most frequent first.
        trajectories: rows that a run can label if they have gold answers; of questions alone, all their solutions.
        answered: trajectories with a gold answer in their row.
        labelled: trajectories with step labels.
        judged: trajectories whose steps people have judged.
        identified: trajectories with an id.
        repeated_ids: rows with the id of an earlier row.
        questions: distinct questions.
        median_steps: median steps of a trajectory.
        most_steps: most steps of a trajectory.
        rejected: row_number (from 0), place (from 1), stage and reason of the other rows, in order.
        first: the first readable row.
        solutions: solutions to sample of each row, if the rows are questions alone.
        without_gold: ids, else places, of the first rows without a gold answer.
        doubt: a sentence if the solutions hardly state their gold answers.
    """

    rows: int
    forms: Mapping[str, int]
    trajectories: int
    answered: int
    labelled: int
    judged: int
    identified: int
    repeated_ids: int
    questions: int
    median_steps: float
    most_steps: int
    rejected: pl.DataFrame
    first: FirstRow
    solutions: int | None = None
    without_gold: Sequence[str] = ()
    doubt: str | None = None

    @property
    def unanswered(self) -> int:
        """Trajectories without a gold answer, which is looked up in reference problems."""
        return self.trajectories - self.answered

    @property
    def maps(self) -> list[str]:
        """Options such as `--map id=key` for unread fields that look like the gold answer or id that no row has."""
        lacking = {"gold_answer": not self.answered, "id": not self.identified}
        return [
            f"--map {shlex.quote(f'{name}={field}')}" for name, field in self.first.proposed.items() if lacking[name]
        ]

    @property
    def reasons(self) -> pl.DataFrame:
        """Columns reason, len (rows), place (of the first), the most frequent reason first."""
        counted = self.rejected.group_by("reason", maintain_order=True).agg(pl.len(), pl.col("place").first())
        return counted.sort("len", descending=True, maintain_order=True)

    @property
    def shards(self) -> int:
        """Number of shards for the trajectories."""
        return min(MOST_SHARDS, max(1, math.ceil(self.trajectories / TRAJECTORIES_PER_SHARD)))


def look_over(
    source: str, rows: Iterable[tuple[Row, str]], row_format: RowFormat = AS_IT_IS, solutions: int | None = None
) -> FirstLook:
    """Count what the rows of a source hold.

    Args:
        source: name of the source in errors.
        rows: each row with its place in the source, as in `line 3` or `b.jsonl, line 3`.
        row_format: how the rows of the source are read.
        solutions: solutions to sample of each row, if the rows are questions alone.

    Raises:
        SourceError: there are no rows, the first is of another kind of file, or none can become a trajectory.
    """
    stream = iter(rows)
    forms: Counter[str] = Counter()
    ids: dict[str, int] = {}
    counted, source_ids, rejected = [], [], []
    first_row: FirstRow | None = None
    answers: list[tuple[str | None, str | None]] = []
    while batch := list(islice(stream, BATCH_ROWS)):
        start, names = forms.total(), [_form_name(row, row_format.of_questions) for row, _ in batch]
        numbered = number_rows((row for row, _ in batch), start, 1, ids, row_format)
        in_file = {"place": [_place(start + at, place) for at, (_, place) in enumerate(batch, 1)], "form": names}
        places = pl.DataFrame({"row_number": numbered["row_number"], **in_file})
        sound, defects = separate_defects(numbered)
        if first_row is None and sound.height:
            first = sound.row(0, named=True)
            at = first["row_number"] - start
            first_row = _first_row(batch[at:], places["place"][at], first, row_format)
        forms.update(names)
        if len(answers) < MOST_READ:
            answers += sound.select("gold_answer", "final_answer").drop_nulls().head(MOST_READ).rows()
        counted.append(_hash_texts(sound).join(places, on="row_number", maintain_order="left"))
        source_ids.append(numbered["source_id"].drop_nulls())
        rejected.append(_add_places(defects, places))
    if not forms:
        raise SourceError(f"{source} has no rows; give a file of trajectories")
    kept = all_counted = pl.concat(counted)
    if not row_format.of_questions:
        kept, repeated = separate_duplicates(all_counted)
        rejected.append(_add_places(repeated, all_counted))
    refused = pl.concat(rejected).sort("row_number")
    if first_row is None:
        _, place, _, reason = refused.row(0)
        raise SourceError(
            f"none of the {refused.height:,} rows of {source} can become a trajectory; the first, {place}: {reason}"
        )
    all_ids, without_gold = pl.concat(source_ids), kept.filter(~pl.col("is_answered")).head(EXAMPLES)
    return FirstLook(
        rows=forms.total(),
        forms=dict(forms.most_common()),
        trajectories=kept.height * (solutions or 1),
        answered=kept.filter("is_answered").height * (solutions or 1),
        labelled=kept.filter("is_labelled").height,
        judged=kept.filter(pl.col("form").is_in(JUDGED)).height,
        identified=kept["source_id"].count(),
        repeated_ids=all_ids.len() - all_ids.n_unique(),
        questions=all_counted["question_id"].n_unique(),
        median_steps=kept.select(pl.median("step_count")).item(),
        most_steps=kept.select(pl.max("step_count")).item(),
        rejected=refused,
        first=first_row,
        solutions=solutions,
        without_gold=without_gold.select(pl.coalesce("source_id", "place")).to_series().to_list(),
        doubt=doubt_gold_answers(answers),
    )


def _form_name(row: Row, of_questions: bool) -> str:
    if isinstance(row, Unreadable):
        return UNREADABLE
    if of_questions:
        return "question"
    form = form_of(row)
    return NO_FORM if form is None else form.name


def _place(number: int, place: str) -> str:
    """The row number from 1, and the place in the file if that is another number: `row 2 (line 3)`."""
    return f"row {number}" if place in (f"row {number}", f"line {number}") else f"row {number} ({place})"


def _first_row(
    rows: Sequence[tuple[Row, str]], place: str, parsed: Mapping[str, Any], row_format: RowFormat
) -> FirstRow:
    """The first of the rows; fields are proposed from what it and the next rows leave unread."""
    row, _ = rows[0]
    left = [] if row_format.of_questions or isinstance(row, Unreadable) else list_unread_fields(row)
    others = [
        {name: other[name] for name in left if name in other} for other, _ in rows if not isinstance(other, Unreadable)
    ]
    return FirstRow(
        place,
        form=_form_name(row, row_format.of_questions),
        question=parsed["question"],
        steps=parsed["steps"],
        labels=parsed["labels"],
        gold_answer=parsed["gold_answer"],
        gold_field="" if isinstance(row, Unreadable) else find_gold_answer(row)[0],
        unread=left,
        proposed=propose_fields(others, PROPOSED, set(row_format.fields.values())),
    )


def _hash_texts(parsed: pl.DataFrame) -> pl.DataFrame:
    """Parsed rows with hashes for texts, by which duplicates are recognised."""
    return parsed.select(
        "row_number",
        "source_id",
        "question_id",
        "gold_answer",
        pl.col("question").hash().cast(pl.String),
        pl.col("steps").list.eval(pl.element().hash().cast(pl.String)),
        step_count=pl.col("steps").list.len(),
        is_answered=pl.col("gold_answer").is_not_null(),
        is_labelled=pl.col("labels").is_not_null(),
    )


def _add_places(rejected: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    named = rejected.join(places, on="row_number", how="left", maintain_order="left")
    return named.select("row_number", "place", "stage", "reason")
