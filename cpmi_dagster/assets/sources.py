"""Sources: trajectories, or questions that the policy solves; labels and truth; reference problems; benchmarks."""

from collections.abc import Iterator, Sequence
from itertools import islice

import polars as pl

from cpmi_dagster.alignment import join_references, read_references
from cpmi_dagster.benchmarks.registry import check_benchmark_file, read_benchmark
from cpmi_dagster.contracts.chunks import growing_slices
from cpmi_dagster.contracts.keys import (
    OWN_LABELS,
    PROBLEMS,
    QUESTIONS,
    REFERENCES,
    REJECTED_TRUTH,
    SAMPLED,
    SHEPHERD,
    TRUTH,
)
from cpmi_dagster.contracts.tables import BenchmarkProblems, MathShepherd, Questions, SampledSolutions, StepLabels
from cpmi_dagster.errors import SourceError
from cpmi_dagster.generation.engine import SamplingWork
from cpmi_dagster.generation.solutions import sample_solutions, solution_rows
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.profiles.sources import DataSource
from cpmi_dagster.resources.dag.stage import StageOutput, model_stage, stage
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.trajectories.rows import number_rows
from cpmi_dagster.trajectories.step_labels import read_step_labels
from cpmi_dagster.trajectories.step_truth import read_judgements
from cpmi_dagster.trajectories.templates import render_question
from cpmi_dagster.trajectories.truth_fitting import SOLUTION_COLUMNS, fit_judgements

BATCH_ROWS = 10_000
PERCENT = 100
QUESTIONS_PER_CHUNK = 64


def _named(name: str, sources: Sequence[DataSource]) -> dict[str, DataSource]:
    """Sources by name; several get numbers, a single source keeps the name that homes have recorded."""
    if len(sources) == 1:
        return {name: sources[0]}
    return {f"{name} {number}": source for number, source in enumerate(sources)}


@stage(
    QUESTIONS,
    code_version="4",
    sources=lambda settings: {"questions": settings.sources.trajectories[0]},
    settings=["shards"],
    at_once=True,
)
def questions(run: StageRun) -> StageOutput:
    """Parses the questions; a row that cannot be read has a defect."""
    names = [*Questions.column_names(), "shard"]
    return StageOutput(rows.rename({"row_number": "question_number"}).select(names) for rows in _numbered(run))


@model_stage(
    SAMPLED,
    code_version="2",
    inputs=[QUESTIONS],
    settings=["sources.solution_sampling", "sources.solutions_of_each"],
    models=["policy"],
    lineage={"text": [f"{QUESTIONS}.question"]},
)
def sampled_solutions(run: StageRun) -> StageOutput:
    """If the profile asks for more solutions, only the additions are sampled."""
    settings, sample = run.settings, run.settings.sources.sample
    assert sample is not None
    prompt = run.models.chat("policy") if sample.chat else render_question
    engine = run.engine("policy", sample.sampling, settings.benchmarks.batch_sequences)
    asked = run.read(QUESTIONS)
    count = settings.sources.solutions_of_each
    prompts = map(prompt, asked.filter(pl.col("defect").is_null())["question"])
    work = SamplingWork(dict.fromkeys(prompts, 1.0), count, run.track(asked.height))
    frames: list[pl.DataFrame] = [SampledSolutions.create_empty()]
    for chunk in growing_slices(asked, QUESTIONS_PER_CHUNK):
        solved, _ = sample_solutions(chunk, engine, prompt, sample.sampling, count, settings.seed, work)
        frames.append(solved)
    return StageOutput(pl.concat(frames), engine.identity, engine.spent)


@stage(
    SHEPHERD,
    code_version="12",
    inputs=[QUESTIONS, SAMPLED],
    sources=lambda settings: {} if settings.sources.sample else _named("math_shepherd", settings.sources.trajectories),
    settings=["shards", "sources.solution_steps", "answers.built_in"],
    at_once=True,
    lineage={
        "row_number": [f"{SAMPLED}.question_number", f"{SAMPLED}.solution"],
        "question": [f"{QUESTIONS}.question"],
        "steps": [f"{SAMPLED}.text"],
    },
)
def math_shepherd(run: StageRun) -> StageOutput:
    """The shard is a hash of the question, so all solutions of a question are in one shard."""
    names = [*MathShepherd.column_names(), "shard"]
    steps = run.settings.sources.solution_steps
    if steps is None:
        return StageOutput(rows.select(names) for rows in _numbered(run))
    solved = (
        solution_rows(run.read(QUESTIONS, shard), run.read(SAMPLED, shard), steps).with_columns(shard=pl.lit(shard))
        for shard in run.settings.shard_keys
    )
    return StageOutput(solved)


def _numbered(run: StageRun) -> Iterator[pl.DataFrame]:
    """Parsed rows of all sources with row numbers and shards, a frame per batch."""
    advance = run.track(PERCENT, "reading")
    sources = run.settings.sources.trajectories
    ids: dict[str, int] = {}
    first = percent = 0
    for number, source in enumerate(sources):
        rows = run.sources.stream(source)
        while batch := list(islice(rows, BATCH_ROWS)):
            yield number_rows((row for row, _ in batch), first, run.settings.shards, ids, source.row_format)
            first, read = first + len(batch), int(PERCENT * (number + batch[-1][1]) / len(sources))
            advance(read - percent)
            percent = read
    if not first:
        raise SourceError(f"the trajectory source {', '.join(source.place for source in sources)} has no rows")


@stage(
    TRUTH,
    also=[REJECTED_TRUTH],
    code_version="7",
    inputs=[SHEPHERD],
    sources=lambda settings: _named("step_truth", settings.sources.step_truth),
)
def step_truth(run: StageRun) -> StageOutput:
    """Finds the solutions by id, row or text; rows that fit none are in `sources.rejected_truth` with the reason."""
    settings = run.settings
    judgements = read_judgements(
        (row, each.row_format) for each in settings.sources.step_truth for row, _ in run.sources.stream(each)
    )
    shards = settings.every_shard
    if settings.sources.step_truth == settings.sources.trajectories:  # what cannot be read is a rejected row already
        defects = (run.read(SHEPHERD, shard, ["row_number", "defect"]).drop_nulls("defect") for shard in shards)
        judgements = judgements.without({number for each in defects for number in each["row_number"]})
    frames = (run.read(SHEPHERD, shard, SOLUTION_COLUMNS) for shard in shards)
    rows = (row for source in settings.sources.trajectories for row, _ in run.sources.stream(source))
    fitted = fit_judgements(judgements, frames, rows, is_part=settings.is_pilot)
    for note in fitted.notes:
        run.tell(note)
    return StageOutput({TRUTH: fitted.truth, REJECTED_TRUTH: fitted.rejected}, notes=fitted.notes)


@stage(
    OWN_LABELS,
    code_version="2",
    sources=lambda settings: settings.sources.step_labels,
    settings=["sources.probability_labels"],
)
def step_labels(run: StageRun) -> StageOutput:
    """Each file of labels is a reward type of its own."""
    read = [
        read_step_labels(name, (row for row, _ in run.sources.stream(source)), source.probabilities)
        for name, source in run.settings.sources.step_labels.items()
    ]
    return StageOutput(pl.concat([StepLabels.create_empty(), *read]))


@stage(
    REFERENCES,
    code_version="5",
    sources=lambda settings: {f"{number}": source for number, source in enumerate(settings.sources.references)},
    settings=["sources.reference_sets"],
)
def reference_problems(run: StageRun) -> StageOutput:
    """Takes gold answers from the set, or reads them from solutions (`#### n`, last `\\boxed{}`, "The answer is").

    Without it, only rows that give a gold answer have one.
    """
    read = [
        read_references(run.sources.records(source), source.source, source.split, source.config)
        for source in run.settings.sources.references
    ]
    return StageOutput(join_references(read))


def _benchmarks(settings: Settings) -> dict[str, DataSource]:
    for name, source in settings.sources.benchmarks.items():
        check_benchmark_file(name, source.path)
    return settings.sources.benchmarks


@stage(PROBLEMS, code_version="2", sources=_benchmarks)
def benchmark_problems(run: StageRun) -> StageOutput:
    """Reads every benchmark that the profile names."""
    read = [read_benchmark(name, run.sources.rows(source)) for name, source in run.settings.sources.benchmarks.items()]
    return StageOutput(pl.concat([BenchmarkProblems.create_empty(), *read]))


STAGES = (questions, sampled_solutions, math_shepherd, step_truth, step_labels, reference_problems, benchmark_problems)
