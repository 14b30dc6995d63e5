r"""The registry of benchmarks: their readers, figures, names and origins, and the questions shared with training.

    QUESTION_SETS["math500"]              best-of-N accuracy, in the columns `MATH500 N=1`, … of the table best_of_n
    STEP_BENCHMARKS["processbench_math"]  F1 of the first wrong step, in the column `Math` of the table processbench

Every benchmark is brought to one shape, that of `sources.benchmark_problems`:

    benchmark          problem_id  question            choices  answer  steps         first_error  error_steps
    processbench_math  math-0      Determine the rem…  –        –       [To determ…]  0            –
    prmbench           …:circular  Three pencils and…  –        –       [1. Let's …]  –            [2, 3, 4]
    gsm8k              0           Janet’s ducks lay…  –        18      –             –            –

A new benchmark is a reader in `readers` and an entry here: profiles may name it, models are judged on it, and its
figures stand in the report.

Some benchmarks take questions from the training splits of GSM8K and MATH. A question is shared if its text is the same,
however it is typeset:

    trained on                        benchmark                              shared
    "Find $\dfrac12 + x$."            math500: "Find $\frac{1}{2}+x$."       yes
    "Find $\dfrac12 + x$."            math500: "Find $\frac{1}{3}+x$."       no, other numbers
    "Find $x$. [asy]draw(A);[/asy]"   math500: "Find $x$. [asy]draw(B); …"   no, other drawings
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import polars as pl

from cpmi_dagster.benchmarks import readers
from cpmi_dagster.contracts.registries import by_name
from cpmi_dagster.contracts.tables import BenchmarkProblems
from cpmi_dagster.errors import SourceError
from cpmi_dagster.miniature.names import local_path
from cpmi_dagster.trajectories.question_key import drawing, normal_key

PRMBENCH = "prmbench"
Reader = Callable[[str, pl.DataFrame], pl.DataFrame]
"""From a benchmark's name and its published rows to columns of `BenchmarkProblems`."""


@dataclass(frozen=True)
class Benchmark:
    """Common facts of question sets and step benchmarks.

    Attributes:
        name: in profiles and tables.
        label: of its columns in the report, spelled as in the paper.
        read: brings its rows to one shape.
        origin: where to get the file, for sets that cannot be downloaded directly.
        shares_questions: some of its questions are also in the training splits of GSM8K and MATH, as published.
    """

    name: str
    label: str
    read: Reader
    origin: str | None = field(default=None, kw_only=True)
    shares_questions: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class QuestionSet(Benchmark):
    """Questions with gold answers, for best-of-N; `table` is the artifact that its accuracy stands in."""

    table: Literal["best_of_n", "logic"] = "best_of_n"


@dataclass(frozen=True)
class StepBenchmark(Benchmark):
    """Solutions whose steps are judged.

    Attributes:
        metric: `first_error` is the F1 of ProcessBench, over problems with `first_error`; `error_steps` the PRMScore.
        subset: its short name among the sets with one metric; its name if it has none.
        in_average: counts in the mean of the paper's four sets.
    """

    metric: Literal["first_error", "error_steps"]
    subset: str = ""
    in_average: bool = False


def _processbench(subset: str, label: str, *, shares_questions: bool = False) -> StepBenchmark:
    name, read = f"processbench_{subset}", readers.read_processbench
    return StepBenchmark(name, label, read, "first_error", subset, in_average=True, shares_questions=shares_questions)


STEP_BENCHMARKS: dict[str, StepBenchmark] = by_name(
    (
        _processbench("gsm8k", "GSM8K"),
        _processbench("math", "Math"),
        _processbench("olympiadbench", "Olympiad", shares_questions=True),
        _processbench("omnimath", "Omni", shares_questions=True),
        StepBenchmark(PRMBENCH, "PRMBench", readers.read_prmbench, "error_steps", shares_questions=True),
    )
)
"""Every step benchmark by name, in the order of the report's columns."""

QUESTION_SETS: dict[str, QuestionSet] = by_name(
    (
        QuestionSet("gsm8k", "GSM8K", readers.read_gsm8k),
        QuestionSet("math500", "MATH500", readers.read_math500),
        QuestionSet("mmlu_stem", "MMLU-Stem", readers.read_mmlu_stem, shares_questions=True),
        QuestionSet("omni_math", "Omni", readers.read_omni_math, shares_questions=True),
        QuestionSet(
            "folio",
            "FOLIO",
            readers.read_folio,
            "logic",
            origin="yale-nlp/FOLIO on the hub, after accepting its terms, or github.com/Yale-LILY/FOLIO",
        ),
        QuestionSet(
            "logiqa2",
            "LogiQA 2.0",
            readers.read_logiqa2,
            "logic",
            origin="github.com/csitfun/LogiQA2.0, its test.txt saved as .jsonl",
        ),
        QuestionSet(
            "logicnli",
            "LogicNLI",
            readers.read_logicnli,
            "logic",
            origin="github.com/omnilabNLP/LogicNLI, its test_language.json with one story a line",
        ),
    )
)
"""Every question set by name, in the order of the report's columns."""

BENCHMARKS: dict[str, Benchmark] = {**STEP_BENCHMARKS, **QUESTION_SETS}

SUBSETS: dict[str, str] = {
    name: entry.subset or name for name, entry in STEP_BENCHMARKS.items() if entry.metric == "first_error"
}
"""Short name of every set that asks for the first wrong step."""

AVERAGED_BENCHMARKS: tuple[str, ...] = tuple(name for name, entry in STEP_BENCHMARKS.items() if entry.in_average)
"""The paper's four sets, whose plain mean is the average F1."""


def question_set_labels(table: str) -> dict[str, str]:
    """Column label by question set, of those whose accuracy stands in an artifact."""
    return {name: entry.label for name, entry in QUESTION_SETS.items() if entry.table == table}


def read_benchmark(name: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Bring a benchmark's source rows to one shape.

    Args:
        name: a key of `BENCHMARKS`.
        rows: rows with the field names of the benchmark's published form.

    Returns:
        `BenchmarkProblems` columns, in the order of the source. An id the source repeats gets `:1`, `:2`, … appended.

    Raises:
        SourceError: the name is unknown, or a row lacks a field.
        BenchmarkError: there are no rows.
    """
    if name not in BENCHMARKS:
        raise SourceError(f"there is no benchmark `{name}`; choose from {', '.join(BENCHMARKS)}")
    problems = BENCHMARKS[name].read(name, rows).with_columns(pl.lit(name).alias("benchmark"))
    columns = BenchmarkProblems.create_empty().schema
    shaped = problems.select(
        pl.col(column).cast(dtype) if column in problems.columns else pl.lit(None, dtype).alias(column)
        for column, dtype in columns.items()
    )
    repeat = pl.int_range(pl.len()).over("problem_id")
    suffix = pl.when(repeat > 0).then(pl.format(":{}", repeat)).otherwise(pl.lit(""))
    return shaped.with_columns(pl.col("problem_id") + suffix)


def check_benchmark_file(name: str, path: str | None) -> None:
    """Refuse a benchmark whose local file does not exist; the error says where to get it.

    Args:
        path: its path in the profile, None on the hub.

    Raises:
        SourceError: there is no such file or folder.
    """
    if path is None or local_path(path).exists():
        return
    origin = BENCHMARKS[name].origin if name in BENCHMARKS else None
    advice = f"get it from {origin} (docs/profiles.md), " if origin else "correct the path, "
    raise SourceError(
        f"the benchmark `{name}` is not at {path}; {advice}or remove it from sources.benchmarks and best_of_n"
    )


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
