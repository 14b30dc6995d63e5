r"""Reference problems with their gold answers, which GSM8K and MATH have in their solutions.

    GSM8K   {"question": "Natalia sold clips …", "answer": "Natalia sold 48/2 = … \n#### 72"}                   -> 72
    MATH    {"problem": "Compute …", "level": "Level 2", "type": "Algebra", "solution": "… $\boxed{\frac{2}{3}}$."}
                                                                                                    -> \frac{2}{3}
    others  {"question": "How many …", "solution": "…", "answer": "72"}                                        -> 72
            {"problem": "How many …", "solution": "… The answer is: 72"}                                       -> 72
            {"question": "How many …", "answer": 72}                                                           -> 72

Thousands commas of GSM8K answers are dropped (`1,600` becomes `1600`), as that set's own grader does. A solution
without an answer, such as one with an empty box, gives an empty answer; its trajectories are rejected when they are
aligned.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from cpmi_dagster.answers.extraction import hash_answer
from cpmi_dagster.answers.fences import boxed_answer
from cpmi_dagster.answers.gold import answer_text
from cpmi_dagster.contracts.tables import ReferenceProblems
from cpmi_dagster.errors import SourceError
from cpmi_dagster.files.text import encodable, number_text
from cpmi_dagster.trajectories.row_fields import given_answer

PUBLISHED = {"gsm8k": ("question", "answer"), "math": ("problem", "solution")}
QUESTION_FIELDS = ("question", "problem")
ID_FIELDS = ("id", "unique_id")
SUBJECT_FIELDS = ("type", "subject")


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


def together(problems: Sequence[pl.DataFrame]) -> pl.DataFrame:
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
