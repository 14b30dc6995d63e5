"""What is read from outside: trajectories, or questions that the policy solves; reference problems, benchmarks."""

from collections.abc import Iterator, Sequence
from itertools import islice

import polars as pl

from cpmi_dagster.alignment.references import read_references, together
from cpmi_dagster.benchmarks.problems import check_benchmark_file, read_benchmark
from cpmi_dagster.contracts.keys import OWN_LABELS, PROBLEMS, QUESTIONS, REFERENCES, SAMPLED, SHEPHERD, TRUTH
from cpmi_dagster.contracts.tables import BenchmarkProblems, Questions, StepLabels
from cpmi_dagster.errors import SourceError
from cpmi_dagster.files.file_states import changed_while_read
from cpmi_dagster.files.text import counted
from cpmi_dagster.generation.solutions import sample_solutions, solution_rows
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.profiles.sources import DataSource
from cpmi_dagster.resources.dag.stage import model_stage, stage
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.lake.records import FileRecord, hash_of
from cpmi_dagster.resources.sources.shard_spool import SPOOL, ShardSpool, remove_spools
from cpmi_dagster.resources.workers.chunks import Advance, StageOutput
from cpmi_dagster.trajectories.own_labels import read_step_labels
from cpmi_dagster.trajectories.rows import number_rows
from cpmi_dagster.trajectories.step_truth import read_step_truth
from cpmi_dagster.trajectories.templates import render_question

SPOOL_CHARACTERS = 16
BATCH_ROWS = 10_000
PERCENT = 100
QUESTIONS_PER_CHUNK = 64
NOT_SAMPLED = "empty: the profile reads its trajectories"


def _named(name: str, sources: Sequence[DataSource]) -> dict[str, DataSource]:
    """Sources by name: a single one by the name alone, as homes know it, several with their numbers."""
    if len(sources) == 1:
        return {name: sources[0]}
    return {f"{name} {number}": source for number, source in enumerate(sources)}


@stage(
    QUESTIONS,
    code_version="2",
    sources=lambda settings: {"questions": settings.sources.trajectories[0]} if settings.sources.sample else {},
    settings=["shards"],
)
def questions(run: StageRun, shard: str) -> StageOutput:
    """Reads the questions that the policy solves, where the profile samples its trajectories; by shard, as rows are."""
    if not run.settings.sources.sample:
        return StageOutput(Questions.create_empty(), notes=[NOT_SAMPLED])
    rows = _rows_of_shard(run, shard).rename({"row_number": "question_number"})
    return StageOutput(rows.select(Questions.column_names()))


@model_stage(
    SAMPLED,
    inputs=[QUESTIONS],
    settings=["sources.solution_sampling"],
    asks=["sources.solutions_of_each"],
    unasked=NOT_SAMPLED,
    models=["policy"],
    lineage={"text": [f"{QUESTIONS}.question"]},
)
def sampled_solutions(run: StageRun, shard: str) -> StageOutput:
    """The policy's solutions of the questions; asked for more, only these are sampled."""
    settings, sample = run.settings, run.settings.sources.sample
    numbers = sorted(map(int, run.parts))
    first, count = numbers[0], numbers[-1] - numbers[0] + 1

    def make(chunk: pl.DataFrame, advance: Advance) -> StageOutput:
        assert sample is not None
        prompt = run.models.chat("policy") if sample.chat else render_question
        engine = run.models.engine("policy", settings.benchmarks.batch_sequences)
        frame, cost = sample_solutions(chunk, engine, prompt, sample.sampling, first, count, settings.seed)
        advance(chunk.height)
        return StageOutput(frame.filter(pl.col("solution").is_in(numbers)), engine.identity, cost)

    return run.in_chunks(shard, run.read(QUESTIONS, shard), QUESTIONS_PER_CHUNK, make)


@stage(
    SHEPHERD,
    code_version="6",
    inputs=[QUESTIONS, SAMPLED],
    sources=lambda settings: {} if settings.sources.sample else _named("math_shepherd", settings.sources.trajectories),
    settings=["shards", "sources.solution_steps"],
    lineage={
        "row_number": [f"{SAMPLED}.question_number", f"{SAMPLED}.solution"],
        "input": [f"{SAMPLED}.text"],
        "steps": [f"{SAMPLED}.text"],
    },
)
def math_shepherd(run: StageRun, shard: str) -> StageOutput:
    """Reads the source rows, or takes the sampled solutions; a hash of the question says in which shard they are."""
    if steps := run.settings.sources.solution_steps:
        return StageOutput(solution_rows(run.read(QUESTIONS, shard), run.read(SAMPLED, shard), steps))
    return StageOutput(_rows_of_shard(run, shard))


def _rows_of_shard(run: StageRun, shard: str) -> pl.DataFrame:
    """The rows of a shard; all shards share one reading of the source."""
    spool = ShardSpool(run.lake.work_folder(SPOOL) / hash_of(run.facts)[:SPOOL_CHARACTERS])
    rows = spool.read(shard, lambda: _numbered(run))
    others = [run.lake.intact_record(run.tables[0], other) for other in run.settings.shard_keys if other != shard]
    if all(record is not None and _has_read(record, run, spool.filled_at) for record in others):
        remove_spools(spool.folder.parent)
    return rows


def _has_read(record: FileRecord, run: StageRun, filled_at: str) -> bool:
    """Whether a shard is of this version of the source, and of the spool where all shards are made again."""
    is_due = run.tables[0] in run.lake.remake and record.written_at < filled_at
    return record.inputs.get("sources") == run.facts["sources"] and not is_due


def _numbered(run: StageRun) -> Iterator[pl.DataFrame]:
    """The rows of all sources, batch by batch, with their numbers and shards."""
    advance = run.track("reading", PERCENT)
    sources = run.settings.sources.trajectories
    ids: dict[str, int] = {}
    first = percent = 0
    for number, source in enumerate(sources):
        rows = run.sources.stream(source)
        while batch := list(islice(rows, BATCH_ROWS)):
            yield number_rows((row for row, _ in batch), first, run.settings.shards, ids, source.reading)
            first, read = first + len(batch), int(PERCENT * (number + batch[-1][1]) / len(sources))
            advance(read - percent)
            percent = read
    places = ", ".join(source.place for source in sources)
    if not first:
        raise SourceError(f"the trajectory source {places} has no rows")
    if list(map(run.sources.version, sources)) != list(run.facts["sources"].values()):
        raise changed_while_read(f"the trajectory source {places}")


@stage(
    TRUTH,
    code_version="3",
    sources=lambda settings: _named("step_truth", settings.sources.step_truth),
)
def step_truth(run: StageRun) -> StageOutput:
    """True step labels, from people or from a generated world; empty unless the profile names a source."""
    rows = run.sources.stream_all(run.settings.sources.step_truth)
    truth, without = read_step_truth(row for row, _ in rows)
    notes = [f"{counted(without, 'row')} of the source of truth say of no step whether it is right"] if without else []
    return StageOutput(truth, notes=notes)


@stage(
    OWN_LABELS,
    code_version="2",
    sources=lambda settings: settings.sources.step_labels,
    settings=["sources.probability_labels"],
)
def step_labels(run: StageRun) -> StageOutput:
    """The user's own step labels, one reward type per file; empty unless the profile names one."""
    read = [
        read_step_labels(name, (row for row, _ in run.sources.stream(source)), source.probabilities)
        for name, source in run.settings.sources.step_labels.items()
    ]
    return StageOutput(pl.concat([StepLabels.create_empty(), *read]))


@stage(
    REFERENCES,
    code_version="4",
    sources=lambda settings: {f"{number}": source for number, source in enumerate(settings.sources.references)},
    settings=["sources.references"],
)
def reference_problems(run: StageRun) -> StageOutput:
    """Problems with gold answers: given by the set, or read from the solution (`#### n`, last `\\boxed{}`, stated).

    Empty if the profile names no references; then every trajectory must have its own gold answer.
    """
    read = [
        read_references(run.sources.records(source), source.source, source.split, source.config)
        for source in run.settings.sources.references
    ]
    return StageOutput(together(read))


def _benchmarks(settings: Settings) -> dict[str, DataSource]:
    for name, source in settings.sources.benchmarks.items():
        check_benchmark_file(name, source.path)
    return settings.sources.benchmarks


@stage(PROBLEMS, sources=_benchmarks)
def benchmark_problems(run: StageRun) -> StageOutput:
    """Problems of all benchmarks: process benchmarks with steps to judge, question sets with gold answers."""
    read = [read_benchmark(name, run.sources.rows(source)) for name, source in run.settings.sources.benchmarks.items()]
    return StageOutput(pl.concat([BenchmarkProblems.create_empty(), *read]))


STAGES = (questions, sampled_solutions, math_shepherd, step_truth, step_labels, reference_problems, benchmark_problems)
