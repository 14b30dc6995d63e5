"""The contracts of the group `labels`: everything that rewards are made of, by shard, and the rewards.

trajectory_id  template  context  step_index  answer_rank  logprob_sum  token_count      answer_logprobs
t000000007     0         prefix   1           0            -0.41        6                gold answer after steps 0 and 1
"""

import dataframely as dy

from cpmi_dagster.contracts.contexts import CONDITIONINGS, CONTEXT_KINDS, SCORED_CONTROLS


class HardNegatives(dy.Schema):
    """Wrong answers to contrast the gold answer with (section 5.1, appendix A)."""

    trajectory_id = dy.String(primary_key=True, description="alignment.trajectories.trajectory_id")
    rank = dy.Int64(primary_key=True, min=1, description="1..M in the order found: model samples first")
    answer = dy.String(min_length=1, description="the wrong answer")
    source = dy.String(description="`model`, or the heuristic's name")


class AnswerLogprobs(dy.Schema):
    """Log-probability of each answer line under each context: the raw values that rewards are computed from."""

    trajectory_id = dy.String(primary_key=True, description="alignment.trajectories.trajectory_id")
    template = dy.Int64(primary_key=True, min=0, description="prompt template, from 0")
    context = dy.Enum(list(CONTEXT_KINDS), primary_key=True, description="what precedes the answer")
    step_index = dy.Int64(
        primary_key=True, min=-1, description="step that the context ends with or leaves out; -1 for `question`"
    )
    answer_rank = dy.Int64(primary_key=True, min=0, description="0 = gold, then hard_negatives.rank")
    logprob_sum = dy.Float64(max=1e-6, description="sum over target tokens of log p, natural log")
    token_count = dy.Int64(min=1, description="tokens of the target `The answer is: {a}`")


class ControlLogprobs(AnswerLogprobs):
    """Log-probabilities of the step that follows a context, in place of answers, for step surprisal; else empty."""

    control = dy.Enum(list(SCORED_CONTROLS), primary_key=True, description="what it is scored for")


class RejectedTrajectories(dy.Schema):
    """Selected trajectories that a labeling stage could not score, each with its reason."""

    trajectory_id = dy.String(primary_key=True, description="alignment.trajectories.trajectory_id")
    stage = dy.String(description="asset that rejected it")
    reason = dy.String(min_length=1, description="what was wrong, in one sentence")


class TemplateScores(dy.Schema):
    """CPMI of every step under every template and conditioning (Eq. 3)."""

    trajectory_id = dy.String(primary_key=True, description="alignment.trajectories.trajectory_id")
    step_index = dy.Int64(primary_key=True, min=0, description="step, from 0")
    conditioning = dy.Enum(list(CONDITIONINGS), primary_key=True, description="which steps precede the answer")
    template = dy.Int64(primary_key=True, min=0, description="prompt template, from 0")
    gold_shift = dy.Float64(
        description="first term of Eq. 3: shift of the gold answer's mean log-probability, nats/token"
    )
    negative_shift = dy.Float64(description="second term of Eq. 3: mean shift of the M hard negatives, nats/token")
    cpmi = dy.Float64(description="gold_shift - negative_shift")


class Rollouts(dy.Schema):
    """Sampled completions of every prefix of a trajectory and whether they reach the gold answer (Eq. 1)."""

    trajectory_id = dy.String(primary_key=True, description="alignment.trajectories.trajectory_id")
    prefix_length = dy.Int64(primary_key=True, min=0, description="steps given; 0 = the bare question")
    rollout = dy.Int64(primary_key=True, min=0, description="number of the sample, from 0")
    answer = dy.String(nullable=True, description="extracted final answer; null if none was stated")
    correct = dy.Bool(description="answer is equivalent to the gold answer")
    generated_tokens = dy.Int64(min=0, description="tokens sampled for this rollout")
    truncated = dy.Bool(description="the sample hit its token limit before it ended")
    text = dy.String(description="the sampled text")


class StepRewards(dy.Schema):
    """One reward per step and reward type, before normalisation."""

    trajectory_id = dy.String(primary_key=True, description="alignment.trajectories.trajectory_id")
    step_index = dy.Int64(primary_key=True, min=0, description="step, from 0")
    reward_type = dy.String(primary_key=True, description="mc, pav, cpmi, cpmi_merge1, ...")
    reward = dy.Float64(
        description="mc in [0, 1]; cpmi in nats per token; pav in [-alpha, 1 + alpha]; own labels as given"
    )


class LabelingCosts(dy.Schema):
    """Cost of labeling a shard, by method; a merge is charged only for the rollouts it uses."""

    shard = dy.String(primary_key=True, description="partition key")
    method = dy.String(primary_key=True, description="mc, pav, cpmi, cpmi_merge1, ...")
    model = dy.String(description="model or models used")
    trajectories = dy.Int64(min=0, description="trajectories labelled")
    wall_seconds = dy.Float64(min=0, description="seconds spent, measured while the work ran")
    forward_tokens = dy.Int64(min=0, description="tokens that went through a forward pass")
    generated_tokens = dy.Int64(min=0, description="tokens sampled")
