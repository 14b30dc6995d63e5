"""Readers of benchmarks: published rows in, columns of `BenchmarkProblems` out.

    gsm8k         question, answer (`… #### 18`)
    math500       problem, answer, subject, unique_id
    mmlu_stem     question, choices, answer (0-based option), subject (or `type`)
    omni_math     problem, answer, domain
    folio         premises (list, or text), conclusion, label (True, False, Uncertain)
    logiqa2       id, text, question, options, answer (0-based option)
    logicnli      id, facts, rules, statements, labels: one story, a problem per statement
    processbench  id, problem, steps, label (0-based first wrong step, -1 for none), generator
    prmbench      idx, classification, modified_question, modified_process, error_steps (1-based)

Options become part of the question, and the answer the option's letter. FOLIO and LogicNLI become a question that
names its verdicts; the verdicts are the `choices`:

    If people perform in school talent shows often, then …
    Does the following conclusion hold: Bonnie performs in school talent shows often.
    Answer with True, False or Uncertain.

What is missing is named: benchmark `math500`, row 3: the field `answer` is missing; ….
"""

import string
from dataclasses import dataclass
from typing import Any

import polars as pl

from cpmi_dagster.answers.gold import gsm8k_answer
from cpmi_dagster.errors import BenchmarkError, SourceError
from cpmi_dagster.trajectories.choices import render_choices
from cpmi_dagster.trajectories.readers import Trajectory, first_wrong
from cpmi_dagster.trajectories.rows import Defect, RowFormat, read_row

STEM_SUBJECTS = (
    "abstract_algebra", "astronomy", "college_biology", "college_chemistry", "college_computer_science",
    "college_mathematics", "college_physics", "computer_security", "conceptual_physics", "electrical_engineering",
    "elementary_mathematics", "high_school_biology", "high_school_chemistry", "high_school_computer_science",
    "high_school_mathematics", "high_school_physics", "high_school_statistics", "machine_learning",
)  # fmt: skip
FOLIO_VERDICTS = ("True", "False", "Uncertain")
LOGICNLI_VERDICTS = ("entailment", "contradiction", "neutral", "self_contradiction")
ROW_ID = pl.int_range(pl.len()).cast(pl.String).alias("problem_id")
NO_ANSWER = "there is no gold answer; correct or remove the row"


@dataclass(frozen=True)
class Category:
    """One kind of error of PRMBench: its name in the source, in the paper's tables, and its group."""

    classification: str
    short_name: str
    group: str


CATEGORIES: tuple[Category, ...] = (
    Category("redundency", "NR", "Simplicity"),
    Category("circular", "NCL", "Simplicity"),
    Category("counterfactual", "ES", "Soundness"),
    Category("step_contradiction", "SC", "Soundness"),
    Category("domain_inconsistency", "DC", "Soundness"),
    Category("confidence", "CI", "Soundness"),
    Category("missing_condition", "PS", "Sensitivity"),
    Category("deception", "DR", "Sensitivity"),
    Category("multi_solutions", "MS", "Sensitivity"),
)
CLASSIFICATIONS: tuple[str, ...] = tuple(category.classification for category in CATEGORIES)


def read_gsm8k(benchmark: str, rows: pl.DataFrame) -> pl.DataFrame:
    """GSM8K; the row number is the id, the number after `####` the answer."""
    fields = required(benchmark, rows, question=pl.String(), answer=pl.String())
    answers = [gsm8k_answer(solution) for solution in fields["answer"]]
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
    return _lettered(stem).rename({subject: "category"})


def read_omni_math(benchmark: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Omni-MATH; the row number is the id, the first domain the category."""
    fields = required(benchmark, rows, problem=pl.String(), answer=pl.String())
    reject_rows(benchmark, fields, _is_blank("answer"), NO_ANSWER)
    problems = fields.select(ROW_ID, pl.col("problem").alias("question"), "answer")
    if "domain" not in rows.columns:
        return problems
    domains = required(benchmark, rows, domain=pl.List(pl.String()))
    return problems.with_columns(domains["domain"].list.first().alias("category"))


def read_folio(benchmark: str, rows: pl.DataFrame) -> pl.DataFrame:
    """FOLIO; the row number is the id. `Unknown`, as some releases say, is `Uncertain`."""
    listed = "premises" in rows.columns and isinstance(rows["premises"].dtype, pl.List)
    kind = pl.List(pl.String()) if listed else pl.String()
    fields = required(benchmark, rows, premises=kind, conclusion=pl.String(), label=pl.String())
    premises = pl.col("premises").list.join("\n") if listed else pl.col("premises")
    problems = fields.select(
        ROW_ID,
        _verdict_question(premises, pl.col("conclusion"), FOLIO_VERDICTS),
        pl.col("label").str.strip_chars().replace("Unknown", "Uncertain").alias("answer"),
    )
    return _with_verdicts(benchmark, problems, FOLIO_VERDICTS)


def read_logiqa2(benchmark: str, rows: pl.DataFrame) -> pl.DataFrame:
    """LogiQA 2.0; the text is before the question, the options under it."""
    kinds = {"id": pl.String(), "text": pl.String(), "question": pl.String()}
    fields = required(benchmark, rows, **kinds, options=pl.List(pl.String()), answer=pl.Int64())
    outside = (pl.col("answer") < 0) | (pl.col("answer") >= pl.col("options").list.len())
    reject_rows(benchmark, fields, outside, "`answer` is not the number of one of `options`; correct or remove the row")
    question = pl.concat_str("text", "question", separator="\n").alias("question")
    return _lettered(
        fields.select(pl.col("id").alias("problem_id"), question, pl.col("options").alias("choices"), "answer")
    )


def read_logicnli(benchmark: str, rows: pl.DataFrame) -> pl.DataFrame:
    """LogicNLI; a problem per statement, with the id `story:statement`."""
    texts = pl.List(pl.String())
    fields = required(benchmark, rows, id=pl.String(), facts=texts, rules=texts, statements=texts, labels=texts)
    unequal = pl.col("statements").list.len() != pl.col("labels").list.len()
    reject_rows(benchmark, fields, unequal, "`statements` and `labels` differ in length; correct or remove the row")
    numbered = fields.with_columns(statement=pl.int_ranges(pl.col("statements").list.len()))
    problems = numbered.explode("statements", "labels", "statement", empty_as_null=False).select(
        pl.format("{}:{}", "id", "statement").alias("problem_id"),
        _verdict_question(pl.concat_list("facts", "rules").list.join("\n"), pl.col("statements"), LOGICNLI_VERDICTS),
        pl.col("labels").alias("answer"),
    )
    return _with_verdicts(benchmark, problems, LOGICNLI_VERDICTS)


def read_processbench(benchmark: str, rows: pl.DataFrame) -> pl.DataFrame:
    """ProcessBench rows as `BenchmarkProblems`; the generator is the category.

    Raises:
        SourceError: a field is missing, there are no steps, or the label is not a step.
    """
    fields = required(benchmark, rows, id=pl.String())
    read = _trajectories(benchmark, rows)
    problems = fields.select(
        pl.col("id").alias("problem_id"),
        pl.Series("question", [each.question for each in read]),
        pl.Series("steps", [each.steps for each in read], dtype=pl.List(pl.String())),
        pl.Series("first_error", [first_wrong(each.truth or ()) for each in read], dtype=pl.Int64()),
    )
    return problems.with_columns(rows["generator"].alias("category")) if "generator" in rows.columns else problems


def read_prmbench(benchmark: str, rows: pl.DataFrame) -> pl.DataFrame:
    """PRMBench rows as `BenchmarkProblems`; the id is `idx:classification`.

    Raises:
        SourceError: a field is missing, there are no steps, a category is unknown or a step number below 1.
    """
    fields = required(
        benchmark,
        rows,
        idx=pl.String(),
        classification=pl.String(),
        error_steps=pl.List(pl.Int64()),
    )
    unknown = ~pl.col("classification").is_in(CLASSIFICATIONS)
    reject_rows(benchmark, fields, unknown, f"`classification` is none of {', '.join(CLASSIFICATIONS)}")
    below = pl.col("error_steps").list.min().fill_null(1) < 1
    reject_rows(benchmark, fields, below, "`error_steps` has a number below 1, but counts from 1")
    read = _trajectories(benchmark, rows)
    return fields.select(
        pl.format("{}:{}", "idx", "classification").alias("problem_id"),
        pl.Series("question", [each.question for each in read]),
        pl.Series("steps", [each.steps for each in read], dtype=pl.List(pl.String())),
        pl.col("error_steps").list.eval(pl.element() - 1),
        pl.col("classification").alias("category"),
    )


def required(benchmark: str, rows: pl.DataFrame, **fields: pl.DataType) -> pl.DataFrame:
    """The named fields of every row, cast to their types.

    Args:
        benchmark: name used in errors.
        **fields: polars type of each field.

    Returns:
        One column per field, in the order given, without nulls (nor null list items).

    Raises:
        BenchmarkError: there are no rows.
        SourceError: a field is missing, null or of another type.
    """
    if rows.is_empty():
        raise BenchmarkError(f"benchmark `{benchmark}` has no rows; check its source and split")
    columns = []
    for name, kind in fields.items():
        if name not in rows.columns:
            has = ", ".join(rows.columns)
            raise SourceError(f"benchmark `{benchmark}`, row 0: the field `{name}` is missing; the source has {has}")
        try:
            column = rows[name].cast(kind, strict=False)
        except pl.exceptions.InvalidOperationError as error:
            raise SourceError(
                f"benchmark `{benchmark}`: the field `{name}` is {rows[name].dtype}, not {kind}; check the source"
            ) from error
        missing = pl.col(name).is_null()
        if kind == pl.List:
            missing |= pl.col(name).list.eval(pl.element().is_null()).list.any()
        complaint = f"the field `{name}` is missing or is not {kind}; correct or remove the row"
        reject_rows(benchmark, column.to_frame(), missing, complaint)
        columns.append(column)
    return pl.DataFrame(columns)


def reject_rows(benchmark: str, rows: pl.DataFrame, wrong: pl.Expr, complaint: str) -> None:
    """Refuse rows for which `wrong` holds or is null.

    Raises:
        SourceError: names the benchmark, the first such row and the `complaint`.
    """
    bad = rows.select(wrong.fill_null(True).arg_true()).to_series()
    if len(bad):
        raise SourceError(f"benchmark `{benchmark}`, row {bad[0]}: {complaint}")


def first_row(wrong: pl.DataFrame) -> dict[str, Any] | None:
    """The first of some rows that an error is about; None if there are none."""
    return None if wrong.is_empty() else wrong.row(0, named=True)


def _lettered(problems: pl.DataFrame) -> pl.DataFrame:
    """Put the options under the question and turn the 0-based `answer` into its letter."""
    shown = [render_choices(row["question"], row["choices"]) for row in problems.iter_rows(named=True)]
    letters = [string.ascii_uppercase[number] for number in problems["answer"]]
    return problems.with_columns(pl.Series("question", shown), pl.Series("answer", letters))


def _is_blank(column: str) -> pl.Expr:
    return pl.col(column).str.strip_chars().str.len_chars() == 0


def _verdict_question(premises: pl.Expr, conclusion: pl.Expr, verdicts: tuple[str, ...]) -> pl.Expr:
    ask = f"Answer with {', '.join(verdicts[:-1])} or {verdicts[-1]}."
    text = pl.format("{}\nDoes the following conclusion hold: {}\n{}", premises, conclusion, pl.lit(ask))
    return text.alias("question")


def _with_verdicts(benchmark: str, problems: pl.DataFrame, verdicts: tuple[str, ...]) -> pl.DataFrame:
    complaint = f"the label is none of {', '.join(verdicts)}; correct or remove the row"
    reject_rows(benchmark, problems, ~pl.col("answer").is_in(verdicts), complaint)
    return problems.with_columns(choices=pl.lit(list(verdicts), dtype=pl.List(pl.String())))


def _trajectories(benchmark: str, rows: pl.DataFrame) -> list[Trajectory]:
    """The rows as every reader of trajectories reads them, with empty steps.

    Raises:
        SourceError: a row cannot be read.
    """
    solutions = []
    for number, row in enumerate(rows.iter_rows(named=True)):
        read = read_row(row, RowFormat(keeps_empty=True))
        if isinstance(read, Defect):
            raise SourceError(f"benchmark `{benchmark}`, row {number}: {read.reason}; correct or remove the row")
        solutions.append(read)
    return solutions
