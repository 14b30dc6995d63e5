"""Step probabilities joined to the problems they judge, complete or refused; those from outside are JSON Lines.

    benchmark          problem_id  question          steps        …  probabilities
    processbench_math  math-0      Determine the r…  [To det…, …]    [0.93, 0.12]

A figure over part of a benchmark is not that benchmark's figure: a problem or step without a prediction is an error.
Predictions of an external judge:

    {"benchmark": "processbench_math", "id": "math-0", "probabilities": [0.93, 0.12]}
    {"idx": "prm_test_p1_0", "classification": "circular", "probabilities": [0.9, 0.8, 0.4]}
    {"id": "prm_test_p1_0:circular", "probabilities": [0.9, 0.8, 0.4]}
    {"id": "math-0", "label": 1, "prediction": 1, "match": true}                           as ProcessBench writes it
    {"idx": "circular_prm_test_p1_0", "scores": {"step_level_validity_scores": [0.9, 0.8, 0.4]}}      as PRMBench does

A `prediction` is the first wrong step, -1 for none: it has the probability 0, and the others 1. One that is null, or
that no step has, counts as wrong, as in ProcessBench's evaluation. If a score of PRMBench is outside 0..1, all are its
labels.
`benchmark` may be left out if the caller names it or only one benchmark has a problem of that id. Lines with an id that
PRMBench repeats stand for its problems in their order. A benchmark must be judged completely or not at all.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import polars as pl
from pydantic import BaseModel, ConfigDict, model_validator

from cpmi_dagster.benchmarks.readers import CLASSIFICATIONS, first_row
from cpmi_dagster.benchmarks.registry import STEP_BENCHMARKS
from cpmi_dagster.errors import BenchmarkError
from cpmi_dagster.files.bounded_reading import BoundedList
from cpmi_dagster.files.json_lines import read_json_lines
from cpmi_dagster.files.text import Identifier, Text

KEYS = ["benchmark", "problem_id"]


def with_probabilities(predictions: pl.DataFrame | float, problems: pl.DataFrame) -> pl.DataFrame:
    """Join each problem's step probabilities to it.

    Args:
        predictions: problem_id, step_index, probability of one model, and benchmark if `problems` has several.
            Rows of other benchmarks are ignored. Or one probability for all steps.
        problems: `BenchmarkProblems` columns.

    Returns:
        `problems` with `probabilities`, a list as long as `steps`; sorted by benchmark and id, in their own order if
        all have one probability.

    Raises:
        BenchmarkError: a prediction is missing, repeated or of an unknown problem.
    """
    if not isinstance(predictions, pl.DataFrame):
        return problems.with_columns(probabilities=pl.lit(predictions).repeat_by(pl.col("steps").list.len()))
    if problems.is_empty():
        raise BenchmarkError("there are no problems to judge; check the benchmark's source and split")
    names = problems["benchmark"].unique()
    if "recipe" in predictions.columns and predictions["recipe"].n_unique() > 1:
        raise BenchmarkError("the predictions belong to several recipes; pass those of one")
    if "benchmark" not in predictions.columns:
        if len(names) > 1:
            raise BenchmarkError(f"the predictions do not say to which of {', '.join(names.sort())} they belong")
        predictions = predictions.with_columns(pl.lit(names[0]).alias("benchmark"))
    scored = predictions.filter(pl.col("benchmark").is_in(names.implode()))
    if row := first_row(scored.join(problems, on=KEYS, how="anti")):
        raise BenchmarkError(
            f"there is a prediction for `{row['problem_id']}`, which is not a problem of {row['benchmark']} as loaded"
        )
    by_step = pl.col("probability").sort_by("step_index").alias("probabilities")
    judged = scored.group_by(KEYS).agg(by_step, pl.col("step_index").sort())
    both = problems.sort(KEYS).join(judged, on=KEYS, how="left", maintain_order="left")
    missing = both.filter(pl.col("probabilities").is_null())
    if row := first_row(missing):
        raise BenchmarkError(
            f"problem `{row['problem_id']}` of {row['benchmark']} has no predictions "
            f"({len(missing)} such problems); judge all of {row['benchmark']}, or leave it out"
        )
    count = pl.col("steps").list.len()
    unequal = both.filter(
        (pl.col("probabilities").list.len() != count)
        | (pl.col("step_index").list.first() != 0)
        | (pl.col("step_index").list.last() != count.cast(pl.Int64) - 1)
    )
    if row := first_row(unequal):
        raise BenchmarkError(
            f"problem `{row['problem_id']}` of {row['benchmark']} has {len(row['steps'])} steps, but predictions for "
            f"{len(row['probabilities'])}, steps {row['step_index'][0]} to {row['step_index'][-1]}; judge it again"
        )
    return both.drop("step_index")


class Problem(NamedTuple):
    """Number of steps of a problem, and its first wrong one; -1 for none, None if the benchmark names none."""

    steps: int
    first_error: int | None


Problems = Mapping[str, Mapping[str, Problem]]
"""By benchmark and problem id."""


class StepScores(BaseModel):
    """`scores` of a line that PRMBench's evaluation has written."""

    model_config = ConfigDict(strict=True, extra="ignore")

    step_level_validity_scores: BoundedList[float] | None = None
    step_level_validity_labels: BoundedList[bool] | None = None

    @property
    def are_probabilities(self) -> bool:
        """Whether the scores lie in 0..1."""
        return all(0 <= score <= 1 for score in self.step_level_validity_scores or ())

    def probabilities(self, by_labels: bool) -> list[float] | None:
        """The scores; the labels as 1 and 0 if they are wanted, or there are no scores."""
        scores, labels = self.step_level_validity_scores, self.step_level_validity_labels
        return [float(label) for label in labels] if labels is not None and (by_labels or scores is None) else scores


class PredictionLine(BaseModel):
    """One line of external predictions; other fields are ignored. `reason` explains missing probabilities."""

    model_config = ConfigDict(strict=True, extra="ignore")

    benchmark: Text | None = None
    id: Identifier | None = None
    idx: Identifier | None = None
    classification: Text | None = None
    probabilities: BoundedList[float] | None = None
    prediction: int | None = None
    scores: StepScores | None = None
    reason: Text | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.model_fields_set & {"probabilities", "prediction", "scores"}:
            raise ValueError(
                "it has no `probabilities` (one per step), no `prediction` as ProcessBench's evaluation writes it, and "
                "no `scores` as PRMBench's does"
            )
        return self

    @property
    def name(self) -> str:
        """The problem's name in the line; empty if it has none."""
        if self.idx is not None and self.classification is not None:
            return f"{self.idx}:{self.classification}"
        for kind in CLASSIFICATIONS:
            if self.scores is not None and str(self.idx).startswith(f"{kind}_"):
                return f"{str(self.idx).removeprefix(f'{kind}_')}:{kind}"
        return "" if self.id is None else str(self.id)

    @property
    def is_decision(self) -> bool:
        """Whether it names the first wrong step, and has no probability that a threshold could divide."""
        return "prediction" in self.model_fields_set and self.probabilities is None

    def probabilities_of(self, problem: Problem, by_labels: bool) -> list[float] | None:
        """A probability for each step; None if the judge gave none."""
        if self.probabilities is not None or self.scores is not None:
            return self.probabilities if self.scores is None else self.scores.probabilities(by_labels)
        if "prediction" not in self.model_fields_set or problem.first_error is None:
            return None
        predicted = self.prediction
        if predicted is None or not -1 <= predicted < problem.steps:  # no answer: any that is wrong
            predicted = 0 if problem.first_error < 0 else -1
        return [float(step != predicted) for step in range(problem.steps)]


class PlacedLine(NamedTuple):
    """A line, its file and line number, and the benchmark that the caller named for the file."""

    place: str
    line: PredictionLine
    file_benchmark: str | None


def read_prediction_lines(path: Path, benchmark: str | None = None) -> list[PlacedLine]:
    """The lines of one file.

    Args:
        path: JSON Lines, plain or gzipped.
        benchmark: what its lines judge, if they do not say.

    Raises:
        SourceError: there is no such file, or a line is not of the form above.
        BenchmarkError: there are no lines, or the benchmark is none that judges steps.
    """
    if benchmark is not None and benchmark not in STEP_BENCHMARKS:
        raise BenchmarkError(f"`{benchmark}` has no steps to judge; choose from {', '.join(STEP_BENCHMARKS)}")
    lines = read_json_lines(path, PredictionLine, "id and probabilities")
    placed = [PlacedLine(place, line, benchmark) for place, line in lines]
    if not placed:
        raise BenchmarkError(f"{path} is empty; give one JSON object per line with id and probabilities")
    return placed


def benchmarks_named(lines: Iterable[PlacedLine]) -> frozenset[str]:
    """The benchmarks that lines name; all of them if a line names none."""
    named = {line.benchmark or file_benchmark for _, line, file_benchmark in lines}
    return frozenset(STEP_BENCHMARKS) if None in named else frozenset(str(name) for name in named)


def external_predictions(lines: Sequence[PlacedLine], problems: pl.DataFrame) -> pl.DataFrame:
    """Step probabilities of one judge, of every problem of the benchmarks it covers.

    Args:
        lines: of all its files.

    Returns:
        benchmark, problem_id, step_index, probability, in the order of the problems.

    Raises:
        BenchmarkError: a line names no problem or has another number of steps, a probability is outside 0..1, a
            problem is judged twice, or a benchmark is judged in part; the message names the line or the problem.
    """
    known: dict[str, dict[str, Problem]] = {}
    judged = problems.filter(pl.col("benchmark").is_in(STEP_BENCHMARKS))
    sizes = judged.select("benchmark", "problem_id", pl.col("steps").list.len(), "first_error")
    for benchmark, problem_id, steps, first_error in sizes.iter_rows():
        known.setdefault(benchmark, {})[problem_id] = Problem(steps, first_error)
    # the k-th line of a name is about the k-th problem of that name
    by_labels = any(line.scores is not None and not line.scores.are_probabilities for _, line, _ in lines)
    seen: Counter[tuple[str, str]] = Counter()
    judgements: dict[tuple[str, str], Sequence[float]] = {}
    for place, line, file_benchmark in lines:
        benchmark = _benchmark_of(place, line, file_benchmark, known)
        repeats = seen[benchmark, line.name]
        seen[benchmark, line.name] += 1
        problem_id = f"{line.name}:{repeats}" if repeats else line.name
        exists = problem_id in known[benchmark]
        if not exists or (benchmark, problem_id) in judgements:
            unknown = f"not a problem of {benchmark} as loaded; correct its id or benchmark"
            what = "judged again; keep one of the lines" if repeats or exists else unknown
            raise BenchmarkError(f"{place}: `{line.name}` is {what}")
        problem = known[benchmark][problem_id]
        probabilities = line.probabilities_of(problem, by_labels)
        if probabilities is None:
            why = f" ({line.reason})" if line.reason else ""
            advice = f"judge it, or leave {benchmark} out"
            raise BenchmarkError(f"{place}: `{line.name}` has no probabilities{why}; {advice}")
        if (count := len(probabilities)) != problem.steps:
            raise BenchmarkError(
                f"{place}: `{problem_id}` of {benchmark} has {problem.steps} steps, but {count} probabilities; "
                "give one per step"
            )
        if outside := [value for value in probabilities if not 0 <= value <= 1]:
            raise BenchmarkError(f"{place}: `{problem_id}` has the probability {outside[0]}; it must lie in [0, 1]")
        judgements[benchmark, problem_id] = probabilities
    rows = [(*key, step, value) for key, values in judgements.items() for step, value in enumerate(values)]
    schema = {"benchmark": pl.String, "problem_id": pl.String, "step_index": pl.Int64, "probability": pl.Float64}
    predictions = pl.DataFrame(rows, schema=schema, orient="row")
    with_probabilities(predictions, problems.join(predictions, on="benchmark", how="semi"))
    return problems.select(KEYS).join(predictions, on=KEYS, maintain_order="left_right")


def _benchmark_of(place: str, line: PredictionLine, file_benchmark: str | None, known: Problems) -> str:
    listed = ", ".join(known) or "no process benchmark"
    if not line.name:
        raise BenchmarkError(f"{place} does not name a problem; give `id`, or `idx` and `classification`")
    if line.benchmark and file_benchmark and line.benchmark != file_benchmark:
        raise BenchmarkError(f"{place} is about {line.benchmark}, but its file was given as one for {file_benchmark}")
    named = line.benchmark or file_benchmark
    if named is not None and named not in known:
        raise BenchmarkError(f"{place}: there are no problems of `{named}`; there are those of {listed}")
    holders = [named] if named else [name for name, problems in known.items() if line.name in problems]
    if len(holders) != 1:
        whose = f"a problem of {' and of '.join(holders)}" if holders else f"no problem of {listed}"
        raise BenchmarkError(f"{place}: `{line.name}` is {whose}; name its benchmark in `benchmark`")
    return holders[0]
