"""Step probabilities of an external judge, read from JSON Lines and matched with the problems it judged.

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

from cpmi_dagster.benchmarks.prmbench import CLASSIFICATIONS
from cpmi_dagster.benchmarks.registry import STEP_BENCHMARKS
from cpmi_dagster.errors import BenchmarkError
from cpmi_dagster.files.bounded_reading import BoundedList
from cpmi_dagster.files.json_lines import read_json_lines
from cpmi_dagster.files.text import Identifier, Text


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


class JudgedLine(BaseModel):
    """One line of a judge's file; other fields are ignored. `reason` explains missing probabilities."""

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
    line: JudgedLine
    file_benchmark: str | None


def read_judged_lines(path: Path, benchmark: str | None = None) -> list[PlacedLine]:
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
    lines = read_json_lines(path, JudgedLine, "id and probabilities")
    placed = [PlacedLine(place, line, benchmark) for place, line in lines]
    if not placed:
        raise BenchmarkError(f"{path} is empty; give one JSON object per line with id and probabilities")
    return placed


def benchmarks_named(lines: Iterable[PlacedLine]) -> frozenset[str]:
    """The benchmarks that lines name; all of them if a line names none."""
    named = {line.benchmark or file_benchmark for _, line, file_benchmark in lines}
    return frozenset(STEP_BENCHMARKS) if None in named else frozenset(str(name) for name in named)


def judge_predictions(lines: Sequence[PlacedLine], problems: pl.DataFrame) -> pl.DataFrame:
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
    for benchmark in dict.fromkeys(benchmark for benchmark, _ in judgements):
        if missing := [problem_id for problem_id in known[benchmark] if (benchmark, problem_id) not in judgements]:
            raise BenchmarkError(
                f"problem `{missing[0]}` of {benchmark} has not been judged ({len(missing)} such problems); judge all "
                f"of {benchmark}, or leave it out"
            )
    rows = [(*problem, probabilities) for problem, probabilities in judgements.items()]
    schema = {"benchmark": pl.String, "problem_id": pl.String, "probability": pl.List(pl.Float64)}
    judgement = pl.DataFrame(rows, schema=schema, orient="row")
    ordered = problems.select("benchmark", "problem_id").join(
        judgement, on=["benchmark", "problem_id"], maintain_order="left"
    )
    numbered = ordered.with_columns(step_index=pl.int_ranges(pl.col("probability").list.len()))
    steps = numbered.explode("step_index", "probability", empty_as_null=False)
    return steps.select("benchmark", "problem_id", "step_index", "probability")


def _benchmark_of(place: str, line: JudgedLine, file_benchmark: str | None, known: Problems) -> str:
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
