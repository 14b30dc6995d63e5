"""The table contracts of the group `labels`: rewards and what they are computed from, by shard.

trajectory_id  template  context  step_index  answer_rank  logprob_sum  token_count      answer_logprobs
t000000007     0         prefix   1           0            -0.41        6                gold answer after steps 0 and 1
"""

import dataframely as dy

from cpmi_dagster.contracts.contexts import CONDITIONINGS, CONTEXT_KINDS, SCORED_CONTROLS


class HardNegatives(dy.Schema):
    """Wrong answers that the gold answer of a trajectory is contrasted with (appendix A)."""

    trajectory_id = dy.String(
        primary_key=True, description="trajectory with the gold answer; alignment.trajectories.trajectory_id"
    )
    rank = dy.Int64(primary_key=True, min=1, description="1 to M, samples of the model first")
    answer = dy.String(min_length=1, description="wrong answer")
    source = dy.String(description="`model`, or name of the edit of the gold answer, e.g. plus_minus_1")


class AnswerLogprobs(dy.Schema):
    """Log-probabilities of gold answers and hard negatives, from which every CPMI reward is computed."""

    trajectory_id = dy.String(primary_key=True, description="trajectory read; alignment.trajectories.trajectory_id")
    template = dy.Int64(primary_key=True, min=0, description="prompt template, from 0")
    context = dy.Enum(list(CONTEXT_KINDS), primary_key=True, description="kind of text before the target")
    step_index = dy.Int64(
        primary_key=True,
        min=-1,
        description="last step of `prefix`, the step of `step`, the one left out of `all_but`; -1 for `question`",
    )
    answer_rank = dy.Int64(
        primary_key=True, min=0, description="0 for the gold answer, else labels.hard_negatives.rank"
    )
    logprob_sum = dy.Float64(max=1e-6, description="log-probability of the target `The answer is: {a}`, nats")
    token_count = dy.Int64(min=1, description="number of tokens of the target")


class ControlLogprobs(AnswerLogprobs):
    """Log-probabilities of the steps themselves, if `step_surprisal` is a reward type."""

    step_index = dy.Int64(
        primary_key=True, min=-1, description="last step of the context, -1 for none; the target is the next step"
    )
    answer_rank = dy.Int64(primary_key=True, min=0, description="always 0: no answer is read")
    logprob_sum = dy.Float64(max=1e-6, description="log-probability of the target, nats")
    token_count = dy.Int64(min=1, description="number of tokens of the target")
    control = dy.Enum(list(SCORED_CONTROLS), primary_key=True, description="reward type that needs the row")


class RejectedTrajectories(dy.Schema):
    """Selected trajectories whose answers cannot be scored, each with the reason."""

    trajectory_id = dy.String(primary_key=True, description="trajectory rejected; alignment.trajectories.trajectory_id")
    stage = dy.String(description="asset that rejected the trajectory")
    reason = dy.String(min_length=1, description="what was wrong, in one sentence")


class TemplateScores(dy.Schema):
    """CPMI of every step under every template and conditioning (Eq. 3)."""

    trajectory_id = dy.String(
        primary_key=True, description="trajectory of the step; alignment.trajectories.trajectory_id"
    )
    step_index = dy.Int64(primary_key=True, min=0, description="step, from 0")
    conditioning = dy.Enum(list(CONDITIONINGS), primary_key=True, description="which two contexts are compared")
    template = dy.Int64(primary_key=True, min=0, description="prompt template, from 0")
    gold_shift = dy.Float64(description="first term of Eq. 3: shift of the gold answer, nats per token")
    negative_shift = dy.Float64(description="second term of Eq. 3: mean shift of the hard negatives, nats per token")
    cpmi = dy.Float64(description="gold_shift - negative_shift, nats per token")


class Rollouts(dy.Schema):
    """Completions of each prefix by the rollout model; the share of right ones is the MC reward (Eq. 1)."""

    trajectory_id = dy.String(
        primary_key=True, description="trajectory completed; alignment.trajectories.trajectory_id"
    )
    prefix_length = dy.Int64(primary_key=True, min=0, description="number of steps given; 0 for the question alone")
    rollout = dy.Int64(primary_key=True, min=0, description="number of the sample, from 0")
    answer = dy.String(nullable=True, description="final answer read from the text; null if it states none")
    correct = dy.Bool(description="whether the answer equals the gold answer")
    generated_tokens = dy.Int64(min=0, description="number of tokens sampled")
    truncated = dy.Bool(description="whether the sample was cut at its token limit")
    text = dy.String(description="text of the completion")


class ProverRollouts(Rollouts):
    """Completions of each prefix by the prover, from which PAV's advantage is computed (Eq. 2)."""


class StepRewards(dy.Schema):
    """Reward of each step by each reward type, before normalisation."""

    trajectory_id = dy.String(
        primary_key=True, description="trajectory of the step; alignment.trajectories.trajectory_id"
    )
    step_index = dy.Int64(primary_key=True, min=0, description="step, from 0")
    reward_type = dy.String(
        primary_key=True, description="reward type, or name of the user's labels, e.g. mc, pav, cpmi, cpmi_merge1"
    )
    reward = dy.Float64(
        description="larger is better; cpmi in nats per token, mc in [0, 1], pav in [-alpha, 1 + alpha]"
    )


class LabelingCosts(dy.Schema):
    """Seconds and tokens that it took to label a shard, by method."""

    shard = dy.String(primary_key=True, description="shard labelled, e.g. 003")
    method = dy.String(primary_key=True, description="reward type that is charged, e.g. mc, pav, cpmi, cpmi_merge1")
    model = dy.String(description="models used, with revision or weights hash")
    trajectories = dy.Int64(min=0, description="number of trajectories labelled")
    wall_seconds = dy.Float64(min=0, description="seconds of wall time")
    forward_tokens = dy.Int64(min=0, description="number of tokens read in forward passes")
    generated_tokens = dy.Int64(min=0, description="number of tokens sampled")
    processor_seconds = dy.Float64(min=0, description="seconds of processor time, of all threads")
