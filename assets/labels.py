"""Rewards of every step of the selected trajectories; raw log-probabilities and rollouts are stored."""

from collections.abc import Callable
from functools import partial

import polars as pl

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.tables import AnswerLogprobs
from cpmi_dagster.generation.monte_carlo import prefix_rollouts
from cpmi_dagster.negatives import hard_negatives as negatives
from cpmi_dagster.rewards import costs
from cpmi_dagster.rewards import step_rewards as rewards
from cpmi_dagster.scoring import conditionings
from cpmi_dagster.scoring.logprobs import ScoredAnswers, joined
from cpmi_dagster.scoring.logprobs import answer_logprobs as score_answers
from cpmi_dagster.trajectories import own_labels
from resources.language_models import Role
from resources.stage import model_stage, stage
from resources.stage_run import SELECTED, TRAJECTORIES, StageOutput, StageRun

LOGPROBS, REJECTED = "labels/answer_logprobs", "labels/rejected_trajectories"
OWN_LABELS = "sources/step_labels"
COSTED = ("hard_negatives", "answer_logprobs", "policy_rollouts", "prover_rollouts")


@model_stage(
    "labels/hard_negatives",
    code_version="2",
    inputs=[TRAJECTORIES, SELECTED],
    settings=["negatives", "scoring.chunk_trajectories"],
    models=["labeler"],
    lineage={"answer": ["alignment/trajectories.gold_answer", "alignment/trajectories.steps"]},
)
def hard_negatives(run: StageRun, shard: str) -> StageOutput:
    """Sampled from the labeler with the paper's prompt; heuristic edits of the gold answer fill the rest (5.1)."""
    settings = run.settings
    engine = run.models.engine("labeler", settings.rollouts.batch_sequences) if settings.negatives.samples else None

    def make(chunk: pl.DataFrame, advance: Callable[[int], None]) -> StageOutput:
        result = negatives.hard_negatives(chunk, engine, settings.negatives, settings.seed, advance)
        notes = [f"{name} has fewer than {settings.negatives.count} hard negatives" for name in result.short]
        return StageOutput(result.negatives, run.models.identity("labeler"), result.cost, notes)

    return run.in_chunks(shard, run.selected(shard), settings.scoring.chunk_trajectories, make)


@model_stage(
    LOGPROBS,
    also=[REJECTED],
    inputs=[TRAJECTORIES, SELECTED, "labels/hard_negatives"],
    settings=["scoring.templates", "scoring.conditionings"],
    models=["labeler"],
    lineage={
        "answer_rank": ["labels/hard_negatives.rank"],
        "logprob_sum": [
            "alignment/trajectories.question",
            "alignment/trajectories.steps",
            "alignment/trajectories.gold_answer",
            "labels/hard_negatives.answer",
        ],
        "token_count": ["alignment/trajectories.gold_answer", "labels/hard_negatives.answer"],
    },
)
def answer_logprobs(run: StageRun, shard: str) -> StageOutput:
    """One forward pass per packed token tree scores every answer under every context and template (Eq. 3).

    Where only the conditionings have changed, only the contexts they add are scored.
    """
    model = run.models.load("labeler")
    scoring, negative_answers = run.settings.scoring, run.read("labels/hard_negatives", shard)
    scored_conditionings, before = run.made_before("scoring.conditionings", shard) or ((), None)

    def make(chunk: pl.DataFrame, advance: Callable[[int], None]) -> StageOutput:
        mine = negative_answers.join(chunk, on="trajectory_id", how="semi")
        scored = score_answers(chunk, mine, model, scoring, advance, scored_conditionings)
        return _output(scored, model.identity)

    selected = run.selected(shard)
    scored = _answers(run.in_chunks(shard, selected, scoring.chunk_trajectories, make))
    if before is not None:
        scored = joined(_answers(before), scored, selected, scoring)
    return _output(scored, model.identity)


def _output(scored: ScoredAnswers, identity: str) -> StageOutput:
    notes = [f"{name}: {reason}" for name, reason in scored.rejected.select("trajectory_id", "reason").iter_rows()]
    return StageOutput({LOGPROBS: scored.logprobs, REJECTED: scored.rejected}, identity, scored.cost, notes)


def _answers(output: StageOutput) -> ScoredAnswers:
    logprobs = output.frame(LOGPROBS).sort(AnswerLogprobs.primary_key())
    return ScoredAnswers(logprobs, output.frame(REJECTED), output.cost)


@stage(
    "labels/template_scores",
    inputs=["labels/answer_logprobs"],
    settings=["scoring.conditionings"],
    lineage={
        name: ["labels/answer_logprobs.logprob_sum", "labels/answer_logprobs.token_count"]
        for name in ("gold_shift", "negative_shift", "cpmi")
    },
)
def template_scores(run: StageRun, shard: str) -> StageOutput:
    """CPMI of every step under every template and conditioning (Eq. 3)."""
    logprobs = run.read("labels/answer_logprobs", shard)
    return StageOutput(
        conditionings.template_scores(logprobs, run.settings.scoring.conditionings),
        model=run.models.identity("labeler"),
    )


rolls_out = partial(
    model_stage,
    code_version="2",
    inputs=[TRAJECTORIES, SELECTED],
    lineage={
        "answer": ["alignment/trajectories.question", "alignment/trajectories.steps"],
        "correct": ["alignment/trajectories.gold_answer"],
    },
)


@rolls_out(
    "labels/policy_rollouts",
    settings=["rollouts.policy_count", "rollouts.sampling", "rollouts.chunk_trajectories"],
    models=["policy"],
)
def policy_rollouts(run: StageRun, shard: str) -> StageOutput:
    """T completions of every prefix by the policy: what MC rewards are means of (Eq. 1)."""
    return _rollouts(run, shard, "policy", run.settings.rollouts.policy_count, include_question=False)


@rolls_out(
    "labels/prover_rollouts",
    settings=["rollouts.prover_count", "rollouts.sampling", "rollouts.chunk_trajectories"],
    models=["prover"],
)
def prover_rollouts(run: StageRun, shard: str) -> StageOutput:
    """Completions by the prover, from the bare question on: PAV's advantage term (Eq. 2)."""
    return _rollouts(run, shard, "prover", run.settings.rollouts.prover_count, include_question=True)


def _rollouts(run: StageRun, shard: str, role: Role, count: int, *, include_question: bool) -> StageOutput:
    rollouts = run.settings.rollouts
    engine = run.models.engine(role, rollouts.batch_sequences)

    def make(chunk: pl.DataFrame, advance: Callable[[int], None]) -> StageOutput:
        frame, cost = prefix_rollouts(
            chunk, engine, count, rollouts.sampling, run.settings.seed, include_question, progress=advance
        )
        return StageOutput(frame, engine.identity, cost)

    return run.in_chunks(shard, run.selected(shard), rollouts.chunk_trajectories, make)


@stage(
    "labels/step_rewards",
    inputs=[
        TRAJECTORIES,
        SELECTED,
        "labels/answer_logprobs",
        "labels/template_scores",
        "labels/policy_rollouts",
        "labels/prover_rollouts",
        OWN_LABELS,
    ],
    settings=["rewards"],
    lineage={
        "reward": [
            "labels/template_scores.cpmi",
            "labels/policy_rollouts.correct",
            "labels/prover_rollouts.correct",
            f"{OWN_LABELS}.reward",
        ]
    },
)
def step_rewards(run: StageRun, shard: str) -> StageOutput:
    """Every reward type is a query over log-probabilities and rollouts: MC, PAV, CPMI, their merges and controls.

    The user's own labels are added, each under its name.
    """
    trajectories, given = run.selected(shard), run.read(OWN_LABELS)
    frame = rewards.step_rewards(
        logprobs=run.read("labels/answer_logprobs", shard),
        template_scores=run.read("labels/template_scores", shard),
        policy_rollouts=run.read("labels/policy_rollouts", shard),
        prover_rollouts=run.read("labels/prover_rollouts", shard),
        trajectories=trajectories,
        rewards=run.settings.rewards,
        seed=run.settings.seed,
    )
    own = own_labels.own_rewards(given, trajectories)
    notes = own_labels.notes_on_others(given, run.read(SELECTED))
    return StageOutput(own_labels.joined(frame, own), model=run.models.identity("labeler"), notes=notes)


@stage(
    "labels/labeling_costs",
    inputs=[TRAJECTORIES, SELECTED, *(f"labels/{name}" for name in COSTED)],
    settings=["rewards.types"],
    lineage={
        "generated_tokens": ["labels/policy_rollouts.generated_tokens", "labels/prover_rollouts.generated_tokens"]
    },
)
def labeling_costs(run: StageRun, shard: str) -> StageOutput:
    """Time and tokens by method, measured where they were spent; a merge pays only for the rollouts it uses."""
    records = {name: run.lake.record(f"labels/{name}", shard) for name in COSTED}
    frame = costs.labeling_costs(
        shard=shard,
        trajectories=run.selected(shard).height,
        costs={name: Cost.from_dict(record.cost) for name, record in records.items() if record},
        policy_rollouts=run.read("labels/policy_rollouts", shard),
        prover_rollouts=run.read("labels/prover_rollouts", shard),
        models={role: run.models.identity(role) for role in ("labeler", "policy", "prover")},
        methods=run.settings.rewards.methods,
    )
    return StageOutput(frame)


STAGES = (
    hard_negatives,
    answer_logprobs,
    template_scores,
    policy_rollouts,
    prover_rollouts,
    step_rewards,
    labeling_costs,
)
