"""Rewards of every step of the selected trajectories; raw log-probabilities and rollouts are stored.

Models are asked through `StageRun.calls` and `StageRun.engine`, which keep what they answer: a table that is made again
asks only for what is new.
"""

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
from cpmi_dagster.contracts.tables import HardNegatives
from cpmi_dagster.generation.monte_carlo import prefix_rollouts, sample_trajectories
from cpmi_dagster.negatives.hard_negatives import hard_negatives as sample_negatives
from cpmi_dagster.resources.dag.declaration import StageOutput
from cpmi_dagster.resources.dag.stage import model_stage, stage
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.lake.kept_answers import ADMISSION, ADMISSION_KEY, SCORE, SCORE_KEY, kept_scores
from cpmi_dagster.resources.workers.language_models import Role
from cpmi_dagster.rewards import costs
from cpmi_dagster.rewards import step_rewards as rewards
from cpmi_dagster.rewards.reward_type import Evidence, Steps
from cpmi_dagster.scoring import conditionings
from cpmi_dagster.scoring.logprobs import ControlScores, ScoredAnswers
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
    code_version="9",
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
    asked=lambda settings: settings.demand.asks_for[NEGATIVES],
    lineage={"answer": ["alignment/trajectories.gold_answer", "alignment/trajectories.steps"]},
)
def hard_negatives(run: StageRun) -> StageOutput:
    """Wrong answers sampled from the labeler with the paper's prompt; edits of the gold answer fill the rest (5.1)."""
    settings, negatives = run.settings, run.settings.negatives
    trajectories = run.selected().drop_nulls("gold_answer")
    engine = run.engine("labeler", negatives.sampling, settings.rollouts.batch_sequences, stop="line")
    advance = run.track(trajectories.height)
    asked = engine if negatives.samples else None
    result = sample_negatives(trajectories, asked, negatives, settings.seed, advance, settings.answers.comparison)
    notes = [f"{name} has fewer than {negatives.count} hard negatives" for name in result.short]
    return StageOutput(result.negatives, run.models.identity("labeler"), engine.spent, notes)


@model_stage(
    LOGPROBS,
    also=[REJECTED_TRAJECTORIES],
    code_version="2",
    inputs=[TRAJECTORIES, SELECTED, NEGATIVES],
    settings=["scoring.other_layout", *SCORING_ASKED],
    asked=lambda settings: settings.demand.asks_for[LOGPROBS],
    models=["labeler"],
    lineage={
        "answer_rank": ["labels/hard_negatives.rank"],
        "logprob_sum": SCORED_TEXTS,
        "token_count": ["alignment/trajectories.gold_answer", "labels/hard_negatives.answer"],
    },
)
def answer_logprobs(run: StageRun) -> StageOutput:
    """Scores every answer under every context and template, one forward pass per packed token tree (Eq. 3).

    If the profile adds conditionings, templates or hard negatives, only the additions are scored.
    """
    demand = run.settings.demand
    made = _scored(run, run.read(NEGATIVES), demand.conditionings, contrasted=demand.negatives != 0)
    notes = [f"{name}: {reason}" for name, reason in made.rejected.select("trajectory_id", "reason").iter_rows()]
    frames = {LOGPROBS: made.logprobs, REJECTED_TRAJECTORIES: made.rejected}
    return StageOutput(frames, run.models.identity("labeler"), made.cost, notes)


@model_stage(
    CONTROLS,
    code_version="2",
    inputs=[TRAJECTORIES, SELECTED],
    settings=["scoring.other_layout", "scoring.templates"],
    asked=lambda settings: settings.demand.asks_for[CONTROLS],
    models=["labeler"],
    lineage={"logprob_sum": SCORED_TEXTS[:2]},
)
def control_logprobs(run: StageRun) -> StageOutput:
    """Scores the steps themselves, after the question and the steps before them; more templates score only these."""
    scored = _scored(run, HardNegatives.create_empty(), (), contrasted=False, of_steps=True)
    logprobs, cost, notes = ControlScores.of(scored)
    return StageOutput(logprobs, run.models.identity("labeler"), cost, notes)


def _scored(run: StageRun, negatives: pl.DataFrame, chosen: tuple[str, ...], **options: Any) -> ScoredAnswers:
    """Log-probabilities of the answers, or of the steps, of this shard's trajectories."""
    trajectories = run.selected()
    scoring = run.settings.scoring.model_copy(update={"conditionings": chosen})
    how = {"layout": scoring.layout, "scorer": scoring.scorer}
    # how long a trajectory is depends on what is scored of it
    admitted = {**how, **options, "conditionings": chosen, "templates": scoring.templates}
    return kept_scores(
        run.calls(run.models.spec("labeler"), SCORE_KEY, SCORE, how),  # of the weights here, whoever samples
        run.calls(run.models.spec("labeler"), ADMISSION_KEY, ADMISSION, admitted),
        partial(run.models.load, "labeler"),
        trajectories,
        negatives,
        scoring,
        advance=run.track(trajectories.height),
        **{"of_steps": False, **options},
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
    """CPMI of every step under every template and conditioning (Eq. 3); empty where no hard negatives are scored."""
    demand, logprobs = run.settings.demand, run.read(LOGPROBS)
    scored = demand.conditionings if demand.negatives else ()
    return StageOutput(conditionings.template_scores(logprobs, scored), model=run.models.identity("labeler"))


rolls_out = partial(
    model_stage,
    code_version="7",
    inputs=[TRAJECTORIES, SELECTED],
    lineage={
        "answer": ["alignment/trajectories.question", "alignment/trajectories.steps"],
        "correct": ["alignment/trajectories.gold_answer"],
    },
)
PREFIXES = 5
"""About how many prefixes a trajectory has that are asked together, and kept as one file."""
ROLLOUT_SETTINGS = ("rollouts.sampling", "rollouts.sample", "answers.identity")


@rolls_out(
    POLICY_ROLLOUTS,
    settings=[*ROLLOUT_SETTINGS, "demand.policy_steps", "rollouts.policy_count"],
    asked=lambda settings: settings.demand.asks_for[POLICY_ROLLOUTS],
    models=["rollouts"],
)
def policy_rollouts(run: StageRun) -> StageOutput:
    """T completions by the labeler of every prefix that a reward type needs; MC rewards are their means (Eq. 1)."""
    return _rollouts(run, "rollouts", 1, run.settings.demand.policy_steps, run.settings.rollouts.policy_count)


@rolls_out(
    PROVER_ROLLOUTS,
    settings=[*ROLLOUT_SETTINGS, "demand.prover_steps", "rollouts.prover_count"],
    asked=lambda settings: settings.demand.asks_for[PROVER_ROLLOUTS],
    models=["prover"],
)
def prover_rollouts(run: StageRun) -> StageOutput:
    """Completions by the prover, also of the question alone: PAV's advantage term (Eq. 2)."""
    return _rollouts(run, "prover", 0, run.settings.demand.prover_steps, run.settings.rollouts.prover_count)


def _completed(run: StageRun) -> pl.DataFrame:
    """The trajectories of this shard whose prefixes are completed."""
    return sample_trajectories(
        run.selected().drop_nulls("gold_answer"), run.settings.rollouts_of(str(run.partition)), run.settings.seed
    )


def _rollouts(run: StageRun, role: Role, shortest: int, longest: Steps, count: int) -> StageOutput:
    """Asked for more prefixes or rollouts, only what these add is drawn."""
    settings, rollouts, trajectories = run.settings, run.settings.rollouts, _completed(run)
    engine = run.engine(role, rollouts.sampling, rollouts.batch_sequences, size=PREFIXES * rollouts.chunk_trajectories)
    frame, _ = prefix_rollouts(
        trajectories, engine, shortest=shortest, longest=longest, count=count, sampling=rollouts.sampling,
        seed=settings.seed, progress=run.track(trajectories.height), comparison=settings.answers.comparison,
    )  # fmt: skip
    return StageOutput(frame, engine.identity, engine.spent)


@stage(
    STEP_REWARDS,
    code_version="3",
    inputs=[TRAJECTORIES, SELECTED, LOGPROBS, CONTROLS, POLICY_ROLLOUTS, PROVER_ROLLOUTS, OWN_LABELS, TRUTH],
    settings=["rewards", "answers.identity", "scoring.templates", "rollouts.policy_count", "rollouts.prover_count"],
    lineage={
        "reward": [
            *(f"{key}.{column}" for key in (LOGPROBS, CONTROLS) for column in ("logprob_sum", "token_count")),
            *(f"{key}.correct" for key in (POLICY_ROLLOUTS, PROVER_ROLLOUTS, TRUTH)),
            f"{OWN_LABELS}.reward",
        ]
    },
)
def step_rewards(run: StageRun) -> StageOutput:
    """Computes every reward type from log-probabilities and rollouts: MC, PAV, CPMI, their merges and controls.

    The user's own labels are added under their own names.
    """
    trajectories, given, chosen = run.selected(), run.read(OWN_LABELS), run.settings.rewards
    evidence = Evidence(
        trajectories,
        *map(run.read, (LOGPROBS, POLICY_ROLLOUTS, PROVER_ROLLOUTS, CONTROLS, TRUTH)),
        conditioning=chosen.default_conditioning,
        alpha=chosen.alpha,
        seed=run.settings.seed,
        same=run.settings.answers.comparison.same,
    )
    frame = rewards.step_rewards(evidence, chosen.types)
    own = own_labels.own_rewards(given, trajectories)
    notes = rewards.notes_on_unlabelled(frame, trajectories.height, chosen.types)
    joined = own_labels.merge_rewards(frame, own)
    shown = {"rewards": dg.MetadataValue.md(rewards.reward_summary(joined))}
    return StageOutput(joined, model=run.models.identity("labeler"), notes=notes, metadata=shown)


@stage(
    COSTS,
    code_version="2",
    inputs=[SELECTED, *(f"labels/{name}" for name in COSTED)],
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
    """Time and tokens of each labeling method; each method is charged for what it uses."""
    settings, shard = run.settings, str(run.partition)
    selected, scored = run.read(SELECTED, columns=["trajectory_id"]), run.read(LOGPROBS)
    records = {name: run.lake.record(f"labels/{name}", shard) for name in COSTED}
    spent = {name: Cost.from_dict(record.cost) if record else Cost.zero() for name, record in records.items()}
    rollouts = {role: run.read(f"labels/{name}") for role, name in costs.SAMPLED.items()}
    # those without a gold answer were not labelled
    completed = max(rows["trajectory_id"].n_unique() for rows in rollouts.values())
    frame = costs.labeling_costs(
        shard=shard,
        trajectories=scored["trajectory_id"].n_unique() or completed or selected.height,
        measured=costs.Measured(spent, rollouts, costs.target_tokens(scored)),
        rewards=settings.rewards,
        negatives=settings.negatives.count,
        models={role: run.models.identity(role) for role in ("labeler", "rollouts", "prover")},
        completed=completed,
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
