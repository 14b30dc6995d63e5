"""The table contracts of the group `labels`: rewards and what they are computed from, by shard.

trajectory_id  template  context  step_index  answer_rank  logprob_sum  token_count      answer_logprobs
t000000007     0         prefix   1           0            -0.41        6                gold answer after steps 0 and 1
"""

import dataframely as dy

from cpmi_dagster.contracts.contexts import CONDITIONINGS, CONTEXT_KINDS, SCORED_CONTROLS


class HardNegatives(dy.Schema):
    """Wrong answers that the gold answer of a trajectory is contrasted with (section 5.1, appendix A)."""

    trajectory_id = dy.String(primary_key=True, description="alignment.trajectories.trajectory_id")
    rank = dy.Int64(primary_key=True, min=1, description="1 to M, samples of the model first")
    answer = dy.String(min_length=1, description="wrong answer")
    source = dy.String(description="`model`, or the name of the heuristic, e.g. plus_one")


class AnswerLogprobs(dy.Schema):
    """Log-probability of each answer after each context; every CPMI reward is computed from these."""

    trajectory_id = dy.String(primary_key=True, description="alignment.trajectories.trajectory_id")
    template = dy.Int64(primary_key=True, min=0, description="prompt template, from 0")
    context = dy.Enum(list(CONTEXT_KINDS), primary_key=True, description="kind of text that precedes the answer")
    step_index = dy.Int64(
        primary_key=True, min=-1, description="last step of a prefix, or step alone or left out; -1 for `question`"
    )
    answer_rank = dy.Int64(primary_key=True, min=0, description="0 for the gold answer, else hard_negatives.rank")
    logprob_sum = dy.Float64(max=1e-6, description="sum of log p over the target's tokens, nats")
    token_count = dy.Int64(min=1, description="tokens of the target `The answer is: {a}`")


class ControlLogprobs(AnswerLogprobs):
    """Log-probability of the step that follows each context; empty unless `step_surprisal` is a reward type."""

    step_index = dy.Int64(
        primary_key=True, min=-1, description="last step of the context, -1 for none; the step scored is the next one"
    )
    answer_rank = dy.Int64(primary_key=True, min=0, description="always 0")
    logprob_sum = dy.Float64(max=1e-6, description="sum of log p over the step's tokens, nats")
    token_count = dy.Int64(min=1, description="tokens of the step scored")
    control = dy.Enum(list(SCORED_CONTROLS), primary_key=True, description="control that reads it")


class RejectedTrajectories(dy.Schema):
    """Selected trajectories that have no labels, each with the reason."""

    trajectory_id = dy.String(primary_key=True, description="alignment.trajectories.trajectory_id")
    stage = dy.String(description="asset that rejected the trajectory")
    reason = dy.String(min_length=1, description="what was wrong, in one sentence")


class TemplateScores(dy.Schema):
    """CPMI of every step under every template and conditioning (Eq. 3)."""

    trajectory_id = dy.String(primary_key=True, description="alignment.trajectories.trajectory_id")
    step_index = dy.Int64(primary_key=True, min=0, description="step, from 0")
    conditioning = dy.Enum(list(CONDITIONINGS), primary_key=True, description="contexts compared, e.g. marginal")
    template = dy.Int64(primary_key=True, min=0, description="prompt template, from 0")
    gold_shift = dy.Float64(description="first term of Eq. 3: shift of the gold answer, nats per token")
    negative_shift = dy.Float64(description="second term of Eq. 3: mean shift of the hard negatives, nats per token")
    cpmi = dy.Float64(description="gold_shift - negative_shift, nats per token")


class Rollouts(dy.Schema):
    """Completions of each prefix by the rollout model, the labeler by default; their mean is the MC reward (Eq. 1)."""

    trajectory_id = dy.String(primary_key=True, description="alignment.trajectories.trajectory_id")
    prefix_length = dy.Int64(primary_key=True, min=0, description="number of steps given; 0 for the question alone")
    rollout = dy.Int64(primary_key=True, min=0, description="number of the sample, from 0")
    answer = dy.String(nullable=True, description="final answer read from the text; null if it states none")
    correct = dy.Bool(description="whether the answer equals the gold answer")
    generated_tokens = dy.Int64(min=0, description="tokens sampled for this rollout")
    truncated = dy.Bool(description="whether the sample was cut at its token limit")
    text = dy.String(description="sampled text")


class ProverRollouts(Rollouts):
    """Completions of each prefix by the prover, for PAV's advantage term (Eq. 2); prefix 0 is the question alone."""


class StepRewards(dy.Schema):
    """Reward of each step by each reward type, before normalisation."""

    trajectory_id = dy.String(primary_key=True, description="alignment.trajectories.trajectory_id")
    step_index = dy.Int64(primary_key=True, min=0, description="step, from 0")
    reward_type = dy.String(primary_key=True, description="e.g. mc, pav, cpmi, cpmi_merge1")
    reward = dy.Float64(
        description="larger is better; cpmi in nats per token, mc in [0, 1], pav in [-alpha, 1 + alpha]"
    )


class LabelingCosts(dy.Schema):
    """What labeling a shard cost, by method; a method is charged for the contexts and rollouts that it uses."""

    shard = dy.String(primary_key=True, description="partition key, e.g. 003")
    method = dy.String(primary_key=True, description="e.g. mc, pav, cpmi, cpmi_merge1")
    model = dy.String(description="models used, with revision or weights hash")
    trajectories = dy.Int64(min=0, description="number of trajectories labelled")
    wall_seconds = dy.Float64(min=0, description="seconds of wall time")
    forward_tokens = dy.Int64(min=0, description="tokens read in forward passes")
    generated_tokens = dy.Int64(min=0, description="tokens sampled")
