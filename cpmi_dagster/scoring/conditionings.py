"""CPMI of every step from stored log-probabilities (Eq. 3): no model, only differences of means.

With mean log-probabilities ℓ of the gold answer A and two negatives B, C, template 0, step 0, `marginal`:

    ℓ(A | q s0) - ℓ(A | q) = -0.5 - -1.5                                 = 1.0   gold_shift
    mean over B, C of ℓ(. | q s0) - ℓ(. | q) = (-2 - -2 + -1 - -2) / 2   = 0.5   negative_shift
                                                                           0.5   cpmi
"""

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import polars as pl

from cpmi_dagster.contracts.contexts import QUESTION, Conditioning, contrast
from cpmi_dagster.contracts.tables import AnswerLogprobs, TemplateScores
from cpmi_dagster.errors import ScoringError

SCORE_KEY = TemplateScores.primary_key()
CONTEXT, CONDITIONING = AnswerLogprobs.columns()["context"].dtype, TemplateScores.columns()["conditioning"].dtype
MEAN_LOGPROB = pl.col("logprob_sum") / pl.col("token_count")

Contrast = Literal["mean", "logsumexp", "max"]
CONTRASTS: tuple[Contrast, ...] = get_args(Contrast)
POOLED: dict[Contrast, Callable[[pl.Expr], pl.Expr]] = {
    "mean": lambda logprobs: logprobs.mean(),
    "logsumexp": lambda logprobs: logprobs.max() + (logprobs - logprobs.max()).exp().sum().log(),
    "max": lambda logprobs: logprobs.max(),
}


def template_scores(
    logprobs: pl.DataFrame, conditionings: Sequence[Conditioning], count: int | None = None
) -> pl.DataFrame:
    """Gold shift, negative shift and CPMI of every step under every template and conditioning (Eq. 3).

    Args:
        logprobs: columns of `labels.answer_logprobs`, with all contexts of the conditionings.
        count: contrast with the `count` hardest negatives (appendix D.1); all if None.

    Returns:
        Columns of `labels.template_scores`, sorted by their key; shifts in nats per token.

    Raises:
        ScoringError: a trajectory lacks a context, a gold answer or negatives; the message names it.
    """
    if count is not None:
        logprobs = _with_hardest(logprobs, count)
    means = _context_means(logprobs)
    scores = (
        _both_sides(means, conditionings, ("gold", "negative"))
        .with_columns(
            gold_shift=pl.col("gold_with") - pl.col("gold_without"),
            negative_shift=pl.col("negative_with") - pl.col("negative_without"),
        )
        .with_columns(cpmi=pl.col("gold_shift") - pl.col("negative_shift"))
    )
    return TemplateScores.cast(scores.select(TemplateScores.column_names())).sort(SCORE_KEY)


def contrast_shifts(logprobs: pl.DataFrame, conditioning: Conditioning, contrast: Contrast = "mean") -> pl.DataFrame:
    """Shift of the gold answer against the pooled hard negatives, of every step under every template.

    With L(a | x) the mean log-probability of an answer's tokens:

        mean        L(A) - mean over m of L(A_m)        CPMI (Eq. 3)
        logsumexp   L(A) - log sum over m of exp L(A_m)  log-odds of the gold answer among the candidates
        max         L(A) - max over m of L(A_m)          margin over the likeliest wrong answer

    The shift is the value with the step minus the value without it.

    Args:
        logprobs: columns of `labels.answer_logprobs`, all contexts of the conditioning in it.

    Returns:
        trajectory_id, template, step_index, shift in nats per token.

    Raises:
        ScoringError: a trajectory lacks a context, a gold answer or negatives; the message names it.
    """
    means = _context_means(logprobs, contrast)
    scores = _both_sides(means, [conditioning], ("gold", "negative"))
    shift = (pl.col("gold_with") - pl.col("negative_with")) - (pl.col("gold_without") - pl.col("negative_without"))
    return scores.select("trajectory_id", "template", "step_index", shift=shift)


def gold_shifts(logprobs: pl.DataFrame, conditioning: Conditioning) -> pl.DataFrame:
    """Gold shift of every step under every template; needs no hard negatives.

    Args:
        logprobs: columns of `labels.answer_logprobs`, all contexts of the conditioning in it.

    Returns:
        trajectory_id, template, step_index, gold_shift in nats per token.

    Raises:
        ScoringError: a trajectory lacks a context or a gold answer; the message names it.
    """
    means = _context_means(logprobs)
    scores = _both_sides(means, [conditioning], ("gold",))
    shift = pl.col("gold_with") - pl.col("gold_without")
    return scores.select("trajectory_id", "template", "step_index", gold_shift=shift)


def hardest_negatives(logprobs: pl.DataFrame) -> pl.DataFrame:
    """Negatives by hardness: mean log-probability given the question alone, averaged over templates.

    Args:
        logprobs: columns of `labels.answer_logprobs`, with the context `question`.

    Returns:
        trajectory_id, answer_rank, hardness (nats per token), order (1 = hardest, ties by rank), in this order.
    """
    return (
        logprobs.filter(pl.col("context") == QUESTION.kind, pl.col("answer_rank") > 0)
        .sort("trajectory_id", "answer_rank", "template")
        .group_by("trajectory_id", "answer_rank", maintain_order=True)
        .agg(hardness=MEAN_LOGPROB.mean())
        .sort("trajectory_id", "hardness", "answer_rank", descending=[False, True, False])
        .with_columns(order=pl.int_range(1, pl.len() + 1).over("trajectory_id"))
    )


def _with_hardest(logprobs: pl.DataFrame, count: int) -> pl.DataFrame:
    """The gold answer and the `count` hardest negatives of each trajectory."""
    if count < 1:
        raise ScoringError(f"CPMI contrasts with at least one hard negative, not {count}; raise `count`")
    order = hardest_negatives(logprobs)
    unranked = logprobs.join(order, on="trajectory_id", how="anti")
    if not unranked.is_empty():
        raise ScoringError(
            f"trajectory `{unranked['trajectory_id'].min()}` has no negatives scored given the question alone, so they "
            "cannot be ordered by hardness; score it with the conditioning `marginal`"
        )
    hardest = order.filter(pl.col("order") <= count).select("trajectory_id", "answer_rank")
    gold = hardest.select("trajectory_id", answer_rank=pl.lit(0, pl.Int64)).unique()
    return logprobs.join(pl.concat([gold, hardest]), on=["trajectory_id", "answer_rank"], how="semi")


def _context_means(logprobs: pl.DataFrame, contrast: Contrast = "mean") -> pl.DataFrame:
    """ℓ of the gold answer and pooled ℓ of the negatives per trajectory, template and context."""
    return (
        logprobs.sort(AnswerLogprobs.primary_key())
        .group_by("trajectory_id", "template", "context", "step_index", maintain_order=True)
        .agg(
            gold=MEAN_LOGPROB.filter(pl.col("answer_rank") == 0).first(),
            negative=POOLED[contrast](MEAN_LOGPROB.filter(pl.col("answer_rank") > 0)),
        )
    )


def _both_sides(means: pl.DataFrame, conditionings: Sequence[Conditioning], answers: Sequence[str]) -> pl.DataFrame:
    """Every contrast with ℓ of both its contexts; a missing ℓ of the answers needed is an error."""
    scores = _contrasts(means, conditionings)
    for side in ("with", "without"):
        names = {"context": side, "step_index": f"{side}_step", "gold": f"gold_{side}", "negative": f"negative_{side}"}
        scores = scores.join(means.rename(names), on=["trajectory_id", "template", side, f"{side}_step"], how="left")
    terms = [f"{answer}_{side}" for answer in answers for side in ("with", "without")]
    lacking = scores.filter(pl.any_horizontal(pl.col(terms).is_null())).sort(SCORE_KEY)
    if lacking.is_empty():
        return scores
    row = lacking.row(0, named=True)
    side = "with" if any(row[f"{answer}_with"] is None for answer in answers) else "without"
    what = "a gold answer" if row[f"gold_{side}"] is None else "hard negatives"
    raise ScoringError(
        f"trajectory `{row['trajectory_id']}` lacks {what} under context {row[side]}, "
        f"step_index {row[f'{side}_step']}, template {row['template']}, which `{row['conditioning']}` needs; score it "
        "with that conditioning and at least one negative"
    )


def _contrasts(means: pl.DataFrame, conditionings: Sequence[Conditioning]) -> pl.DataFrame:
    """The two contexts compared for every trajectory, template, step and conditioning."""
    last_steps = means.group_by("trajectory_id", "template").agg(last=pl.col("step_index").max())
    rows = [
        (last, conditioning, step, *with_step, *without_step)
        for last in last_steps["last"].unique()
        for conditioning in conditionings
        for step in range(last + 1)
        for with_step, without_step in [contrast(conditioning, step, last)]
    ]
    sides = {"with": CONTEXT, "with_step": pl.Int64(), "without": CONTEXT, "without_step": pl.Int64()}
    schema = {"last": pl.Int64(), "conditioning": CONDITIONING, "step_index": pl.Int64(), **sides}
    return last_steps.join(pl.DataFrame(rows, schema=schema, orient="row"), on="last")


def candidate_logprobs(logprobs: pl.DataFrame) -> pl.DataFrame:
    """Log-probability of each answer among the gold answer and hard negatives of its context, which sum to 1.

    Args:
        logprobs: columns of `labels.answer_logprobs`.

    Returns:
        These columns and `among_candidates`, natural log, sorted by key.
    """
    context = ["trajectory_id", "template", "context", "step_index"]
    total = POOLED["logsumexp"](pl.col("logprob_sum")).over(context)
    return logprobs.sort(AnswerLogprobs.primary_key()).with_columns(among_candidates=pl.col("logprob_sum") - total)
