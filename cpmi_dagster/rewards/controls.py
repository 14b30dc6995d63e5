"""Controls: labels that a method has to beat before its own count, since they cost nothing or know nothing.

    trajectory   final answer right   steps   position          final answer   final answer × position
    t000000007   yes                  3       0.67 0.33 0.00    1 1 1          1.00 1.00 1.00
    t000000012   no                   3       0.67 0.33 0.00    0 0 0          0.67 0.33 0.00

Position, final answer and length need the trajectory alone. Surprisal is what the labeler thinks of a step without any
answer, the judge token what it says of a step when asked; entropy and self-certainty are of what it would answer after
the step. The two placebos are CPMI with one part exchanged, so that what is left of its quality owes nothing to it: the
gold answer of another question, the steps of a solution to another question.
"""

import polars as pl

from cpmi_dagster.contracts.contexts import ANSWER, JUDGE
from cpmi_dagster.rewards.formulas import STEP, Evidence, mean_over_templates, template_mean
from cpmi_dagster.scoring.conditionings import MEAN_LOGPROB, contrast_shifts, gold_shifts
from cpmi_dagster.trajectories.templates import VERDICTS


def position(evidence: Evidence) -> pl.DataFrame:
    """1 less the relative position of a step, which is 1 at the last: early steps are more often right."""
    return evidence.steps.select(*STEP, reward=_earliness())


def final_answer(evidence: Evidence) -> pl.DataFrame:
    """1 at every step of a trajectory whose final answer is right, 0 if it is wrong: an outcome label."""
    return _with_final_answer(evidence).select(*STEP, reward=_is_right(evidence))


def final_answer_position(evidence: Evidence) -> pl.DataFrame:
    """1 where the final answer is right, else `position`."""
    return _with_final_answer(evidence).select(*STEP, reward=pl.max_horizontal(_is_right(evidence), _earliness()))


def step_length(evidence: Evidence) -> pl.DataFrame:
    """Characters of the step with the sign turned: a long step has more room for an error."""
    step = pl.col("steps").list.get(pl.col("step_index"))
    return evidence.steps.select(*STEP, reward=-step.str.len_chars().cast(pl.Float64))


def step_surprisal(evidence: Evidence) -> pl.DataFrame:
    """Mean log-probability of the step's own tokens after the question and the steps before it, in nats per token."""
    read = evidence.control_logprobs.filter(control="step_surprisal")
    following = read.select("trajectory_id", "template", pl.col("step_index") + 1, logprob=MEAN_LOGPROB)
    return template_mean(following, pl.col("logprob"))


def judge_token(evidence: Evidence) -> pl.DataFrame:
    """Log-odds that the labeler calls the step correct when asked, after all steps up to it, without any answer."""
    asked = evidence.control_logprobs.filter(pl.col("control") == JUDGE, pl.col("context") == "prefix")
    sums = {name: pl.col("logprob_sum").filter(answer_rank=rank).first() for rank, name in enumerate(VERDICTS)}
    verdicts = asked.group_by(*STEP, "template").agg(**sums)
    return template_mean(verdicts, pl.col("correct") - pl.col("incorrect"))


def answer_entropy(evidence: Evidence) -> pl.DataFrame:
    """Entropy of the answer's first token after all steps up to the step, with its sign turned."""
    return _drawn(evidence, rank=1)


def self_certainty(evidence: Evidence) -> pl.DataFrame:
    """Divergence of a uniform distribution from that of the answer's first token, after all steps, less a constant."""
    certainty = _drawn(evidence, rank=2)
    return certainty.with_columns(-pl.col("reward"))


def _drawn(evidence: Evidence, rank: int) -> pl.DataFrame:
    """Expected log-probability of a drawn token after each step."""
    read = evidence.control_logprobs.filter(pl.col("control") == ANSWER, pl.col("context") == "prefix")
    with_it, cue = (pl.col("logprob_sum").filter(answer_rank=place).sum() for place in (rank, 0))
    return template_mean(read.group_by(*STEP, "template").agg(logprob=with_it - cue), pl.col("logprob"))


def other_gold(evidence: Evidence) -> pl.DataFrame:
    """CPMI with the gold answer of another question, against this question's hard negatives."""
    conditioning = evidence.default_conditioning
    scored = evidence.control_logprobs.filter(control="other_gold")
    gold = template_mean(gold_shifts(scored, conditioning), pl.col("gold_shift"))
    negatives = mean_over_templates(evidence.scores, conditioning, pl.col("negative_shift"))
    both = gold.join(negatives, on=STEP, suffix="_negatives", maintain_order="left")
    return both.select(*STEP, reward=pl.col("reward") - pl.col("reward_negatives"))


def other_step(evidence: Evidence) -> pl.DataFrame:
    """CPMI of a step of another question's solution in the place of each, alone against none."""
    scored = evidence.control_logprobs.filter(control="other_step")
    return template_mean(contrast_shifts(scored, "marginal"), pl.col("shift"))


def _earliness() -> pl.Expr:
    count = pl.col("steps").list.len()
    return 1 - (pl.col("step_index") + 1) / count


def _with_final_answer(evidence: Evidence) -> pl.DataFrame:
    """The steps of trajectories in which a final answer was found: of the others it is not known, and not wrong."""
    found = evidence.trajectories.filter(pl.col("final_answer").is_not_null())
    return evidence.steps.join(found, on="trajectory_id", how="semi")


def _is_right(evidence: Evidence) -> pl.Expr:
    answers = evidence.trajectories.select("trajectory_id", "gold_answer", "final_answer").drop_nulls()
    right = [trajectory for trajectory, gold, final in answers.iter_rows() if evidence.same(gold, final)]
    return pl.col("trajectory_id").is_in(right).cast(pl.Float64)
