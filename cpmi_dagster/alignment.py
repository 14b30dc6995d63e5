r"""Match questions to reference problems, which give the trajectories their gold answers.

    references   GSM8K   {"question": "Natalia sold clips …", "answer": "Natalia sold 48/2 = … \n#### 72"}         -> 72
                 MATH    {"problem": "Compute …", "type": "Algebra", "solution": "… $\boxed{\frac{2}{3}}$."}
                                                                                                        -> \frac{2}{3}
                 others  {"question": "How many …", "solution": "…", "answer": "72"}                              -> 72

    question     "Find  $\dfrac12+x$ if $x=3$."  ~  "Find $\frac{1}{2} + x$ if $x = 3$."       0, normalized
                 "What is the weather?"                                                        null, null

Kinds of match, each tried if the stricter kind finds nothing: `exact` text; `whitespace` (ignores Unicode variants and
white space); `normalized` (ignores typesetting). If references with different answers share the matching form, the
question has no match. A row that has a gold answer needs no reference: its kind is `given`, its source
`given/split/id`.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from cpmi_dagster.answers.comparison import BUILT_IN, Comparison
from cpmi_dagster.answers.gold import answer_text, gsm8k_answer
from cpmi_dagster.answers.plain_text import boxed_answer
from cpmi_dagster.contracts.tables import ReferenceProblems, RejectedRows, Trajectories
from cpmi_dagster.errors import SourceError
from cpmi_dagster.files.text import encodable, number_text
from cpmi_dagster.trajectories.fields import given_answer
from cpmi_dagster.trajectories.question_key import compact, drawing, normal_key
from cpmi_dagster.trajectories.rows import EXCERPT_CHARACTERS, name_trajectory

NORMALIZERS: tuple[tuple[str, Callable[[str], Hashable]], ...] = (
    ("exact", str),
    ("whitespace", compact),
    ("normalized", normal_key),
)
OWN_TASK, OWN_SPLIT, UNANSWERED = "OWN", "train", "none"
GIVEN = "given"
"""Match kind and source of gold answers that come with the trajectories."""
NO_MATCH = "the question is in none of the reference problems"
AMBIGUOUS = "the question fits reference problems with different answers"
EMPTY_ANSWER = "the reference problem {} has an empty gold answer"
PUBLISHED = {"gsm8k": ("question", "answer"), "math": ("problem", "solution")}
QUESTION_FIELDS, ID_FIELDS, SUBJECT_FIELDS = ("question", "problem"), ("id", "unique_id"), ("type", "subject")

_ORDER_COLUMNS = ("question", "answer", "source", "split", "problem_id")
_OF_ONE_ROW = re.compile(
    r"(?P<kept>`[^`]*`|\(from 0\))|"
    r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\b[a-z]\w*/\w+/\S+|(?<![\w.])\d+(?:\.\d+)?(?!\w)"
)


class Match(NamedTuple):
    """The matching reference row and the kind of match, or the reason for no match."""

    row: int | None
    kind: str | None = None
    reason: str | None = None


class ReferenceIndex:
    """Reference problems indexed by every form of their questions; their order does not change any match."""

    def __init__(self, references: pl.DataFrame, comparison: Comparison = BUILT_IN) -> None:
        """Index a frame with a `question` column and, to detect ambiguous questions, an `answer` column.

        Raises:
            SourceError: a question is null.
        """
        self.references = references
        self._comparison = comparison
        if references["question"].has_nulls():
            row = references["question"].is_null().arg_true()[0]
            raise SourceError(f"the reference in row {row} (from 0) has no `question`; give it one, or leave it out")
        texts = references.with_columns(pl.col("^question|answer$").cast(pl.String).fill_null(""))
        ordered = texts.with_row_index("row").sort([name for name in _ORDER_COLUMNS if name in references.columns])
        self._rows: list[int] = ordered["row"].to_list()
        self._answers = ordered["answer"].to_list() if "answer" in ordered.columns else None
        self._drawings = [drawing(question) for question in ordered["question"]]
        self._places: dict[str, dict[Hashable, list[int]]] = {kind: defaultdict(list) for kind, _ in NORMALIZERS}
        for kind, form in NORMALIZERS:
            for place, question in enumerate(ordered["question"]):
                self._places[kind][form(question)].append(place)

    def find(self, question: str) -> Match:
        """Find the reference that a question matches."""
        if not normal_key(question).text:
            return Match(None, reason=NO_MATCH)
        drawn = drawing(question)
        for kind, form in NORMALIZERS:
            # one of two questions may lack the drawing; different drawings mean different problems
            fitting = self._places[kind].get(form(question), [])
            places = [place for place in fitting if not drawn or self._drawings[place] in ("", drawn)]
            if places:
                agreed = all(self._is_same_answer(places[0], place) for place in places[1:])
                return Match(self._rows[places[0]], kind) if agreed else Match(None, reason=AMBIGUOUS)
        return Match(None, reason=NO_MATCH)

    def _is_same_answer(self, place: int, other: int) -> bool:
        answers = self._answers
        return answers is not None and self._comparison.is_clearly_same(answers[place], answers[other])


def align_questions(questions: pl.DataFrame, references: pl.DataFrame) -> pl.DataFrame:
    """Find the reference problem of every question.

    Args:
        questions: A frame with a `question` column; a null has no match.
        references: A frame with a `question` column and, to detect ambiguous questions, an `answer` column, in which
            null is a missing answer.

    Returns:
        One row per question, in order: `reference_row` (row index in `references`, or null), `match_kind` (exact,
        whitespace, normalized).

    Raises:
        SourceError: the question of a reference is null.
    """
    asked = questions.select(pl.col("question").cast(pl.String))
    matches = _find_all(asked["question"].drop_nulls(), ReferenceIndex(references))
    return asked.join(matches, on="question", how="left", maintain_order="left").select("reference_row", "match_kind")


def align_trajectories(rows: pl.DataFrame, index: ReferenceIndex) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Give every row a gold answer: the one it has, else that of the matching reference.

    Without any references, rows without a gold answer are kept for the labels that need none.

    Args:
        rows: `sources.math_shepherd` without defects.

    Returns:
        Rows of `alignment.trajectories`, and the rejected rows: stage `align` without a match, `answer` if the match
        has no gold answer. Each input row is in exactly one of the two.
    """
    is_given = pl.col("gold_answer").is_not_null()
    own_id = pl.coalesce("source_id", pl.col("row_number").cast(pl.String))
    given_rows = rows.filter(is_given).with_columns(
        match_source=pl.concat_str(pl.lit(GIVEN), pl.col("split").fill_null(OWN_SPLIT), own_id, separator="/"),
        match_kind=pl.lit(GIVEN),
    )
    others = rows.filter(~is_given).drop("gold_answer")
    named = index.references.select(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("reference_row"),
        pl.concat_str("source", "split", "problem_id", separator="/").alias("match_source"),
        pl.col("answer").alias("gold_answer"),
    )
    matches = _find_all(others["question"], index).join(named, on="reference_row", how="left")
    matched = others.join(matches, on="question", how="left", maintain_order="left")
    has_gold = pl.col("gold_answer").str.len_chars().fill_null(0) > 0
    if index.references.is_empty():
        has_gold = pl.lit(True)
        matched = matched.with_columns(match_source=pl.lit(""), match_kind=pl.lit(UNANSWERED))
    # the task of the row, else the source of the reference, else OWN
    source = pl.col("match_source").str.split("/").list.first().str.to_uppercase()
    task = pl.when(pl.col("match_kind").is_in((GIVEN, UNANSWERED))).then(pl.lit(OWN_TASK)).otherwise(source)
    aligned = pl.concat([given_rows, matched.filter(has_gold).select(given_rows.columns)]).sort("row_number")
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


def review_alignment(
    trajectories: pl.DataFrame, rejected: pl.DataFrame, judgements: pl.DataFrame | None = None
) -> dict[str, pl.DataFrame]:
    """Tables that summarise an alignment, by title.

    Args:
        trajectories: match_kind, question_id.
        rejected: rows of `alignment.rejected_rows`.
        judgements: rows of `sources.rejected_truth`.

    Returns:
        matches: match_kind, rows, questions, share of all rows.
        rejected rows: stage, reason without row-specific values, rows, share, excerpt of the first row.
        judgements, if some are left out: likewise, without stage and share.
    """
    share = pl.col("rows") / max(trajectories.height + rejected.height, 1)
    kinds = trajectories.group_by("match_kind").agg(rows=pl.len(), questions=pl.col("question_id").n_unique())
    rejections = _by_reason(rejected, "stage").with_columns(share=share)
    tables = {
        "How questions were matched": kinds.with_columns(share=share).sort("match_kind"),
        "Rejected rows": rejections.select("stage", "reason", "rows", "share", "example"),
    }
    if judgements is not None and judgements.height:
        tables["Judgements that are left out: sources.rejected_truth"] = _by_reason(judgements)
    return tables


def _by_reason(rejected: pl.DataFrame, *names: str) -> pl.DataFrame:
    """The number of rows by some columns and their reason, with the excerpt of the first row."""
    reasons = pl.Series([general_reason(reason) for reason in rejected["reason"]], dtype=pl.String)
    groups = rejected.with_columns(reason=reasons).sort("row_number").group_by(*names, "reason", maintain_order=True)
    return groups.agg(rows=pl.len(), example=pl.col("excerpt").first()).sort(*names, "reason")


def general_reason(reason: str) -> str:
    """Replace row-specific values in a reason: `step 3 (from 0) is empty` becomes `step … (from 0) is empty`."""
    return _OF_ONE_ROW.sub(lambda match: match["kept"] or "…", reason)


def _find_all(questions: pl.Series, index: ReferenceIndex) -> pl.DataFrame:
    """Match each distinct question: columns question, reference_row, match_kind, reason."""
    schema = {"question": pl.String(), "reference_row": pl.Int64(), "match_kind": pl.String(), "reason": pl.String()}
    matches = [(question, *index.find(question)) for question in questions.unique(maintain_order=True)]
    return pl.DataFrame(matches, schema=schema, orient="row")


def read_references(
    rows: Iterable[Mapping[str, Any]], source: str, split: str, config: str | None = None
) -> pl.DataFrame:
    """Read the problems of one source as rows of `sources.reference_problems`.

    Args:
        rows: GSM8K rows (question, answer), MATH rows (problem, solution) or other rows (question or problem; answer,
            solution or both); optional fields: level, type or subject, id or unique_id.
        source: Name of the set: gsm8k, math or another.
        split: Name of the split.
        config: Part of the source; a row without id is called `config/row number`.

    Raises:
        SourceError: a row lacks its question or its solution, or its answer is neither text nor a number.
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
    """Concatenate the problems of all sources.

    Raises:
        SourceError: two problems have the same source, split and id.
    """
    everything = pl.concat([ReferenceProblems.create_empty(), *problems])
    if repeated := everything.filter(~pl.struct(ReferenceProblems.primary_key()).is_first_distinct()).rows():
        source, split, problem_id, *_ = repeated[0]
        raise SourceError(
            f"two problems of {source}/{split} have the id `{problem_id}`; give the rows an `id` that is unique, or "
            "their files another `source` or `split`"
        )
    return everything


def _published(row: Mapping[str, Any], source: str, where: str) -> tuple[str, str, str]:
    """Question, solution and answer of a GSM8K or MATH row."""
    fields = PUBLISHED[source]
    for field in fields:
        if not isinstance(row.get(field), str):
            raise SourceError(f"{where} has no text in `{field}`; {source} rows need {' and '.join(fields)}")
    question, solution = (encodable(row[field]) for field in fields)
    answer = gsm8k_answer(solution) if source == "gsm8k" else boxed_answer(solution)
    return question, solution, answer or ""


def _other(row: Mapping[str, Any], where: str) -> tuple[str, str, str]:
    """Question, solution (the answer if there is none) and answer of a row of any other set."""
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
