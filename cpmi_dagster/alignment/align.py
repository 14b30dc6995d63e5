r"""Find each question among reference problems and give its trajectories their gold answer.

    questions                              references                                    result
    "Find  $\dfrac12+x$ if $x=3$."         0: "Find $\frac{1}{2} + x$ if $x = 3$."       0, normalized, 1.0
    "What is the weather?"                 1: …                                          null, null, null

Kinds of match, each tried where the stricter one finds nothing: `exact` text; `whitespace` (Unicode and blanks aside);
`normalized` (typesetting aside); `fuzzy` (see `fuzzy.py`). A form shared by references with different answers
decides nothing, and the looser kinds are not tried then. Questions are aligned once, however many rows share them.
A row with a gold answer of its own needs no reference: its kind is `given`, its source `given/split/id`.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable
from typing import NamedTuple

import polars as pl

from cpmi_dagster.alignment.fuzzy import FuzzyIndex
from cpmi_dagster.answers.comparison import BUILT_IN, Comparison
from cpmi_dagster.contracts.tables import RejectedRows, Trajectories
from cpmi_dagster.trajectories.identifiers import GIVEN, trajectory_id_of
from cpmi_dagster.trajectories.math_shepherd import EXCERPT_CHARACTERS
from cpmi_dagster.trajectories.question_text import compact, drawing, normal_key, question_id

FORMS: tuple[tuple[str, Callable[[str], Hashable]], ...] = (
    ("exact", str),
    ("whitespace", compact),
    ("normalized", normal_key),
)
FUZZY = "fuzzy"
OWN_TASK, OWN_SPLIT = "OWN", "train"
NO_REFERENCES = (
    "the row has no gold answer, and the profile names no references to find one in; name the field that has it "
    "(`fields: {gold_answer: FIELD}`), or references"
)
NO_MATCH = "the question is in none of the reference problems"
AMBIGUOUS = "the question fits reference problems with different answers"
EMPTY_ANSWER = "the reference problem {} has an empty gold answer"

_ORDER_COLUMNS = ("question", "answer", "source", "split", "problem_id")

MATCH_COLUMNS: dict[str, pl.DataType] = {
    "reference_row": pl.Int64(),
    "match_kind": pl.String(),
    "match_score": pl.Float64(),
}


class Match(NamedTuple):
    """A reference row with how it was found; without a row, why there is none."""

    row: int | None
    kind: str | None = None
    score: float | None = None
    reason: str | None = None


class ReferenceIndex:
    """Reference problems by every form of their questions, built once for any number of questions.

    The match of a question does not depend on the order of the references: they are tried in the order of their
    texts, and `Match.row` is translated back.
    """

    def __init__(self, references: pl.DataFrame, comparison: Comparison = BUILT_IN) -> None:
        """Index a frame with `question` and, where ambiguity is to be checked, `answer` columns."""
        self.references = references
        self._comparison = comparison
        ordered = references.with_row_index("row").sort([name for name in _ORDER_COLUMNS if name in references.columns])
        self._rows: list[int] = ordered["row"].to_list()
        questions = ordered["question"].to_list()
        self._answers = ordered["answer"].to_list() if "answer" in ordered.columns else None
        self._drawings = [drawing(question) for question in questions]
        self._by_form: dict[str, dict[Hashable, list[int]]] = {kind: defaultdict(list) for kind, _ in FORMS}
        for kind, form in FORMS:
            for place, question in enumerate(questions):
                self._by_form[kind][form(question)].append(place)
        self._fuzzy = FuzzyIndex(questions, self._same_answer)

    def find(self, question: str) -> Match:
        """The reference that a question matches."""
        if not self._rows:
            return Match(None, reason=NO_REFERENCES)
        if not normal_key(question).text:
            return Match(None, reason=NO_MATCH)
        for kind, form in FORMS:
            if places := self._with_drawing_of(question, self._by_form[kind].get(form(question), [])):
                agreed = all(self._same_answer(places[0], place) for place in places[1:])
                return Match(self._rows[places[0]], kind, 1.0) if agreed else Match(None, reason=AMBIGUOUS)
        nearest = self._fuzzy.find(question)
        if nearest and self._with_drawing_of(question, [nearest[0]]):
            return Match(self._rows[nearest[0]], FUZZY, nearest[1])
        return Match(None, reason=NO_MATCH)

    def _with_drawing_of(self, question: str, places: list[int]) -> list[int]:
        """Only one of two questions may lack the drawing; two different drawings show different problems."""
        drawn = drawing(question) if places else ""
        return [place for place in places if not drawn or self._drawings[place] in ("", drawn)]

    def _same_answer(self, one: int, other: int) -> bool:
        return self._answers is not None and self._comparison.clearly_same(self._answers[one], self._answers[other])


def align_questions(questions: pl.DataFrame, references: pl.DataFrame) -> pl.DataFrame:
    """Find the reference problem of every question.

    Args:
        questions: A frame with a `question` column.
        references: A frame with `question` and, where ambiguity is to be checked, `answer` columns.

    Returns:
        One row per question, in order: `reference_row` (row index in `references`, or null), `match_kind` (exact,
        whitespace, normalized, fuzzy), `match_score` (1, or the similarity of a fuzzy match).
    """
    matches = _match(questions["question"], ReferenceIndex(references))
    rows = [matches[question][:3] for question in questions["question"]]
    return pl.DataFrame(rows, schema=MATCH_COLUMNS, orient="row")


def align_trajectories(parsed: pl.DataFrame, index: ReferenceIndex) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Give every parsed row its gold answer, its own where it has one; each row is in exactly one of the two results.

    Returns:
        Rows of `alignment.trajectories`, and rejected rows: stage `align` without a match, `answer` where the match has
        no gold answer.
    """
    is_own = pl.col("gold_answer").is_not_null()
    own = parsed.filter(is_own).with_columns(
        match_source=pl.concat_str(
            pl.lit(GIVEN),
            pl.col("split").fill_null(OWN_SPLIT),
            pl.coalesce("source_id", pl.col("row_number").cast(pl.String)),
            separator="/",
        ),
        match_kind=pl.lit(GIVEN),
        match_score=pl.lit(1.0),
    )
    others = parsed.filter(~is_own).drop("gold_answer")
    found = pl.DataFrame(
        [(question, *match) for question, match in _match(others["question"], index).items()],
        schema={"question": pl.String(), **MATCH_COLUMNS, "reason": pl.String()},
        orient="row",
    ).join(name_references(index.references), on="reference_row", how="left")
    matched = others.join(found, on="question", how="left", maintain_order="left")
    has_gold = pl.col("gold_answer").str.len_chars().fill_null(0) > 0
    rows = pl.concat([own, matched.filter(has_gold).select(own.columns)]).sort("row_number")
    ids = {question: question_id(question) for question in rows["question"].unique()}
    # the row's task, else the reference's source, else that it is the user's own
    source = pl.col("match_source").str.split("/").list.first().str.to_uppercase()
    task = pl.when(pl.col("match_kind") == GIVEN).then(pl.lit(OWN_TASK)).otherwise(source)
    aligned = rows.with_columns(
        trajectory_id=trajectory_id_of("row_number"),
        question_id=pl.Series([ids[question] for question in rows["question"]], dtype=pl.String),
        task=pl.when(pl.col("task") == "").then(task).otherwise(pl.col("task")),
    )
    return aligned.select(Trajectories.column_names()), _rejected(matched.filter(~has_gold))


def name_references(references: pl.DataFrame) -> pl.DataFrame:
    """Each reference's row, its name `source/split/problem_id` and its answer."""
    return references.select(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("reference_row"),
        pl.concat_str("source", "split", "problem_id", separator="/").alias("match_source"),
        pl.col("answer").alias("gold_answer"),
    )


def _match(questions: pl.Series, index: ReferenceIndex) -> dict[str, Match]:
    """Every different question once, in order of appearance."""
    return {question: index.find(question) for question in questions.unique(maintain_order=True)}


def _rejected(rows: pl.DataFrame) -> pl.DataFrame:
    is_found = pl.col("reference_row").is_not_null()
    no_answer = pl.format(EMPTY_ANSWER, pl.col("match_source").fill_null(""))
    rejected = rows.select(
        "row_number",
        stage=pl.when(is_found).then(pl.lit("answer")).otherwise(pl.lit("align")),
        reason=pl.when(is_found).then(no_answer).otherwise(pl.col("reason")),
        excerpt=pl.col("question").str.head(EXCERPT_CHARACTERS),
    )
    return RejectedRows.cast(rejected)
