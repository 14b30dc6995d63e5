r"""Find each question among reference problems and give its trajectories their gold answer.

    references   GSM8K   {"question": "Natalia sold clips …", "answer": "Natalia sold 48/2 = … \n#### 72"}         -> 72
                 MATH    {"problem": "Compute …", "type": "Algebra", "solution": "… $\boxed{\frac{2}{3}}$."}
                                                                                                        -> \frac{2}{3}
                 others  {"question": "How many …", "solution": "…", "answer": "72"}                              -> 72

    question     "Find  $\dfrac12+x$ if $x=3$."  ~  "Find $\frac{1}{2} + x$ if $x = 3$."       0, normalized
                 "What is the weather?"                                                        null, null

Kinds of match, each tried if the stricter one finds nothing: `exact` text; `whitespace` (Unicode and blanks aside);
`normalized` (typesetting aside). A form shared by references with different answers decides nothing, and the looser
kinds are not tried then. Questions are aligned once, however many rows share them. A row with a gold answer of its own
needs no reference: its kind is `given`, its source `given/split/id`.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from cpmi_dagster.answers.comparison import BUILT_IN, Comparison
from cpmi_dagster.answers.extraction import hash_answer
from cpmi_dagster.answers.fences import boxed_answer
from cpmi_dagster.answers.gold import answer_text
from cpmi_dagster.contracts.tables import ReferenceProblems, RejectedRows, Trajectories
from cpmi_dagster.errors import SourceError
from cpmi_dagster.files.text import encodable, number_text
from cpmi_dagster.trajectories.fields import given_answer
from cpmi_dagster.trajectories.identifiers import GIVEN, name_trajectory
from cpmi_dagster.trajectories.question_key import compact, drawing, normal_key
from cpmi_dagster.trajectories.rows import EXCERPT_CHARACTERS

FORMS: tuple[tuple[str, Callable[[str], Hashable]], ...] = (
    ("exact", str),
    ("whitespace", compact),
    ("normalized", normal_key),
)
OWN_TASK, OWN_SPLIT, UNANSWERED = "OWN", "train", "none"
NO_MATCH = "the question is in none of the reference problems"
AMBIGUOUS = "the question fits reference problems with different answers"
EMPTY_ANSWER = "the reference problem {} has an empty gold answer"
PUBLISHED = {"gsm8k": ("question", "answer"), "math": ("problem", "solution")}
QUESTION_FIELDS, ID_FIELDS, SUBJECT_FIELDS = ("question", "problem"), ("id", "unique_id"), ("type", "subject")

_ORDER_COLUMNS = ("question", "answer", "source", "split", "problem_id")
_OF_ONE_ROW = re.compile(
    r"(?P<kept>`[^`]*`)|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\b[a-z]\w*/\w+/\S+|(?<![\w.])\d+(?:\.\d+)?(?!\w)"
)


class Match(NamedTuple):
    """A reference row and how it was found; without a row, why there is none."""

    row: int | None
    kind: str | None = None
    reason: str | None = None


class ReferenceIndex:
    """Reference problems by every form of their questions, built once for any number of questions.

    The match of a question does not depend on the order of the references: they are tried in the order of their
    texts, and `Match.row` is translated back.
    """

    def __init__(self, references: pl.DataFrame, comparison: Comparison = BUILT_IN) -> None:
        """Index a frame with `question` and, if ambiguity is to be checked, `answer` columns."""
        self.references = references
        self._comparison = comparison
        ordered = references.with_row_index("row").sort([name for name in _ORDER_COLUMNS if name in references.columns])
        self._rows: list[int] = ordered["row"].to_list()
        self._answers = ordered["answer"].to_list() if "answer" in ordered.columns else None
        self._drawings = [drawing(question) for question in ordered["question"]]
        self._places: dict[str, dict[Hashable, list[int]]] = {kind: defaultdict(list) for kind, _ in FORMS}
        for kind, form in FORMS:
            for place, question in enumerate(ordered["question"]):
                self._places[kind][form(question)].append(place)

    def find(self, question: str) -> Match:
        """The reference that a question matches."""
        if not normal_key(question).text:
            return Match(None, reason=NO_MATCH)
        drawn = drawing(question)
        for kind, form in FORMS:
            # only one of two questions may lack the drawing; two different drawings show different problems
            fitting = self._places[kind].get(form(question), [])
            places = [place for place in fitting if not drawn or self._drawings[place] in ("", drawn)]
            if places:
                agreed = all(self._is_same_answer(places[0], place) for place in places[1:])
                return Match(self._rows[places[0]], kind) if agreed else Match(None, reason=AMBIGUOUS)
        return Match(None, reason=NO_MATCH)

    def _is_same_answer(self, one: int, other: int) -> bool:
        return self._answers is not None and self._comparison.clearly_same(self._answers[one], self._answers[other])


def align_questions(questions: pl.DataFrame, references: pl.DataFrame) -> pl.DataFrame:
    """Find the reference problem of every question.

    Args:
        questions: A frame with a `question` column.
        references: A frame with `question` and, if ambiguity is to be checked, `answer` columns.

    Returns:
        One row per question, in order: `reference_row` (row index in `references`, or null), `match_kind` (exact,
        whitespace, normalized).
    """
    asked = questions.select(pl.col("question").cast(pl.String))
    found = _find_all(asked["question"], ReferenceIndex(references))
    return asked.join(found, on="question", how="left", maintain_order="left").select("reference_row", "match_kind")


def align_trajectories(rows: pl.DataFrame, index: ReferenceIndex) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Give every row its gold answer, its own if it has one; each row is in exactly one of the two results.

    Without references there is nothing to match: rows without a gold answer stay, for the labels that need none.

    Args:
        rows: `sources.math_shepherd` without defects.

    Returns:
        Rows of `alignment.trajectories`, and rejected rows: stage `align` without a match, `answer` if the match has no
        gold answer.
    """
    is_own = pl.col("gold_answer").is_not_null()
    own_id = pl.coalesce("source_id", pl.col("row_number").cast(pl.String))
    own = rows.filter(is_own).with_columns(
        match_source=pl.concat_str(pl.lit(GIVEN), pl.col("split").fill_null(OWN_SPLIT), own_id, separator="/"),
        match_kind=pl.lit(GIVEN),
    )
    others = rows.filter(~is_own).drop("gold_answer")
    named = index.references.select(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("reference_row"),
        pl.concat_str("source", "split", "problem_id", separator="/").alias("match_source"),
        pl.col("answer").alias("gold_answer"),
    )
    found = _find_all(others["question"], index).join(named, on="reference_row", how="left")
    matched = others.join(found, on="question", how="left", maintain_order="left")
    has_gold = pl.col("gold_answer").str.len_chars().fill_null(0) > 0
    if index.references.is_empty():
        has_gold = pl.lit(True)
        matched = matched.with_columns(match_source=pl.lit(""), match_kind=pl.lit(UNANSWERED))
    # the row's task, else the reference's source, else that it is the user's own
    source = pl.col("match_source").str.split("/").list.first().str.to_uppercase()
    task = pl.when(pl.col("match_kind").is_in((GIVEN, UNANSWERED))).then(pl.lit(OWN_TASK)).otherwise(source)
    aligned = pl.concat([own, matched.filter(has_gold).select(own.columns)]).sort("row_number")
    trajectories = aligned.rename({"labels": "shepherd_labels"}).with_columns(
        trajectory_id=pl.Series([name_trajectory(number) for number in aligned["row_number"]], dtype=pl.String),
        task=pl.when(pl.col("task") == "").then(task).otherwise(pl.col("task")),
    )
    is_found = pl.col("reference_row").is_not_null()
    no_answer = pl.format(EMPTY_ANSWER, pl.col("match_source").fill_null(""))
    rejected = matched.filter(~has_gold).select(
        "row_number",
        "source_id",
        stage=pl.when(is_found).then(pl.lit("answer")).otherwise(pl.lit("align")),
        reason=pl.when(is_found).then(no_answer).otherwise(pl.col("reason")),
        excerpt=pl.col("question").str.head(EXCERPT_CHARACTERS),
    )
    return trajectories.select(Trajectories.column_names()), RejectedRows.cast(rejected)


def review_alignment(trajectories: pl.DataFrame, rejected: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """What a person should see of an alignment, as tables by their titles.

    Args:
        trajectories: match_kind, question_id.
        rejected: rows of `alignment.rejected_rows`.

    Returns:
        matches: match_kind, rows, questions, share of all rows.
        rejected rows: stage, reason (what differs from row to row as `…`), rows, share, and the first row's excerpt.
    """
    share = pl.col("rows") / max(trajectories.height + rejected.height, 1)
    kinds = trajectories.group_by("match_kind").agg(rows=pl.len(), questions=pl.col("question_id").n_unique())
    reasons = pl.Series([general_reason(reason) for reason in rejected["reason"]], dtype=pl.String)
    rejections = (
        rejected.with_columns(reason=reasons)
        .group_by("stage", "reason")
        .agg(rows=pl.len(), example=pl.col("excerpt").sort_by("row_number").first())
        .with_columns(share=share)
    )
    return {
        "How questions were matched": kinds.with_columns(share=share).sort("match_kind"),
        "Rejected rows": rejections.select("stage", "reason", "rows", "share", "example").sort("stage", "reason"),
    }


def general_reason(reason: str) -> str:
    """A reason without what belongs to one row: `step 3 of 5 is empty` becomes `step … of … is empty`."""
    return _OF_ONE_ROW.sub(lambda found: found["kept"] or "…", reason)


def _find_all(questions: pl.Series, index: ReferenceIndex) -> pl.DataFrame:
    """Every different question once: question, reference_row, match_kind, reason."""
    schema = {"question": pl.String(), "reference_row": pl.Int64(), "match_kind": pl.String(), "reason": pl.String()}
    found = [(question, *index.find(question)) for question in questions.unique(maintain_order=True)]
    return pl.DataFrame(found, schema=schema, orient="row")


def read_references(
    rows: Iterable[Mapping[str, Any]], source: str, split: str, config: str | None = None
) -> pl.DataFrame:
    """Bring problems of one source into the shape of `sources.reference_problems`.

    Args:
        rows: GSM8K rows (question, answer), MATH rows (problem, solution) or those of another set (question or problem;
            answer, solution or both); level, type or subject, id or unique_id where they have such fields.
        source: Name of the set: gsm8k, math or another.
        split: Split the rows are filed under.
        config: Part of the source that the rows are; it prefixes the row number in the ids of rows without id.

    Returns:
        One row per problem, in order, with the columns of `sources.reference_problems`.

    Raises:
        SourceError: a row lacks its question or its solution, or has an answer that is neither text nor number.
    """
    problems = []
    for number, row in enumerate(rows):
        name = f"{config}/{number}" if config else str(number)
        where = f"row {name} of {source}/{split}"
        question, solution, answer = _published(row, source, where) if source in PUBLISHED else _other(row, where)
        problem_id, level, subject = (
            next((encodable(str(row[field])) for field in fields if row.get(field) is not None), None)
            for fields in (ID_FIELDS, ("level",), SUBJECT_FIELDS)
        )
        problems.append((source, split, problem_id or name, question, solution, answer, level, subject))
    return pl.DataFrame(problems, schema=ReferenceProblems.create_empty().schema, orient="row")


def join_references(problems: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The problems of all sources, rows of `sources.reference_problems`.

    Raises:
        SourceError: two problems have the same source, split and id.
    """
    everything = pl.concat([ReferenceProblems.create_empty(), *problems])
    if repeated := everything.filter(~pl.struct(ReferenceProblems.primary_key()).is_first_distinct()).rows():
        source, split, problem_id, *_ = repeated[0]
        raise SourceError(
            f"two problems of {source}/{split} have the id `{problem_id}`; give the rows an `id` of their own each, or "
            "their files another `source` or `split`"
        )
    return everything


def _published(row: Mapping[str, Any], source: str, where: str) -> tuple[str, str, str]:
    """Question, solution and answer of a problem of GSM8K or MATH."""
    fields = PUBLISHED[source]
    for field in fields:
        if not isinstance(row.get(field), str):
            raise SourceError(f"{where} has no text in `{field}`; {source} rows need {' and '.join(fields)}")
    question, solution = (encodable(row[field]) for field in fields)
    answer = (hash_answer(solution) or "").replace(",", "") if source == "gsm8k" else boxed_answer(solution)
    return question, solution, answer or ""


def _other(row: Mapping[str, Any], where: str) -> tuple[str, str, str]:
    """Question, solution (or answer, where there is none) and answer of a problem of any other set."""
    question = next((text for field in QUESTION_FIELDS if (text := _text(row, field)) is not None), None)
    solution, answer = _text(row, "solution"), row.get("answer")
    if question is not None and (solution is not None or answer is not None):
        try:
            gold = given_answer(solution, answer)
        except ValueError as error:
            if not isinstance(answer, str):
                raise SourceError(f"{where}: {error}") from None
            gold = None
        return question, str(answer_text(answer) or "").strip() if solution is None else solution, gold or ""
    lacking = "`question` or `problem`" if question is None else "`answer` or `solution`"
    raise SourceError(
        f"{where} has no text in {lacking}; reference problems need `question` or `problem`, and `answer`, `solution` "
        "or both"
    )


def _text(row: Mapping[str, Any], field: str) -> str | None:
    value = row.get(field)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number_text(value)
    return encodable(value).strip() if isinstance(value, str) else None
