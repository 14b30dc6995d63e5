"""What a source of trajectories holds, counted before anything is run.

    line 1   {"question": "2 + 3?", "steps": ["2 + 3 = 5."], "id": "a", "gold_answer": 5}
    line 3   {"question": "2 + 3?", "steps": []}
    -> FirstLook(rows=2, forms={"question and steps": 2}, trajectories=1, answered=1, identified=1, questions=1, …,
                 rejected: row_number 1, place "row 2 (line 3)", "`steps`: it is empty")

Rows are read by the functions that a run reads them by, so that a run rejects the same ones. What
is kept of each is a few numbers: a large corpus is read once, and never held.
"""

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import polars as pl

from cpmi_dagster.errors import SourceError
from cpmi_dagster.trajectories.fields import name_in
from cpmi_dagster.trajectories.form_readers import GOLD_ANSWER
from cpmi_dagster.trajectories.forms import FORMS, form_of, list_unread_fields
from cpmi_dagster.trajectories.proposals import propose_fields
from cpmi_dagster.trajectories.rows import (
    AS_IT_IS,
    Reading,
    Row,
    Unreadable,
    number_rows,
    separate_defects,
    separate_duplicates,
)

NO_FORM = "in none of the forms"
UNREADABLE = "unreadable"
JUDGED = [form.name for form in FORMS if form.is_judged]
PROPOSED = ("gold_answer", "id")
BATCH_ROWS = 10_000
TRAJECTORIES_PER_SHARD, MOST_SHARDS = 1250, 99


@dataclass(frozen=True)
class FirstRow:
    """The first row that can be read, as a run reads it: its place and form, the trajectory, and fields left unread.

    A question alone has no steps. `gold_field` has the gold answer. Of the fields left unread, those that may be a gold
    answer or an id are proposed.
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
    """What the rows of a source hold.

    Attributes:
        rows: all of them, `trajectories` and `rejected`.
        forms: rows of each form, the most frequent first.
        trajectories: rows that a run can label, given their gold answers; of questions alone, all their solutions.
        answered: trajectories with a gold answer of their own.
        labelled: trajectories with step labels.
        judged: trajectories whose steps people have judged.
        identified: trajectories with an id.
        repeated_ids: rows with the id of an earlier row.
        questions: different questions of the trajectories.
        median_steps: of a trajectory.
        most_steps: of a trajectory.
        rejected: row_number (from 0), place (from 1), stage and reason of the other rows, in order.
        first: the first of them that can be read.
        solutions: sampled of each row, where the rows are questions alone.
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

    @property
    def unanswered(self) -> int:
        """Trajectories whose gold answer must be looked up in reference problems."""
        return self.trajectories - self.answered

    @property
    def maps(self) -> list[str]:
        """Options that name fields which are not read, and look like a gold answer or an id that no row has."""
        lacking = {"gold_answer": not self.answered, "id": not self.identified}
        return [
            f"--map {shlex.quote(f'{name}={field}')}" for name, field in self.first.proposed.items() if lacking[name]
        ]

    @property
    def reasons(self) -> pl.DataFrame:
        """Why rows were rejected: reason, how many rows, the place of the first; the most frequent first."""
        counted = self.rejected.group_by("reason", maintain_order=True).agg(pl.len(), pl.col("place").first())
        return counted.sort("len", descending=True, maintain_order=True)

    @property
    def shards(self) -> int:
        """How many shards suit the trajectories."""
        return min(MOST_SHARDS, max(1, math.ceil(self.trajectories / TRAJECTORIES_PER_SHARD)))


def look_over(
    source: str, rows: Iterable[tuple[Row, str]], reading: Reading = AS_IT_IS, solutions: int | None = None
) -> FirstLook:
    """Count what the rows of a source hold.

    Args:
        source: what errors call it.
        rows: by the names of the forms, each with its place in the source, as in `line 3` or `b.jsonl, line 3`.
        reading: of the source.
        solutions: that are sampled of each, where the rows are questions alone.

    Raises:
        SourceError: there are no rows, the first is of another kind of file, or none can become a trajectory.
    """
    stream = iter(rows)
    forms: Counter[str] = Counter()
    ids: dict[str, int] = {}
    counted, source_ids, rejected = [], [], []
    first_row: FirstRow | None = None
    while batch := list(islice(stream, BATCH_ROWS)):
        start, names = forms.total(), [_form_name(row, reading.of_questions) for row, _ in batch]
        numbered = number_rows((row for row, _ in batch), start, 1, ids, reading)
        in_file = {"place": [_place(start + at, place) for at, (_, place) in enumerate(batch, 1)], "form": names}
        places = pl.DataFrame({"row_number": numbered["row_number"], **in_file})
        sound, defects = separate_defects(numbered)
        if first_row is None and sound.height:
            first = sound.row(0, named=True)
            at = first["row_number"] - start
            first_row = _first_row(batch[at:], places["place"][at], first, reading)
        forms.update(names)
        counted.append(_counted(sound).join(places, on="row_number", maintain_order="left"))
        source_ids.append(numbered["source_id"].drop_nulls())
        rejected.append(_with_places(defects, places))
    if not forms:
        raise SourceError(f"{source} has no rows; give a file of trajectories")
    kept = all_counted = pl.concat(counted)
    if not reading.of_questions:
        kept, repeated = separate_duplicates(all_counted)
        rejected.append(_with_places(repeated, all_counted))
    refused = pl.concat(rejected).sort("row_number")
    if first_row is None:
        _, place, _, reason = refused.row(0)
        raise SourceError(
            f"none of the {refused.height:,} rows of {source} can become a trajectory; the first, {place}: {reason}"
        )
    all_ids = pl.concat(source_ids)
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
    )


def _form_name(row: Row, of_questions: bool) -> str:
    if isinstance(row, Unreadable):
        return UNREADABLE
    if of_questions:
        return "question"
    form = form_of(row)
    return NO_FORM if form is None else form.name


def _place(number: int, place: str) -> str:
    """The number of a row as a run has it, from 1, and where it stands in the file if that is another number."""
    return f"row {number}" if place in (f"row {number}", f"line {number}") else f"row {number} ({place})"


def _first_row(rows: Sequence[tuple[Row, str]], place: str, parsed: Mapping[str, Any], reading: Reading) -> FirstRow:
    """The first of some rows, with what it and those after it leave unread."""
    row, _ = rows[0]
    left = [] if reading.of_questions or isinstance(row, Unreadable) else list_unread_fields(row)
    others = [
        {name: other[name] for name in left if name in other} for other, _ in rows if not isinstance(other, Unreadable)
    ]
    return FirstRow(
        place,
        form=_form_name(row, reading.of_questions),
        question=parsed["question"],
        steps=parsed["steps"],
        labels=parsed["labels"],
        gold_answer=parsed["gold_answer"],
        gold_field="" if isinstance(row, Unreadable) else name_in(row, GOLD_ANSWER),
        unread=left,
        proposed=propose_fields(others, PROPOSED, set(reading.fields.values())),
    )


def _counted(parsed: pl.DataFrame) -> pl.DataFrame:
    """Parsed rows with their texts as hashes, which is enough to find duplicates by."""
    return parsed.select(
        "row_number",
        "source_id",
        "question_id",
        pl.col("question").hash().cast(pl.String),
        pl.col("steps").list.eval(pl.element().hash().cast(pl.String)),
        step_count=pl.col("steps").list.len(),
        is_answered=pl.col("gold_answer").is_not_null(),
        is_labelled=pl.col("labels").is_not_null(),
    )


def _with_places(rejected: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    named = rejected.join(places, on="row_number", how="left", maintain_order="left")
    return named.select("row_number", "place", "stage", "reason")
