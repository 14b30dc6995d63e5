"""Logical reasoning sets, used zero-shot: FOLIO, LogiQA 2.0 and LogicNLI in their published forms.

    folio     premises (list, or text), conclusion, label (True, False, Uncertain)
    logiqa2   id, text, question, options, answer (0-based option)
    logicnli  id, facts, rules, statements, labels: one story, a problem per statement

FOLIO and LogicNLI become a question that names its verdicts; the verdicts are the `choices`:

    If people perform in school talent shows often, then …
    Does the following conclusion hold: Bonnie performs in school talent shows often.
    Answer with True, False or Uncertain.
"""

import polars as pl

from cpmi_dagster.benchmarks.fields import reject_rows, required
from cpmi_dagster.benchmarks.question_sets import ROW_ID, lettered

FOLIO_VERDICTS = ("True", "False", "Uncertain")
LOGICNLI_VERDICTS = ("entailment", "contradiction", "neutral", "self_contradiction")


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
    return lettered(
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


def _verdict_question(premises: pl.Expr, conclusion: pl.Expr, verdicts: tuple[str, ...]) -> pl.Expr:
    ask = f"Answer with {', '.join(verdicts[:-1])} or {verdicts[-1]}."
    text = pl.format("{}\nDoes the following conclusion hold: {}\n{}", premises, conclusion, pl.lit(ask))
    return text.alias("question")


def _with_verdicts(benchmark: str, problems: pl.DataFrame, verdicts: tuple[str, ...]) -> pl.DataFrame:
    complaint = f"the label is none of {', '.join(verdicts)}; correct or remove the row"
    reject_rows(benchmark, problems, ~pl.col("answer").is_in(verdicts), complaint)
    return problems.with_columns(choices=pl.lit(list(verdicts), dtype=pl.List(pl.String())))
