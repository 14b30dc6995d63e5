"""Rewards of every step of the selected trajectories, and the log-probabilities and rollouts they are computed from.

Models answer through `StageRun.answer_cache` and `StageRun.engine`: a stage that runs again asks what is new.
"""

from functools import partial
from typing import Any

import dagster as dg
import polars as pl

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.keys import (
    CONTROL_LOGPROBS,
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
from cpmi_dagster.contracts.tables import HardNegatives, StepRewards
from cpmi_dagster.generation.monte_carlo import prefix_rollouts, sample_trajectories
from cpmi_dagster.negatives.hard_negatives import hard_negatives as sample_negatives
from cpmi_dagster.resources.answers.questions import ADMISSION, ADMISSION_KEY, SCORE, SCORE_KEY, cached_scores
from cpmi_dagster.resources.dag.stage import StageOutput, model_stage, stage
from cpmi_dagster.resources.dag.stage_run import Home, StageRun
from cpmi_dagster.resources.models.language_models import Role
from cpmi_dagster.rewards import costs
from cpmi_dagster.rewards import step_rewards as rewards
from cpmi_dagster.rewards.reward_type import LabelInputs, Steps
from cpmi_dagster.scoring import conditionings
from cpmi_dagster.scoring.logprobs import ControlScores, ScoredAnswers
from cpmi_dagster.trajectories.step_labels import external_rewards

SCORED_TEXTS = [
    "alignment/trajectories.question",
    "alignment/trajectories.steps",
    "alignment/trajectories.gold_answer",
    "labels/hard_negatives.answer",
]
"""Columns that log-probabilities depend on."""
SCORING_ASKED = ("demand.conditionings", "scoring.templates", "demand.negatives")
COSTED = ("hard_negatives", "answer_logprobs", "control_logprobs", "policy_rollouts", "prover_rollouts")


@model_stage(
    NEGATIVES,
    code_version="12",
    inputs=[TRAJECTORIES, SELECTED],
    models=["labeler"],
    settings=[
        "negatives.samples",
        "negatives.max_answer_characters",
        "negatives.sampling",
        "negatives.sees",
        "answers.identity",
        "demand.negatives",
    ],
    lineage={"answer": ["alignment/trajectories.gold_answer", "alignment/trajectories.steps"]},
)
def hard_negatives(run: StageRun) -> StageOutput:
    """Samples wrong answers from the labeler; edits of the gold answer fill up the count M (5.1)."""
    settings, negatives = run.settings, run.settings.negatives
    trajectories = run.selected().drop_nulls("gold_answer")
    engine = run.engine("labeler", negatives.sampling, settings.rollouts.batch_sequences, stop="line")
    advance = run.track(trajectories.height)
    sampler = engine if negatives.samples else None
    result = sample_negatives(trajectories, sampler, negatives, settings.seed, advance, settings.answers.comparison)
    notes = [f"{name} has fewer than {negatives.count} hard negatives" for name in result.short]
    return StageOutput(result.negatives, run.models.identity("labeler"), engine.spent, notes)


@model_stage(
    LOGPROBS,
    also=[REJECTED_TRAJECTORIES],
    code_version="2",
    inputs=[TRAJECTORIES, SELECTED, NEGATIVES],
    settings=["scoring.other_layout", *SCORING_ASKED],
    models=["labeler"],
    lineage={
        "answer_rank": ["labels/hard_negatives.rank"],
        "logprob_sum": SCORED_TEXTS,
        "token_count": ["alignment/trajectories.gold_answer", "labels/hard_negatives.answer"],
    },
)
def answer_logprobs(run: StageRun) -> StageOutput:
    """Scores every answer after every context, for each template, by packed token trees (Eq. 3).

    If the profile adds conditionings, templates or hard negatives, only the additions are scored.
    """
    demand = run.settings.demand
    scored = _scored(run, run.read(NEGATIVES), demand.conditionings, with_negatives=demand.negatives != 0)
    notes = [f"{name}: {reason}" for name, reason in scored.rejected.select("trajectory_id", "reason").iter_rows()]
    frames = {LOGPROBS: scored.logprobs, REJECTED_TRAJECTORIES: scored.rejected}
    return StageOutput(frames, run.models.identity("labeler"), scored.cost, notes)


@model_stage(
    CONTROL_LOGPROBS,
    code_version="2",
    inputs=[TRAJECTORIES, SELECTED],
    settings=["scoring.other_layout", "scoring.templates"],
    models=["labeler"],
    lineage={"logprob_sum": SCORED_TEXTS[:2]},
)
def control_logprobs(run: StageRun) -> StageOutput:
    """Scores each step after the question and the steps before it, for each template."""
    logprobs, cost, notes = ControlScores.of(_scored(run, HardNegatives.create_empty(), (), of_steps=True))
    return StageOutput(logprobs, run.models.identity("labeler"), cost, notes)


def _scored(
    run: StageRun,
    negatives: pl.DataFrame,
    chosen: tuple[str, ...],
    with_negatives: bool = False,
    of_steps: bool = False,
) -> ScoredAnswers:
    """Log-probabilities of answers, or with `of_steps` of steps, of the shard's trajectories."""
    trajectories = run.selected()
    scoring = run.settings.scoring.model_copy(update={"conditionings": chosen})
    how = {"layout": scoring.layout, "scorer": scoring.scorer}
    # whether a trajectory fits the context depends on what is scored
    kind = {"contrasted": with_negatives, **({"of_steps": True} if of_steps else {})}
    admitted = {**how, **kind, "conditionings": chosen, "templates": scoring.templates}
    labeler = run.models.spec("labeler")  # local weights, also if an endpoint samples
    return cached_scores(
        run.answer_cache(labeler, SCORE_KEY, SCORE, how),
        run.answer_cache(labeler, ADMISSION_KEY, ADMISSION, admitted),
        partial(run.models.load, "labeler"),
        *(trajectories, negatives, scoring, with_negatives, of_steps),
        advance=run.track(trajectories.height),
    )


@stage(
    SCORES,
    inputs=[LOGPROBS],
    settings=SCORING_ASKED,
    lineage={
        name: ["labels/answer_logprobs.logprob_sum", "labels/answer_logprobs.token_count"]
        for name in ("gold_shift", "negative_shift", "cpmi")
    },
)
def template_scores(run: StageRun) -> StageOutput:
    """Subtracts the shift of the negatives from that of the gold answer."""
    scores = conditionings.template_scores(run.read(LOGPROBS), run.settings.demand.conditionings)
    return StageOutput(scores, model=run.models.identity("labeler"))


rolls_out = partial(
    model_stage,
    code_version="9",
    inputs=[TRAJECTORIES, SELECTED],
    lineage={
        "answer": ["alignment/trajectories.question", "alignment/trajectories.steps"],
        "correct": ["alignment/trajectories.gold_answer"],
    },
)
PREFIXES = 5
"""Assumed prefixes of a trajectory; with `chunk_trajectories` it gives the prompts of a cached file."""
ROLLOUT_SETTINGS = ("rollouts.sampling", "rollouts.sample", "answers.identity")


@rolls_out(
    POLICY_ROLLOUTS,
    settings=[*ROLLOUT_SETTINGS, "demand.policy_steps", "rollouts.policy_count"],
    models=["rollouts"],
)
def policy_rollouts(run: StageRun) -> StageOutput:
    """Samples T completions of each prefix that a reward type needs."""
    return _rollouts(run, "rollouts", 1, run.settings.demand.policy_steps, run.settings.rollouts.policy_count)


@rolls_out(
    PROVER_ROLLOUTS,
    settings=[*ROLLOUT_SETTINGS, "demand.prover_steps", "rollouts.prover_count"],
    models=["prover"],
)
def prover_rollouts(run: StageRun) -> StageOutput:
    """Samples completions of each prefix that PAV needs, from the question alone on."""
    return _rollouts(run, "prover", 0, run.settings.demand.prover_steps, run.settings.rollouts.prover_count)


def _completed(run: StageRun) -> pl.DataFrame:
    """The shard's share of the trajectories that rollouts are sampled for."""
    return sample_trajectories(
        run.selected().drop_nulls("gold_answer"), run.settings.rollouts_of(str(run.partition)), run.settings.seed
    )


def _rollouts(run: StageRun, role: Role, shortest: int, longest: Steps, count: int) -> StageOutput:
    settings, rollouts, trajectories = run.settings, run.settings.rollouts, _completed(run)
    engine = run.engine(role, rollouts.sampling, rollouts.batch_sequences, size=PREFIXES * rollouts.chunk_trajectories)
    frame, _ = prefix_rollouts(
        trajectories, engine, shortest=shortest, longest=longest, count=count, sampling=rollouts.sampling,
        seed=settings.seed, progress=run.track(trajectories.height), comparison=settings.answers.comparison,
    )  # fmt: skip
    return StageOutput(frame, engine.identity, engine.spent)


def _by_type(home: Home, shard: str | None) -> dict[str, Any]:
    """The distribution of the rewards of a shard, by type."""
    return {"rewards": dg.MetadataValue.md(rewards.reward_summary(home.lake.read(STEP_REWARDS, shard)))}


@stage(
    STEP_REWARDS,
    code_version="7",
    summary=_by_type,
    inputs=[TRAJECTORIES, SELECTED, LOGPROBS, CONTROL_LOGPROBS, POLICY_ROLLOUTS, PROVER_ROLLOUTS, OWN_LABELS, TRUTH],
    settings=[
        *(f"rewards.{name}" for name in ("types", "default_conditioning", "alpha_read", "weights_hash")),
        *("answers.identity", "scoring.templates", "rollouts.policy_count", "rollouts.prover_count"),
    ],
    lineage={
        "reward": [
            *(f"{key}.{column}" for key in (LOGPROBS, CONTROL_LOGPROBS) for column in ("logprob_sum", "token_count")),
            *(f"{key}.correct" for key in (POLICY_ROLLOUTS, PROVER_ROLLOUTS, TRUTH)),
            f"{OWN_LABELS}.reward",
        ]
    },
)
def step_rewards(run: StageRun) -> StageOutput:
    """Computes MC, PAV, CPMI, merges and controls from log-probabilities and rollouts.

    The user's labels are added under their names.
    """
    trajectories, chosen = run.selected(), run.settings.rewards
    inputs = LabelInputs(
        trajectories,
        *map(run.read, (LOGPROBS, POLICY_ROLLOUTS, PROVER_ROLLOUTS, CONTROL_LOGPROBS, TRUTH)),
        conditioning=chosen.default_conditioning,
        alpha=chosen.alpha,
        seed=run.settings.seed,
        same=run.settings.answers.comparison.same,
        weights=chosen.fitted,
    )
    frame = rewards.step_rewards(inputs, chosen.types)
    labels = external_rewards(run.read(OWN_LABELS), trajectories)
    notes = rewards.notes_on_unlabelled(frame, inputs, chosen.types)
    joined = pl.concat([frame, labels]).sort(StepRewards.primary_key())
    return StageOutput(joined, model=run.models.identity("labeler"), notes=notes)


@stage(
    COSTS,
    code_version="4",
    inputs=[TRAJECTORIES, SELECTED, *(f"labels/{name}" for name in COSTED)],
    settings=[
        "rewards.types",
        "rewards.default_conditioning",
        "negatives.count",
        "scoring.templates",
        "rollouts.sample",
    ],
    counts_costs=True,
    lineage={
        "generated_tokens": ["labels/policy_rollouts.generated_tokens", "labels/prover_rollouts.generated_tokens"]
    },
)
def labeling_costs(run: StageRun) -> StageOutput:
    """Charges each method for the contexts, answers, steps and rollouts that it uses."""
    settings, shard, selected, scored = run.settings, str(run.partition), run.selected(), run.read(LOGPROBS)
    records = {name: run.lake.record(f"labels/{name}", shard) for name in COSTED}
    spent = {name: Cost(**record.cost) if record else Cost() for name, record in records.items()}
    rollouts = {role: run.read(f"labels/{name}") for role, name in costs.SAMPLED.items()}
    # trajectories without a gold answer are not labelled
    completed = max(rows["trajectory_id"].n_unique() for rows in rollouts.values())
    sampled = {role: costs.sampled_rollouts(rows, selected) for role, rows in rollouts.items()}
    frame = costs.labeling_costs(
        shard,
        trajectories=scored["trajectory_id"].n_unique() or completed or selected.height,
        measured=costs.Measured(spent, sampled, costs.target_tokens(scored)),
        rewards=settings.rewards,
        negatives=settings.negatives.count,
        models={role: run.models.identity(role) for role in ("labeler", "rollouts", "prover")},
        completed=completed,
        read=run.read(CONTROL_LOGPROBS)["trajectory_id"].n_unique(),
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
