"""Controls: labels that a method has to beat before its own count, since they cost nothing or know nothing.

    trajectory   final answer right   steps   position          final answer   final answer × position
    t000000007   yes                  3       0.67 0.33 0.00    1 1 1          1.00 1.00 1.00
    t000000012   no                   3       0.67 0.33 0.00    0 0 0          0.67 0.33 0.00

Position, final answer and length need the trajectory alone. Surprisal is what the labeler thinks of a step without any
answer.
"""

import polars as pl

from cpmi_dagster.rewards.formulas import STEP, Evidence, template_mean
from cpmi_dagster.scoring.conditionings import MEAN_LOGPROB


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
    following = evidence.control_logprobs.select(
        "trajectory_id", "template", pl.col("step_index") + 1, logprob=MEAN_LOGPROB
    )
    return template_mean(following, pl.col("logprob"))


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
