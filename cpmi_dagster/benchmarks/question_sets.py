"""Question sets for best-of-N: GSM8K, MATH-500, MMLU-STEM and Omni-MATH in their published forms.

    gsm8k      question, answer (`… #### 18`)
    math500    problem, answer, subject, unique_id
    mmlu_stem  question, choices, answer (0-based option), subject (or `type`)
    omni_math  problem, answer, domain

MMLU's options become part of the question, and its answer the option's letter.
"""

import string

import polars as pl

from cpmi_dagster.answers.extraction import announced_answer
from cpmi_dagster.benchmarks.choices import render_choices
from cpmi_dagster.benchmarks.fields import reject_rows, required
from cpmi_dagster.errors import BenchmarkError

STEM_SUBJECTS = (
    "abstract_algebra", "astronomy", "college_biology", "college_chemistry", "college_computer_science",
    "college_mathematics", "college_physics", "computer_security", "conceptual_physics", "electrical_engineering",
    "elementary_mathematics", "high_school_biology", "high_school_chemistry", "high_school_computer_science",
    "high_school_mathematics", "high_school_physics", "high_school_statistics", "machine_learning",
)  # fmt: skip
ROW_ID = pl.int_range(pl.len()).cast(pl.String).alias("problem_id")
NO_ANSWER = "there is no gold answer; correct or remove the row"


def read_gsm8k(benchmark: str, rows: pl.DataFrame) -> pl.DataFrame:
    """GSM8K; the row number is the id, the number after `####` the answer."""
    fields = required(benchmark, rows, question=pl.String(), answer=pl.String())
    answers = [announced_answer(solution) for solution in fields["answer"]]
    problems = fields.select(ROW_ID, "question", pl.Series("answer", answers, dtype=pl.String))
    reject_rows(benchmark, problems, _is_blank("answer"), NO_ANSWER)
    return problems


def read_math500(benchmark: str, rows: pl.DataFrame) -> pl.DataFrame:
    """MATH-500; the subject is the category."""
    fields = required(benchmark, rows, unique_id=pl.String(), problem=pl.String(), answer=pl.String())
    reject_rows(benchmark, fields, _is_blank("answer"), NO_ANSWER)
    problems = fields.rename({"unique_id": "problem_id", "problem": "question"})
    return problems.with_columns(rows["subject"].alias("category")) if "subject" in rows.columns else problems


def read_mmlu_stem(benchmark: str, rows: pl.DataFrame) -> pl.DataFrame:
    """MMLU's STEM subjects; rows of its other subjects are left out, so the whole of MMLU can be the source.

    Raises:
        BenchmarkError: no row is of a STEM subject.
    """
    subject = "type" if "type" in rows.columns else "subject"
    kinds = {subject: pl.String(), "question": pl.String(), "choices": pl.List(pl.String()), "answer": pl.Int64()}
    fields = required(benchmark, rows, **kinds)
    outside = (pl.col("answer") < 0) | (pl.col("answer") >= pl.col("choices").list.len())
    reject_rows(benchmark, fields, outside, "`answer` is not the number of one of `choices`; correct or remove the row")
    stem = fields.select(ROW_ID, pl.all()).filter(pl.col(subject).is_in(STEM_SUBJECTS))
    if stem.is_empty():
        raise BenchmarkError(
            f"benchmark `{benchmark}` has no row whose `{subject}` is one of {', '.join(STEM_SUBJECTS)}"
        )
    return lettered(stem).rename({subject: "category"})


def read_omni_math(benchmark: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Omni-MATH; the row number is the id, the first domain the category."""
    fields = required(benchmark, rows, problem=pl.String(), answer=pl.String())
    reject_rows(benchmark, fields, _is_blank("answer"), NO_ANSWER)
    problems = fields.select(ROW_ID, pl.col("problem").alias("question"), "answer")
    if "domain" not in rows.columns:
        return problems
    domains = required(benchmark, rows, domain=pl.List(pl.String()))
    return problems.with_columns(domains["domain"].list.first().alias("category"))


def lettered(problems: pl.DataFrame) -> pl.DataFrame:
    """Put the options under the question and turn the 0-based `answer` into its letter."""
    shown = [render_choices(row["question"], row["choices"]) for row in problems.iter_rows(named=True)]
    letters = [string.ascii_uppercase[number] for number in problems["answer"]]
    return problems.with_columns(pl.Series("question", shown), pl.Series("answer", letters))


def _is_blank(column: str) -> pl.Expr:
    return pl.col(column).str.strip_chars().str.len_chars() == 0
