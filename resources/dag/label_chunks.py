"""How the chunks of labels are made: in this process, or in an actor that has its own models.

Each function takes what a chunk is made with, its trajectories and a function that takes the number just finished; what
else it needs is bound by `functools.partial`, as plain values and frames. Nothing here reads or writes the lake.
"""

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from cpmi_dagster.contracts.keys import LOGPROBS, NEGATIVES, REJECTED_TRAJECTORIES
from cpmi_dagster.generation.monte_carlo import prefix_rollouts
from cpmi_dagster.negatives import hard_negatives as negatives
from cpmi_dagster.resources.workers.chunks import Advance, ChunkRun, StageOutput
from cpmi_dagster.resources.workers.language_models import Role
from cpmi_dagster.scoring import controls
from cpmi_dagster.scoring.logprobs import ScoredAnswers
from cpmi_dagster.scoring.logprobs import answer_logprobs as score_answers
from cpmi_dagster.scoring.settings import ProfileScoring, ScoredAlready


def sample_negatives(own: ChunkRun, chunk: pl.DataFrame, advance: Advance) -> StageOutput:
    """Hard negatives of a chunk, sampled from the labeler; edits of the gold answer fill the rest."""
    settings = own.settings
    engine = own.models.engine("labeler", settings.rollouts.batch_sequences) if settings.negatives.samples else None
    comparison = settings.answers.comparison
    result = negatives.hard_negatives(chunk, engine, settings.negatives, settings.seed, advance, comparison)
    notes = [f"{name} has fewer than {settings.negatives.count} hard negatives" for name in result.short]
    return StageOutput(result.negatives, own.models.identity("labeler"), result.cost, notes)


def score_chunk(
    own: ChunkRun,
    chunk: pl.DataFrame,
    advance: Advance,
    *,
    role: Role,
    scoring: ProfileScoring,
    scored: ScoredAlready | None = None,
    contrasted: bool = True,
) -> StageOutput:
    """Log-probabilities of the answers of a chunk, by the model of a role; the rest as in `answer_logprobs`."""
    model = own.models.load(role)
    made = score_answers(chunk, own.beside[NEGATIVES], model, scoring, advance, scored, contrasted)
    return scored_output(made, model.identity)


def score_by_prover(own: ChunkRun, chunk: pl.DataFrame, advance: Advance, *, scoring: ProfileScoring) -> StageOutput:
    """`score_chunk` by the prover, for the table that has no rejected trajectories."""
    made = score_chunk(own, chunk, advance, role="prover", scoring=scoring)
    return replace(made, frames=made.frame(LOGPROBS))


def score_controls(
    own: ChunkRun,
    chunk: pl.DataFrame,
    advance: Advance,
    *,
    pool: pl.DataFrame,
    scoring: ProfileScoring,
    names: Sequence[str],
) -> StageOutput:
    """What the labeler reads for controls, of a chunk; `pool` and `names` as in `control_logprobs`."""
    model, seed = own.models.load("labeler"), own.settings.seed
    made = controls.control_logprobs(chunk, pool, own.beside[NEGATIVES], model, scoring, names, seed, advance)
    return StageOutput(made.logprobs, model.identity, made.cost, made.notes)


def roll_out(
    own: ChunkRun,
    chunk: pl.DataFrame,
    advance: Advance,
    *,
    role: Role,
    count: int,
    include_question: bool,
    steps: int | None,
    made: tuple[int | None, int] | None,
) -> StageOutput:
    """Completions of the prefixes of a chunk, by the model of a role; the rest as in `prefix_rollouts`."""
    settings, rollouts = own.settings, own.settings.rollouts
    engine, comparison = own.models.engine(role, rollouts.batch_sequences), settings.answers.comparison
    frame, cost = prefix_rollouts(
        chunk, engine, count, rollouts.sampling, settings.seed, include_question, advance, steps, made, comparison
    )
    return StageOutput(frame, engine.identity, cost)


def scored_output(scored: ScoredAnswers, identity: str) -> StageOutput:
    """The tables of scored answers, with a note on every rejected trajectory."""
    frames = {LOGPROBS: scored.logprobs, REJECTED_TRAJECTORIES: scored.rejected}
    return StageOutput(frames, identity, scored.cost, _notes_on_rejected(scored))


def _notes_on_rejected(scored: ScoredAnswers) -> list[str]:
    return [f"{name}: {reason}" for name, reason in scored.rejected.select("trajectory_id", "reason").iter_rows()]
