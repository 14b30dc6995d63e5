r"""Questions that occur in training and in a benchmark: the same text, however it is typeset.

    trained on                        benchmark                              shared
    "Find $\dfrac12 + x$."            math500: "Find $\frac{1}{2}+x$."       yes
    "Find $\dfrac12 + x$."            math500: "Find $\frac{1}{3}+x$."       no, other numbers
    "Find $x$. [asy]draw(A);[/asy]"   math500: "Find $x$. [asy]draw(B); …"   no, other drawings

Some benchmarks take questions from the training splits of GSM8K and MATH; the registry says which.
"""

import polars as pl

from cpmi_dagster.benchmarks.registry import BENCHMARKS
from cpmi_dagster.trajectories.question_key import drawing, normal_key


def shared_questions(trajectories: pl.DataFrame, problems: pl.DataFrame) -> pl.DataFrame:
    """Questions that trajectories and benchmarks share, by benchmark.

    Args:
        trajectories: `Trajectories` columns of those to be trained on.
        problems: `BenchmarkProblems` columns.

    Returns:
        benchmark, problems and trajectories (how many ask a question that both have), example (one of the questions),
        tolerated (whether the benchmark is known to share questions with training splits); only benchmarks that share.
    """
    keyed = _keyed(trajectories.select("question_id", "question").unique("question_id"))
    counted = trajectories.group_by("question_id").len("trajectories").join(keyed, on="question_id")
    by_key = counted.group_by("key").agg(pl.col("trajectories").sum())
    both = _keyed(problems.select("benchmark", "problem_id", "question")).join(by_key, on="key")
    by_benchmark = both.sort("problem_id").group_by("benchmark", maintain_order=True)
    shared = by_benchmark.agg(
        problems=pl.len(),
        trajectories=pl.struct("key", "trajectories").unique().struct.field("trajectories").sum(),
        example=pl.first("question"),
    )
    tolerated = [name for name, entry in BENCHMARKS.items() if entry.shares_questions]
    return shared.with_columns(tolerated=pl.col("benchmark").is_in(tolerated)).sort("benchmark")


def _keyed(questions: pl.DataFrame) -> pl.DataFrame:
    """Questions with `key`, equal for those that differ only in typesetting."""
    keys: dict[str, str] = {}
    for question in questions["question"].unique():
        key = normal_key(question)
        keys[question] = "\n".join([key.text, *key.numbers, drawing(question)])
    return questions.with_columns(pl.Series("key", map(keys.__getitem__, questions["question"]), pl.String))
