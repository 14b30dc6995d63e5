r"""Reference problems of GSM8K and MATH with the gold answer taken out of each solution.

    GSM8K  {"question": "Natalia sold clips …", "answer": "Natalia sold 48/2 = … \n#### 72"}                    -> 72
    MATH   {"problem": "Compute …", "level": "Level 2", "type": "Algebra", "solution": "… $\boxed{\frac{2}{3}}$."}
                                                                                                     -> \frac{2}{3}

Thousands commas of GSM8K answers are dropped (`1,600` becomes `1600`), as that set's own grader does. A MATH solution
with an empty box has an empty answer; its trajectories are rejected when they are aligned.
"""

from typing import Any, Literal

import polars as pl

from cpmi_dagster.answers.extraction import boxed_answer, hash_answer
from cpmi_dagster.contracts.tables import ReferenceProblems
from cpmi_dagster.errors import SourceError

ReferenceName = Literal["gsm8k", "math"]

QUESTION_AND_SOLUTION_FIELDS = {"gsm8k": ("question", "answer"), "math": ("problem", "solution")}
ID_FIELDS = ("id", "unique_id")
SUBJECT_FIELDS = ("type", "subject")


def read_references(rows: pl.DataFrame, source: ReferenceName, split: str, config: str | None = None) -> pl.DataFrame:
    """Bring problems of one source into the shape of `sources.reference_problems`.

    Args:
        rows: GSM8K rows (question, answer) or MATH rows (problem, solution; level, type or subject, id or unique_id
            where there are such columns).
        source: Which of the two.
        split: Split the rows are filed under.
        config: Part of the source that the rows are; it prefixes the row number in the ids of rows without id.

    Returns:
        One row per problem, in order, with the columns of `sources.reference_problems`.

    Raises:
        SourceError: a row lacks its question or its solution.
    """
    place = f"{config}/" if config else ""
    problems = [
        _read_problem(row, f"{place}{number}", source, split) for number, row in enumerate(rows.iter_rows(named=True))
    ]
    return pl.DataFrame(problems, schema=ReferenceProblems.create_empty().schema, orient="row")


def _read_problem(row: dict[str, Any], number: str, source: ReferenceName, split: str) -> tuple[str | None, ...]:
    fields = QUESTION_AND_SOLUTION_FIELDS[source]
    for field in fields:
        if not isinstance(row.get(field), str):
            raise SourceError(
                f"row {number} of {source}/{split} has no text in `{field}`; {source} rows need {' and '.join(fields)}"
            )
    question, solution = (row[field] for field in fields)
    problem_id = _first_present(row, ID_FIELDS) or number
    answer = (hash_answer(solution) or "").replace(",", "") if source == "gsm8k" else boxed_answer(solution)
    level, subject = _first_present(row, ("level",)), _first_present(row, SUBJECT_FIELDS)
    return source, split, problem_id, question, solution, answer or "", level, subject


def _first_present(row: dict[str, Any], fields: tuple[str, ...]) -> str | None:
    return next((str(row[field]) for field in fields if row.get(field) is not None), None)
