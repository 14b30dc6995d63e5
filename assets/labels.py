"""Rewards of every step of the selected trajectories; raw log-probabilities and rollouts are stored."""

from functools import partial
from typing import Any

import dagster as dg
import polars as pl

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.keys import (
    CONTROLS,
    COSTS,
    LOGPROBS,
    NEGATIVES,
    OWN_LABELS,
    POLICY_ROLLOUTS,
    PROVER_ROLLOUTS,
    REJECTED_TRAJECTORIES,
    SCORES,
    SELECTED,
    STEP_REWARDS,
    TRAJECTORIES,
    TRUTH,
)
from cpmi_dagster.generation.monte_carlo import prefix_rollouts, sampled
from cpmi_dagster.negatives.hard_negatives import hard_negatives as sample_negatives
from cpmi_dagster.resources.dag.stage import model_stage, stage
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.lake.parts import PART, PART_OF_ROW, part_of_logprob, portions_of
from cpmi_dagster.resources.workers.chunks import Advance, StageOutput
from cpmi_dagster.resources.workers.language_models import Role
from cpmi_dagster.rewards import costs
from cpmi_dagster.rewards import step_rewards as rewards
from cpmi_dagster.rewards.formulas import Evidence
from cpmi_dagster.rewards.summary import reward_summary
from cpmi_dagster.scoring import conditionings, controls
from cpmi_dagster.scoring.logprobs import answer_logprobs as score_answers
from cpmi_dagster.scoring.settings import ProfileScoring
from cpmi_dagster.trajectories import own_labels

SCORED_TEXTS = [
    "alignment/trajectories.question",
    "alignment/trajectories.steps",
    "alignment/trajectories.gold_answer",
    "labels/hard_negatives.answer",
]
"""What a log-probability is of."""
SCORING_ASKED = ("demand.conditionings", "scoring.templates", "demand.negatives")
COSTED = ("hard_negatives", "answer_logprobs", "policy_rollouts", "prover_rollouts")


@model_stage(
    NEGATIVES,
    code_version="6",
    inputs=[TRAJECTORIES, SELECTED],
    models=["labeler"],
    settings=[
        "negatives.samples",
        "negatives.max_answer_characters",
        "negatives.sampling",
        "negatives.sees",
        "answers.identity",
        "scoring.chunk_trajectories",
    ],
    asks=["demand.negatives"],
    lineage={"answer": ["alignment/trajectories.gold_answer", "alignment/trajectories.steps"]},
)
def hard_negatives(run: StageRun, shard: str) -> StageOutput:
    """Wrong answers sampled from the labeler with the paper's prompt; edits of the gold answer fill the rest (5.1)."""
    settings = run.settings

    def make(chunk: pl.DataFrame, advance: Advance) -> StageOutput:
        negatives = settings.negatives
        engine = run.models.engine("labeler", settings.rollouts.batch_sequences) if negatives.samples else None
        result = sample_negatives(chunk, engine, negatives, settings.seed, advance, settings.answers.comparison)
        notes = [f"{name} has fewer than {negatives.count} hard negatives" for name in result.short]
        return StageOutput(result.negatives, run.models.identity("labeler"), result.cost, notes)

    return run.in_chunks(shard, run.selected(shard), settings.scoring.chunk_trajectories, make)


@model_stage(
    LOGPROBS,
    also=[REJECTED_TRAJECTORIES],
    inputs=[TRAJECTORIES, SELECTED, NEGATIVES],
    settings=["scoring.other_layout"],
    asks=SCORING_ASKED,
    models=["labeler"],
    lineage={
        "answer_rank": ["labels/hard_negatives.rank"],
        "logprob_sum": SCORED_TEXTS,
        "token_count": ["alignment/trajectories.gold_answer", "labels/hard_negatives.answer"],
    },
)
def answer_logprobs(run: StageRun, shard: str) -> StageOutput:
    """Scores every answer under every context and template, one forward pass per packed token tree (Eq. 3).

    If the profile adds conditionings, templates or hard negatives, only the additions are scored.
    """
    demand = run.settings.demand
    scoring = run.settings.scoring.model_copy(update={"conditionings": demand.conditionings})
    options = {"wanted": frozenset(run.parts), "contrasted": demand.negatives != 0}
    make = partial(score_chunk, run, scoring, run.read(NEGATIVES, shard), **options)
    return run.in_chunks(shard, run.selected(shard), scoring.chunk_trajectories, make)


def score_chunk(
    run: StageRun,
    scoring: ProfileScoring,
    negatives: pl.DataFrame,
    chunk: pl.DataFrame,
    advance: Advance,
    **options: Any,
) -> StageOutput:
    """Log-probabilities of the answers of a chunk; the rest as in `score_answers`."""
    model, own = run.models.load("labeler"), negatives.join(chunk, on="trajectory_id", how="semi")
    made = score_answers(chunk, own, model, scoring, advance, **options)
    counts = chunk.select("trajectory_id", step_count=pl.col("steps").list.len())
    parts = part_of_logprob(pl.col("step_count")).alias(PART)
    logprobs = made.logprobs.join(counts, on="trajectory_id", maintain_order="left").with_columns(parts)
    notes = [f"{name}: {reason}" for name, reason in made.rejected.select("trajectory_id", "reason").iter_rows()]
    frames = {LOGPROBS: logprobs.drop("step_count"), REJECTED_TRAJECTORIES: made.rejected}
    return StageOutput(frames, model.identity, made.cost, notes)


@model_stage(
    CONTROLS,
    inputs=[TRAJECTORIES, SELECTED],
    settings=["rewards.default_conditioning", "scoring.other_layout"],
    asks=["demand.controls", "scoring.templates"],
    models=["labeler"],
    lineage={"logprob_sum": SCORED_TEXTS[:2]},
)
def control_logprobs(run: StageRun, shard: str) -> StageOutput:
    """Scores the steps themselves, after the question and the steps before them; more templates score only these."""
    conditionings = (run.settings.rewards.default_conditioning,)
    scoring = run.settings.scoring.model_copy(update={"conditionings": conditionings})
    make = partial(score_controls, run, scoring)
    return run.in_chunks(shard, run.selected(shard), scoring.chunk_trajectories, make)


def score_controls(run: StageRun, scoring: ProfileScoring, chunk: pl.DataFrame, advance: Advance) -> StageOutput:
    """Log-probabilities of the steps of a chunk."""
    model = run.models.load("labeler")
    made = controls.control_logprobs(chunk, model, scoring, advance)
    logprobs = made.logprobs.filter(PART_OF_ROW[CONTROLS].is_in(list(run.parts)))
    return StageOutput(logprobs, model.identity, made.cost, made.notes)


@stage(
    SCORES,
    inputs=[LOGPROBS],
    settings=SCORING_ASKED,
    lineage={
        name: ["labels/answer_logprobs.logprob_sum", "labels/answer_logprobs.token_count"]
        for name in ("gold_shift", "negative_shift", "cpmi")
    },
)
def template_scores(run: StageRun, shard: str) -> StageOutput:
    """CPMI of every step under every template and conditioning (Eq. 3); empty where no hard negatives are scored."""
    demand, logprobs = run.settings.demand, run.read(LOGPROBS, shard)
    scored = demand.conditionings if demand.negatives else ()
    return StageOutput(conditionings.template_scores(logprobs, scored), model=run.models.identity("labeler"))


rolls_out = partial(
    model_stage,
    code_version="5",
    inputs=[TRAJECTORIES, SELECTED],
    settings=["rollouts.sampling", "rollouts.chunk_trajectories", "rollouts.sample", "answers.identity"],
    lineage={
        "answer": ["alignment/trajectories.question", "alignment/trajectories.steps"],
        "correct": ["alignment/trajectories.gold_answer"],
    },
)


@rolls_out(
    POLICY_ROLLOUTS,
    asks=["demand.policy_steps", "rollouts.policy_count"],
    models=["rollouts"],
)
def policy_rollouts(run: StageRun, shard: str) -> StageOutput:
    """T completions by the labeler of every prefix that a reward type needs; MC rewards are their means (Eq. 1)."""
    return _rollouts(run, shard, "rollouts")


@rolls_out(
    PROVER_ROLLOUTS,
    asks=["demand.prover_steps", "rollouts.prover_count"],
    models=["prover"],
)
def prover_rollouts(run: StageRun, shard: str) -> StageOutput:
    """Completions by the prover, also of the question alone: PAV's advantage term (Eq. 2)."""
    return _rollouts(run, shard, "prover")


def _completed(run: StageRun, shard: str) -> pl.DataFrame:
    """The trajectories of a shard whose prefixes are completed."""
    return sampled(run.selected(shard), run.settings.rollouts_of(shard), run.settings.seed)


def _rollouts(run: StageRun, shard: str, role: Role) -> StageOutput:
    """Asked for more prefixes or rollouts, only what these add is drawn."""
    make = partial(roll_out, run, role)
    return run.in_chunks(shard, _completed(run, shard), run.settings.rollouts.chunk_trajectories, make)


def roll_out(run: StageRun, role: Role, chunk: pl.DataFrame, advance: Advance) -> StageOutput:
    """Completions of the prefixes of a chunk, by the model of a role."""
    settings, rollouts = run.settings, run.settings.rollouts
    engine, comparison = run.models.engine(role, rollouts.batch_sequences), settings.answers.comparison
    frame, cost = prefix_rollouts(
        chunk, engine, portions_of(run.parts), rollouts.sampling, settings.seed, advance, comparison
    )
    return StageOutput(frame, engine.identity, cost)


@stage(
    STEP_REWARDS,
    code_version="3",
    inputs=[
        TRAJECTORIES,
        SELECTED,
        LOGPROBS,
        SCORES,
        CONTROLS,
        POLICY_ROLLOUTS,
        PROVER_ROLLOUTS,
        OWN_LABELS,
        TRUTH,
    ],
    settings=[
        "rewards",
        "demand",
        "answers.identity",
        "scoring.templates",
        "rollouts.policy_count",
        "rollouts.prover_count",
    ],
    lineage={
        "reward": [
            "labels/template_scores.cpmi",
            f"{CONTROLS}.logprob_sum",
            "labels/policy_rollouts.correct",
            "labels/prover_rollouts.correct",
            f"{OWN_LABELS}.reward",
            f"{TRUTH}.correct",
        ]
    },
)
def step_rewards(run: StageRun, shard: str) -> StageOutput:
    """Computes every reward type from log-probabilities and rollouts: MC, PAV, CPMI, their merges and controls.

    The user's own labels are added under their own names.
    """
    trajectories, given, chosen = run.selected(shard), run.read(OWN_LABELS), run.settings.rewards
    evidence = Evidence(
        logprobs=run.read(LOGPROBS, shard),
        scores=run.read(SCORES, shard),
        policy_rollouts=run.read(POLICY_ROLLOUTS, shard),
        prover_rollouts=run.read(PROVER_ROLLOUTS, shard),
        trajectories=trajectories,
        default_conditioning=chosen.default_conditioning,
        alpha=chosen.alpha,
        seed=run.settings.seed,
        control_logprobs=run.read(CONTROLS, shard),
        step_truth=run.read(TRUTH),
        same=run.settings.answers.comparison.same,
    )
    frame = rewards.step_rewards(evidence, chosen.types)
    own = own_labels.own_rewards(given, trajectories)
    notes = [
        *rewards.notes_on_unlabelled(frame, trajectories.height, chosen.types),
        *own_labels.notes_on_others(given, run.read(SELECTED)),
    ]
    joined = own_labels.joined(frame, own)
    shown = {"rewards": dg.MetadataValue.md(reward_summary(joined))}
    return StageOutput(joined, model=run.models.identity("labeler"), notes=notes, metadata=shown)


@stage(
    COSTS,
    inputs=[TRAJECTORIES, SELECTED, *(f"labels/{name}" for name in COSTED)],
    settings=["rewards.types", "demand", "cost_basis", "scoring.templates", "rollouts.sample"],
    counts_costs=True,
    lineage={
        "generated_tokens": ["labels/policy_rollouts.generated_tokens", "labels/prover_rollouts.generated_tokens"]
    },
)
def labeling_costs(run: StageRun, shard: str) -> StageOutput:
    """Time and tokens of each labeling method; each method is charged for what it uses."""
    settings = run.settings
    records = {name: run.lake.record(f"labels/{name}", shard) for name in COSTED}
    spent = {name: Cost.from_dict(record.cost) if record else Cost.zero() for name, record in records.items()}
    targets = costs.target_tokens(run.read(LOGPROBS, shard))
    # what was scored together with these answers, and is not asked for, is not part of a method's cost
    everything = int(run.lake.read_whole(LOGPROBS, shard, ["token_count"])["token_count"].sum())
    share = costs.tokens_of(targets) / max(everything, 1)
    spent["answer_logprobs"] = spent["answer_logprobs"].times(share)
    rollouts = {role: run.lake.read_whole(f"labels/{name}", shard) for role, name in costs.SAMPLED.items()}
    frame = costs.labeling_costs(
        shard=shard,
        trajectories=run.selected(shard).height,
        measured=costs.Measured(spent, rollouts, targets),
        basis=settings.cost_basis,
        models={role: run.models.identity(role) for role in ("labeler", "rollouts", "prover")},
        methods=settings.rewards.methods,
        completed=_completed(run, shard).height,
    )
    return StageOutput(frame)


STAGES = (
    hard_negatives,
    answer_logprobs,
    control_logprobs,
    template_scores,
    policy_rollouts,
    prover_rollouts,
    step_rewards,
    labeling_costs,
)
