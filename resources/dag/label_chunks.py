"""How the chunks of solutions, labels and features are made: in this process, or in an actor that has its own models.

Each function takes what a chunk is made with, its trajectories and a function that takes the number just finished; what
else it needs is bound by `functools.partial`, as plain values and frames. Nothing here reads or writes the lake.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import polars as pl

from cpmi_dagster.contracts.keys import CONTROLS, LOGPROBS, NEGATIVES, REJECTED_TRAJECTORIES
from cpmi_dagster.generation.monte_carlo import Portion, prefix_rollouts
from cpmi_dagster.generation.solutions import sample_solutions
from cpmi_dagster.negatives.hard_negatives import hard_negatives
from cpmi_dagster.negatives.settings import Negatives
from cpmi_dagster.resources.lake.parts import FURTHER, LONGEST_PREFIX, PART, PART_OF_ROW, part_of_logprob
from cpmi_dagster.resources.workers.chunks import Advance, ChunkRun, StageOutput
from cpmi_dagster.resources.workers.language_models import Role
from cpmi_dagster.scoring import controls
from cpmi_dagster.scoring.logprobs import answer_logprobs as score_answers
from cpmi_dagster.scoring.settings import ProfileScoring
from cpmi_dagster.trajectories.templates import render_question


def solve_questions(own: ChunkRun, chunk: pl.DataFrame, advance: Advance, *, wanted: Sequence[str]) -> StageOutput:
    """The policy's solutions of the questions of a chunk; `wanted` as their numbers."""
    settings, sample = own.settings, own.settings.sources.sample
    assert sample is not None
    prompt = own.models.chat("policy") if sample.chat else render_question
    engine = own.models.engine("policy", settings.benchmarks.batch_sequences)
    numbers = sorted(map(int, wanted))
    first, count = numbers[0], numbers[-1] - numbers[0] + 1
    frame, cost = sample_solutions(chunk, engine, prompt, sample.sampling, first, count, settings.seed)
    advance(chunk.height)
    return StageOutput(frame.filter(pl.col("solution").is_in(numbers)), engine.identity, cost)


def sample_negatives(own: ChunkRun, chunk: pl.DataFrame, advance: Advance, *, negatives: Negatives) -> StageOutput:
    """Hard negatives of a chunk, sampled from the labeler; edits of the gold answer fill the rest."""
    settings = own.settings
    engine = own.models.engine("labeler", settings.rollouts.batch_sequences) if negatives.samples else None
    comparison = settings.answers.comparison
    result = hard_negatives(chunk, engine, negatives, settings.seed, advance, comparison)
    notes = [f"{name} has fewer than {negatives.count} hard negatives" for name in result.short]
    return StageOutput(result.negatives, own.models.identity("labeler"), result.cost, notes)


def score_chunk(
    own: ChunkRun,
    chunk: pl.DataFrame,
    advance: Advance,
    *,
    role: Role,
    scoring: ProfileScoring,
    wanted: frozenset[str] | None = None,
    contrasted: bool = True,
) -> StageOutput:
    """Log-probabilities of the answers of a chunk, by the model of a role; the rest as in `answer_logprobs`."""
    model = own.models.load(role)
    made = score_answers(chunk, own.beside[NEGATIVES], model, scoring, advance, wanted, contrasted)
    counts = chunk.select("trajectory_id", step_count=pl.col("steps").list.len())
    parts = part_of_logprob(pl.col("step_count")).alias(PART)
    logprobs = made.logprobs.join(counts, on="trajectory_id", maintain_order="left").with_columns(parts)
    notes = [f"{name}: {reason}" for name, reason in made.rejected.select("trajectory_id", "reason").iter_rows()]
    frames = {LOGPROBS: logprobs.drop("step_count"), REJECTED_TRAJECTORIES: made.rejected}
    return StageOutput(frames, model.identity, made.cost, notes)


def score_controls(
    own: ChunkRun,
    chunk: pl.DataFrame,
    advance: Advance,
    *,
    scoring: ProfileScoring,
    wanted: Sequence[str],
) -> StageOutput:
    """What the labeler reads for step surprisal of a chunk; `wanted` as control/template."""
    model = own.models.load("labeler")
    made = controls.control_logprobs(chunk, model, scoring, advance)
    logprobs = made.logprobs.filter(PART_OF_ROW[CONTROLS].is_in(list(wanted)))
    return StageOutput(logprobs, model.identity, made.cost, made.notes)


def roll_out(
    own: ChunkRun,
    chunk: pl.DataFrame,
    advance: Advance,
    *,
    role: Role,
    wanted: Sequence[str],
) -> StageOutput:
    """Completions of the prefixes of a chunk, by the model of a role; `wanted` as prefix/number."""
    settings, rollouts = own.settings, own.settings.rollouts
    engine, comparison = own.models.engine(role, rollouts.batch_sequences), settings.answers.comparison
    frame, cost = prefix_rollouts(
        chunk, engine, portions_of(wanted), rollouts.sampling, settings.seed, advance, comparison
    )
    return StageOutput(frame, engine.identity, cost)


def read_features(
    own: ChunkRun, chunk: pl.DataFrame, advance: Advance, *, max_tokens: int | None = None
) -> StageOutput:
    """Hidden states of the steps of a chunk, by the backbone of the reward models; `max_tokens` as in training."""
    from cpmi_dagster.prm.features import step_features

    model = own.models.load("backbone")
    batch_tokens = own.settings.benchmarks.prediction_batch_tokens
    return StageOutput(step_features(model, chunk, batch_tokens, max_tokens, advance), model.identity)


def portions_of(parts: Iterable[str]) -> list[Portion]:
    """The rollouts of some parts, those of neighbouring prefixes that have the same numbers together."""
    numbers: dict[int, list[int]] = {}
    for prefix, _, number in (part.partition("/") for part in parts):
        numbers.setdefault(LONGEST_PREFIX + 1 if prefix == FURTHER else int(prefix), []).append(int(number))
    portions: list[Portion] = []
    for length, own in sorted(numbers.items()):
        longest = None if length > LONGEST_PREFIX else length
        portion = Portion(length, longest, min(own), len(own))
        if portions and portions[-1] == replace(portion, shortest=portions[-1].shortest, longest=length - 1):
            portion = replace(portions.pop(), longest=longest)
        portions.append(portion)
    return portions
