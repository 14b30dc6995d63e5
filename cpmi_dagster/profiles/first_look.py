"""What a source of trajectories holds, counted before anything is run.

    line 1   {"question": "2 + 3?", "steps": ["2 + 3 = 5."], "id": "a", "gold_answer": 5}
    line 3   {"question": "2 + 3?", "steps": []}
    -> FirstLook(rows=2, forms={"question and steps": 2}, trajectories=1, answered=1, identified=1, questions=1, …,
                 rejected: row_number 1, place "line 3", "`steps`: it is empty")

Rows are read and parsed by the functions that a run reads and parses them by, so that a run rejects the same ones. What
is kept of each is a few numbers: a large corpus is read once, and never held.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

import polars as pl

from cpmi_dagster.errors import SourceError
from cpmi_dagster.trajectories.forms import MathShepherdRow, Prm800kRow, ProcessBenchRow, QuestionRow, TrlRow, form_of
from cpmi_dagster.trajectories.math_shepherd import parse_rows, without_duplicates
from cpmi_dagster.trajectories.question_text import question_id
from cpmi_dagster.trajectories.rows import Row, Unreadable, number_rows

FORM_NAMES = {
    MathShepherdRow: "Math-Shepherd",
    TrlRow: "TRL",
    Prm800kRow: "PRM800K",
    ProcessBenchRow: "ProcessBench",
    QuestionRow: "question and steps",
    None: "in none of the forms",
}
UNREADABLE = "no JSON object"
BATCH_ROWS = 10_000
TRAJECTORIES_PER_SHARD, MOST_SHARDS = 1250, 99


@dataclass(frozen=True)
class FirstLook:
    """What the rows of a source hold.

    Attributes:
        rows: all of them, `trajectories` and `rejected`.
        forms: rows of each form, the most frequent first.
        trajectories: rows that a run can label, given their gold answers.
        answered: trajectories with a gold answer of their own.
        labelled: trajectories with step labels.
        identified: trajectories with an id.
        repeated_ids: rows with the id of an earlier row.
        questions: different questions of the trajectories.
        median_steps: of a trajectory.
        most_steps: of a trajectory.
        rejected: row_number (from 0), place in the file, stage and reason of the other rows, in order.
    """

    rows: int
    forms: Mapping[str, int]
    trajectories: int
    answered: int
    labelled: int
    identified: int
    repeated_ids: int
    questions: int
    median_steps: float
    most_steps: int
    rejected: pl.DataFrame

    @property
    def unanswered(self) -> int:
        """Trajectories whose gold answer must be looked up in reference problems."""
        return self.trajectories - self.answered

    @property
    def reasons(self) -> pl.DataFrame:
        """Why rows were rejected: reason, how many rows, the place of the first; the most frequent first."""
        counted = self.rejected.group_by("reason", maintain_order=True).agg(pl.len(), pl.col("place").first())
        return counted.sort("len", descending=True, maintain_order=True)

    @property
    def shards(self) -> int:
        """How many shards suit the trajectories."""
        return min(MOST_SHARDS, max(1, math.ceil(self.trajectories / TRAJECTORIES_PER_SHARD)))


def look_over(source: str, rows: Iterable[tuple[Row, str]]) -> FirstLook:
    """Count what the rows of a source hold.

    Args:
        source: what errors call it.
        rows: each with its place in the source, as in `line 3`.

    Raises:
        SourceError: there are no rows, the first is of another kind of file, or none can become a trajectory.
    """
    stream = iter(rows)
    forms: Counter[str] = Counter()
    ids: dict[str, int] = {}
    questions: set[str] = set()
    counted, source_ids, rejected = [], [], []
    while batch := list(islice(stream, BATCH_ROWS)):
        numbered = number_rows((row for row, _ in batch), forms.total(), 1, ids)
        places = pl.DataFrame({"row_number": numbered["row_number"], "place": [place for _, place in batch]})
        parsed, malformed = parse_rows(numbered)
        forms.update(_form_name(row) for row, _ in batch)
        questions.update(question_id(question) for question in parsed["question"].unique())
        counted.append(_counted(parsed).join(places, on="row_number", maintain_order="left"))
        source_ids.append(numbered["source_id"].drop_nulls())
        rejected.append(_with_places(malformed, places))
    if not forms:
        raise SourceError(f"{source} has no rows; give a file of trajectories")
    all_counted = pl.concat(counted)
    kept, repeated = without_duplicates(all_counted)
    refused = pl.concat([*rejected, _with_places(repeated, all_counted)]).sort("row_number")
    if kept.is_empty():
        _, place, _, reason = refused.row(0)
        raise SourceError(
            f"none of the {refused.height:,} rows of {source} can become a trajectory; the first, {place}: {reason}"
        )
    all_ids = pl.concat(source_ids)
    return FirstLook(
        rows=forms.total(),
        forms=dict(forms.most_common()),
        trajectories=kept.height,
        answered=kept.filter("is_answered").height,
        labelled=kept.filter("is_labelled").height,
        identified=kept.filter("is_identified").height,
        repeated_ids=all_ids.len() - all_ids.n_unique(),
        questions=len(questions),
        median_steps=kept.select(pl.median("step_count")).item(),
        most_steps=kept.select(pl.max("step_count")).item(),
        rejected=refused,
    )


def _form_name(row: Row) -> str:
    return UNREADABLE if isinstance(row, Unreadable) else FORM_NAMES[form_of(row)]


def _counted(parsed: pl.DataFrame) -> pl.DataFrame:
    """Parsed rows with their texts as hashes, which is enough to find duplicates by."""
    return parsed.select(
        "row_number",
        pl.col("question").hash().cast(pl.String),
        pl.col("steps").list.eval(pl.element().hash().cast(pl.String)),
        step_count=pl.col("steps").list.len(),
        is_answered=pl.col("gold_answer").is_not_null(),
        is_labelled=pl.col("shepherd_labels").is_not_null(),
        is_identified=pl.col("source_id").is_not_null(),
    )


def _with_places(rejected: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    named = rejected.join(places, on="row_number", how="left", maintain_order="left")
    return named.select("row_number", "place", "stage", "reason")
