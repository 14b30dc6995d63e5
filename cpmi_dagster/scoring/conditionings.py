"""CPMI of every step from stored log-probabilities (Eq. 3): no model, only differences of means.

With mean log-probabilities ℓ of the gold answer A and two negatives B, C, template 0, step 0, `marginal`:

    ℓ(A | q s0) - ℓ(A | q) = -0.5 - -1.5                                 = 1.0   gold_shift
    mean over B, C of ℓ(. | q s0) - ℓ(. | q) = (-2 - -2 + -1 - -2) / 2   = 0.5   negative_shift
                                                                           0.5   cpmi
"""

from collections.abc import Sequence

import polars as pl

from cpmi_dagster.contracts.contexts import CONDITIONINGS, QUESTION, Conditioning
from cpmi_dagster.contracts.tables import AnswerLogprobs, TemplateScores
from cpmi_dagster.errors import ScoringError

SCORE_KEY = TemplateScores.primary_key()
CONTEXT, CONDITIONING = AnswerLogprobs.columns()["context"].dtype, TemplateScores.columns()["conditioning"].dtype
CONTEXT_KEY = ["trajectory_id", "template", "context", "step_index"]
MEAN_LOGPROB = pl.col("logprob_sum") / pl.col("token_count")
NEGATIVES = MEAN_LOGPROB.filter(pl.col("answer_rank") > 0)
HARDEST = (1, 2)
"""Numbers of hardest negatives that are pooled alone (appendix D.1)."""


def _logsumexp(logprobs: pl.Expr) -> pl.Expr:
    return logprobs.max() + (logprobs - logprobs.max()).exp().sum().log()


POOLINGS: dict[str, pl.Expr] = {
    "mean": NEGATIVES.mean(),
    "logsumexp": _logsumexp(NEGATIVES),
    "max": NEGATIVES.max(),
    **{f"m{count}": MEAN_LOGPROB.filter(pl.col("order") <= count).mean() for count in HARDEST},
}
"""ℓ of the hard negatives of a context as one number, by name: of all, or of the one or two hardest."""


def template_scores(logprobs: pl.DataFrame, conditionings: Sequence[Conditioning]) -> pl.DataFrame:
    """Gold shift, negative shift and CPMI of every step under every template and conditioning (Eq. 3).

    Args:
        logprobs: columns of `labels.answer_logprobs`, with all contexts of the conditionings.

    Returns:
        Columns of `labels.template_scores`, sorted by their key; shifts in nats per token.

    Raises:
        ScoringError: a trajectory lacks a context, a gold answer or negatives; the message names it.
    """
    compared = compare_contexts(context_means(logprobs, ["mean"]), conditionings)
    scores = check_scored(compared, ["gold", "mean"]).with_columns(
        gold_shift=shift("gold"), negative_shift=shift("mean"), cpmi=shift("gold") - shift("mean")
    )
    return TemplateScores.cast(scores.select(TemplateScores.column_names())).sort(SCORE_KEY)


def shift(answers: str) -> pl.Expr:
    """ℓ of some answers with the step minus ℓ without it, in nats per token.

    Args:
        answers: `gold`, or the negatives pooled by one of `POOLINGS`.
    """
    return pl.col(f"{answers}_with") - pl.col(f"{answers}_without")


def context_means(logprobs: pl.DataFrame, poolings: Sequence[str] = tuple(POOLINGS)) -> pl.DataFrame:
    """ℓ of the gold answer and of the pooled hard negatives under every context; null if they are not scored.

    Args:
        logprobs: columns of `labels.answer_logprobs`.

    Returns:
        trajectory_id, template, context, step_index, gold, and a column for each of the poolings.
    """
    if {f"m{count}" for count in HARDEST} & {*poolings}:
        order = hardest_negatives(logprobs).select("trajectory_id", "answer_rank", "order")
        logprobs = logprobs.join(order, on=["trajectory_id", "answer_rank"], how="left")
    return (
        logprobs.sort(AnswerLogprobs.primary_key())
        .group_by(CONTEXT_KEY, maintain_order=True)
        .agg(
            gold=MEAN_LOGPROB.filter(pl.col("answer_rank") == 0).first(),
            **{pooling: POOLINGS[pooling] for pooling in poolings},
        )
    )


def compare_contexts(means: pl.DataFrame, conditionings: Sequence[Conditioning]) -> pl.DataFrame:
    """The two contexts that each conditioning compares, of every step under every template.

    Args:
        means: of `context_means`.

    Returns:
        trajectory_id, template, step_index, conditioning; `with` and `with_step`, the context with the step, and
        `…_with`, the columns of `means` under it; likewise `without`.
    """
    last_steps = means.group_by("trajectory_id", "template").agg(last=pl.col("step_index").max())
    rows = [
        (last, conditioning, step, *with_step, *without_step)
        for last in last_steps["last"].unique()
        for conditioning in conditionings
        for step in range(last + 1)
        for with_step, without_step in [CONDITIONINGS[conditioning].contexts(step, last)]
    ]
    sides = {"with": CONTEXT, "with_step": pl.Int64(), "without": CONTEXT, "without_step": pl.Int64()}
    schema = {"last": pl.Int64(), "conditioning": CONDITIONING, "step_index": pl.Int64(), **sides}
    compared = last_steps.join(pl.DataFrame(rows, schema=schema, orient="row"), on="last")
    for side in ("with", "without"):
        answers = means.columns[len(CONTEXT_KEY) :]
        names = {"context": side, "step_index": f"{side}_step", **{name: f"{name}_{side}" for name in answers}}
        key = ["trajectory_id", "template", side, f"{side}_step"]
        compared = compared.join(means.rename(names), on=key, how="left")
    return compared


def check_scored(compared: pl.DataFrame, answers: Sequence[str]) -> pl.DataFrame:
    """The rows of `compare_contexts`, if all have ℓ of some answers.

    Args:
        answers: `gold`, or names of poolings.

    Raises:
        ScoringError: a trajectory lacks a context, a gold answer or negatives; the message names it.
    """
    terms = [f"{name}_{side}" for name in answers for side in ("with", "without")]
    lacking = compared.filter(pl.any_horizontal(pl.col(terms).is_null())).sort(SCORE_KEY)
    if lacking.is_empty():
        return compared
    row = lacking.row(0, named=True)
    side = "with" if any(row[f"{name}_with"] is None for name in answers) else "without"
    what = "a gold answer" if row[f"gold_{side}"] is None else "hard negatives"
    if row[f"gold_{side}"] is not None and row[f"mean_{side}"] is not None:
        raise ScoringError(
            f"trajectory `{row['trajectory_id']}` has no negatives scored given the question alone, so they cannot be "
            "ordered by hardness; score it with the conditioning `marginal`"
        )
    raise ScoringError(
        f"trajectory `{row['trajectory_id']}` lacks {what} under context {row[side]}, "
        f"step_index {row[f'{side}_step']}, template {row['template']}, which `{row['conditioning']}` needs; score it "
        "with that conditioning and at least one negative"
    )


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


def candidate_logprobs(logprobs: pl.DataFrame) -> pl.DataFrame:
    """Log-probability of each answer among the gold answer and hard negatives of its context, which sum to 1.

    Args:
        logprobs: columns of `labels.answer_logprobs`.

    Returns:
        These columns and `among_candidates`, natural log, sorted by key.
    """
    total = _logsumexp(pl.col("logprob_sum")).over(CONTEXT_KEY)
    return logprobs.sort(AnswerLogprobs.primary_key()).with_columns(among_candidates=pl.col("logprob_sum") - total)
