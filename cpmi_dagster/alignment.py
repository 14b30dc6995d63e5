r"""Find each question in GSM8K or MATH and give its trajectories their gold answer.

    questions                              references                                    result
    "Find  $\dfrac12+x$ if $x=3$."         0: "Find $\frac{1}{2} + x$ if $x = 3$."       0, normalized, 1.0
    "What is the weather?"                 1: …                                          null, null, null

Kinds of match, each tried where the stricter one finds nothing: `exact` text; `whitespace` (Unicode and blanks aside);
`normalized` (typesetting aside); `fuzzy` (see `fuzzy_matching`). A form shared by references with different answers
decides nothing, and the looser kinds are not tried then. Questions are aligned once, however many rows share them.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import polars as pl

from cpmi_dagster.equivalence.decide import decide
from cpmi_dagster.fuzzy_matching import FuzzyIndex
from cpmi_dagster.math_shepherd import EXCERPT_CHARACTERS, REJECTED_COLUMNS
from cpmi_dagster.question_text import compact, normal_key, question_id

FORMS: tuple[tuple[str, Callable[[str], Hashable]], ...] = (
    ("exact", str),
    ("whitespace", compact),
    ("normalized", normal_key),
)
FUZZY = "fuzzy"
NO_MATCH = "the question is in none of the reference problems"
AMBIGUOUS = "the question fits reference problems with different answers"
EMPTY_ANSWER = "the reference problem {} has an empty gold answer"

MATCH_COLUMNS: dict[str, pl.DataType] = {
    "reference_row": pl.Int64(),
    "match_kind": pl.String(),
    "match_score": pl.Float64(),
}
TRAJECTORY_COLUMNS = (
    "trajectory_id", "question_id", "row_number", "task", "question", "steps", "shepherd_labels", "final_answer",
    "gold_answer", "match_source", "match_kind", "match_score",
)  # fmt: skip


class Match(NamedTuple):
    """A reference row with how it was found; without a row, why there is none."""

    row: int | None
    kind: str | None = None
    score: float | None = None
    reason: str | None = None


class ReferenceIndex:
    """Reference problems by every form of their questions."""

    def __init__(self, questions: Sequence[str], answers: Sequence[str]) -> None:
        self._answers = answers
        self._by_form: dict[str, dict[Hashable, list[int]]] = {kind: defaultdict(list) for kind, _ in FORMS}
        for kind, form in FORMS:
            for row, question in enumerate(questions):
                self._by_form[kind][form(question)].append(row)
        self._fuzzy = FuzzyIndex(questions, [normal_key(question) for question in questions], self._same_answer)

    def find(self, question: str) -> Match:
        """The reference a question stands in."""
        for kind, form in FORMS:
            if rows := self._by_form[kind].get(form(question)):
                agreed = all(self._same_answer(rows[0], row) for row in rows[1:])
                return Match(rows[0], kind, 1.0) if agreed else Match(None, reason=AMBIGUOUS)
        nearest = self._fuzzy.find(question, normal_key(question))
        return Match(nearest[0], FUZZY, nearest[1]) if nearest else Match(None, reason=NO_MATCH)

    def _same_answer(self, one: int, other: int) -> bool:
        return decide(self._answers[one], self._answers[other]) is True


def align_questions(questions: pl.DataFrame, references: pl.DataFrame) -> pl.DataFrame:
    """Find the reference problem of every question.

    Args:
        questions: A frame with a `question` column.
        references: A frame with `question` and, where ambiguity is to be judged, `answer` columns.

    Returns:
        One row per question, in order: `reference_row` (row index in `references`, or null), `match_kind` (exact,
        whitespace, normalized, fuzzy), `match_score` (1, or the similarity of a fuzzy match).
    """
    matches = _match(questions["question"], references)
    rows = [matches[question][:3] for question in questions["question"]]
    return pl.DataFrame(rows, schema=MATCH_COLUMNS, orient="row")


def align_trajectories(parsed: pl.DataFrame, references: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Give every parsed row its gold answer; each row is in exactly one of the two results.

    Args:
        parsed: As `math_shepherd.parse_rows` returns it.
        references: As `references.read_references` returns it.

    Returns:
        Trajectories (`TRAJECTORY_COLUMNS`), and rejected rows: stage `align` without a match, `answer` where the match
        has no gold answer.
    """
    matches = _match(parsed["question"], references)
    names = _reference_names(references)
    found = pl.DataFrame(
        [(question, question_id(question), *match) for question, match in matches.items()],
        schema={"question": pl.String(), "question_id": pl.String(), **MATCH_COLUMNS, "reason": pl.String()},
        orient="row",
    )
    rows = parsed.join(found, on="question", how="left", maintain_order="left").join(
        names, on="reference_row", how="left", maintain_order="left"
    )
    has_gold = pl.col("gold_answer").str.len_chars().fill_null(0) > 0
    aligned = rows.filter(has_gold).with_columns(trajectory_id=trajectory_id_of("row_number"))
    return aligned.select(TRAJECTORY_COLUMNS), _rejected(rows.filter(~has_gold))


def trajectory_id_of(row_number: str) -> pl.Expr:
    """`t000000042` for row 42 of the source."""
    return pl.format("t{}", pl.col(row_number).cast(pl.String).str.zfill(9))


def shard_key(question_id: str, shards: int) -> str:
    """The partition a question belongs to, e.g. `003`: all its trajectories share it.

    Args:
        question_id: Hash of the question, in hexadecimal.
        shards: How many shards there are.
    """
    return f"{int(question_id, 16) % shards:03d}"


def _match(questions: pl.Series, references: pl.DataFrame) -> dict[str, Match]:
    """Every different question once, in order of appearance."""
    count = references.height
    answers = references["answer"].to_list() if "answer" in references.columns else [str(row) for row in range(count)]
    index = ReferenceIndex(references["question"].to_list(), answers)
    return {question: index.find(question) for question in questions.unique(maintain_order=True)}


def _reference_names(references: pl.DataFrame) -> pl.DataFrame:
    return references.select(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("reference_row"),
        pl.concat_str("source", "split", "problem_id", separator="/").alias("match_source"),
        pl.col("answer").alias("gold_answer"),
    )


def _rejected(rows: pl.DataFrame) -> pl.DataFrame:
    is_found = pl.col("reference_row").is_not_null()
    return rows.select(
        "row_number",
        pl.when(is_found).then(pl.lit("answer")).otherwise(pl.lit("align")).alias("stage"),
        pl.when(is_found)
        .then(pl.format(EMPTY_ANSWER, pl.col("match_source").fill_null("")))
        .otherwise(pl.col("reason"))
        .alias("reason"),
        pl.col("question").str.head(EXCERPT_CHARACTERS).alias("excerpt"),
    ).cast(dict(REJECTED_COLUMNS))  # type: ignore[arg-type]
