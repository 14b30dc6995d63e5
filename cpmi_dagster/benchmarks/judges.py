"""Step probabilities of an external judge, read from JSON Lines and matched with the problems it judged.

    {"benchmark": "processbench_math", "id": "math-0", "probabilities": [0.93, 0.12]}
    {"idx": "prm_test_p1_0", "classification": "circular", "probabilities": [0.9, 0.8, 0.4]}
    {"id": "prm_test_p1_0:circular", "probabilities": [0.9, 0.8, 0.4]}

`benchmark` may be left out if the caller names it or only one benchmark has a problem of that id. Lines with an id that
PRMBench repeats stand for its problems in their order. A benchmark must be judged completely or not at all.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl
from pydantic import BaseModel, ConfigDict

from cpmi_dagster.benchmarks.registry import STEP_BENCHMARKS
from cpmi_dagster.errors import BenchmarkError
from cpmi_dagster.files.bounded_reading import BoundedList
from cpmi_dagster.files.json_lines import read_json_lines
from cpmi_dagster.files.text import Identifier, Text

StepCounts = Mapping[str, Mapping[str, int]]
"""By benchmark and problem id, the number of steps."""


class JudgedLine(BaseModel):
    """One line of a judge's file; other fields are ignored. `reason` explains missing probabilities."""

    model_config = ConfigDict(strict=True, extra="ignore")

    benchmark: Text | None = None
    id: Identifier | None = None
    idx: Identifier | None = None
    classification: Text | None = None
    probabilities: BoundedList[float] | None
    reason: Text | None = None

    @property
    def name(self) -> str:
        """The problem's name in the line; empty if it has none."""
        if self.idx is not None and self.classification is not None:
            return f"{self.idx}:{self.classification}"
        return "" if self.id is None else str(self.id)


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
    counts: dict[str, dict[str, int]] = {}
    judged = problems.filter(pl.col("benchmark").is_in(STEP_BENCHMARKS))
    sizes = judged.select("benchmark", "problem_id", pl.col("steps").list.len())
    for benchmark, problem_id, steps in sizes.iter_rows():
        counts.setdefault(benchmark, {})[problem_id] = steps
    # the k-th line of a name is about the k-th problem of that name
    seen: Counter[tuple[str, str]] = Counter()
    judgements: dict[tuple[str, str], Sequence[float]] = {}
    for place, line, file_benchmark in lines:
        benchmark = _benchmark_of(place, line, file_benchmark, counts)
        repeats = seen[benchmark, line.name]
        seen[benchmark, line.name] += 1
        problem_id = f"{line.name}:{repeats}" if repeats else line.name
        exists = problem_id in counts[benchmark]
        if not exists or (benchmark, problem_id) in judgements:
            unknown = f"not a problem of {benchmark} as loaded; correct its id or benchmark"
            what = "judged again; keep one of the lines" if repeats or exists else unknown
            raise BenchmarkError(f"{place}: `{line.name}` is {what}")
        if line.probabilities is None:
            why = f" ({line.reason})" if line.reason else ""
            advice = f"judge it, or leave {benchmark} out"
            raise BenchmarkError(f"{place}: `{line.name}` has no probabilities{why}; {advice}")
        steps, count = counts[benchmark][problem_id], len(line.probabilities)
        if count != steps:
            raise BenchmarkError(
                f"{place}: `{problem_id}` of {benchmark} has {steps} steps, but {count} probabilities; "
                "give one per step"
            )
        if outside := [value for value in line.probabilities if not 0 <= value <= 1]:
            raise BenchmarkError(f"{place}: `{problem_id}` has the probability {outside[0]}; it must lie in [0, 1]")
        judgements[benchmark, problem_id] = line.probabilities
    for benchmark in dict.fromkeys(benchmark for benchmark, _ in judgements):
        if missing := [problem_id for problem_id in counts[benchmark] if (benchmark, problem_id) not in judgements]:
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


def _benchmark_of(place: str, line: JudgedLine, file_benchmark: str | None, counts: StepCounts) -> str:
    listed = ", ".join(counts) or "no process benchmark"
    if not line.name:
        raise BenchmarkError(f"{place} does not name a problem; give `id`, or `idx` and `classification`")
    if line.benchmark and file_benchmark and line.benchmark != file_benchmark:
        raise BenchmarkError(f"{place} is about {line.benchmark}, but its file was given as one for {file_benchmark}")
    named = line.benchmark or file_benchmark
    if named is not None and named not in counts:
        raise BenchmarkError(f"{place}: there are no problems of `{named}`; there are those of {listed}")
    holders = [named] if named else [name for name, problems in counts.items() if line.name in problems]
    if len(holders) != 1:
        whose = f"a problem of {' and of '.join(holders)}" if holders else f"no problem of {listed}"
        raise BenchmarkError(f"{place}: `{line.name}` is {whose}; name its benchmark in `benchmark`")
    return holders[0]
