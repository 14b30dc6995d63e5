"""Variants of CPMI: other conditionings, negatives pooled otherwise, fewer negatives, one of its two terms alone.

Rewards in nats per token, of a step after which the gold answer's log-probability rises by 1.0 and those of two hard
negatives by 0.4 and 0.6:

    gold_only  1.0      neg_only  -0.5      cpmi  0.5
"""

from functools import partial

import polars as pl

from cpmi_dagster.contracts.contexts import CONDITIONINGS, PAPERS
from cpmi_dagster.rewards.methods import SCORES, conditioned, template_mean
from cpmi_dagster.rewards.reward_type import DEFAULT, EVERY, Demand, LabelInputs, RewardType
from cpmi_dagster.scoring.conditionings import HARDEST, check_scored, shift


def pooled(inputs: LabelInputs, pooling: str) -> pl.DataFrame:
    """The shift of the gold answer against hard negatives that are pooled otherwise, which is not the paper's.

    With L(a) the mean log-probability of an answer's tokens, the shift is the value with the step minus that without:

        logsumexp   L(A) - log sum over m of exp L(A_m)  log-odds of the gold answer among the candidates
        max         L(A) - max over m of L(A_m)          margin over the likeliest wrong answer
    """
    gap = {side: pl.col(f"gold_{side}") - pl.col(f"{pooling}_{side}") for side in ("with", "without")}
    return template_mean(_compared(inputs, "gold", pooling), gap["with"] - gap["without"])


def fewer_negatives(inputs: LabelInputs, count: int) -> pl.DataFrame:
    """CPMI with the `count` hardest negatives (appendix D.1)."""
    return template_mean(_compared(inputs, "gold", f"m{count}"), shift("gold") - shift(f"m{count}"))


def gold_only(inputs: LabelInputs) -> pl.DataFrame:
    """The gold answer's shift alone (table 2), which needs no hard negatives."""
    return template_mean(_compared(inputs, "gold"), shift("gold"))


def negatives_only(inputs: LabelInputs) -> pl.DataFrame:
    """Minus the hard negatives' shift alone (table 2)."""
    return template_mean(_compared(inputs, "gold", "mean"), -shift("mean"))


def _compared(inputs: LabelInputs, *answers: str) -> pl.DataFrame:
    return check_scored(inputs.compared(inputs.conditioning), answers)


VARIANTS = (
    *(
        RewardType(
            f"cpmi_{name}", f"CPMI ({entry.words})", partial(conditioned, conditioning=name), Demand((name,), EVERY)
        )
        for name, entry in CONDITIONINGS.items()
        if name != PAPERS
    ),
    *(
        RewardType(f"cpmi_{pooling}", f"CPMI ({pooling})", partial(pooled, pooling=pooling), SCORES)
        for pooling in ("logsumexp", "max")
    ),
    *(
        RewardType(
            f"cpmi_m{count}", f"CPMI (M = {count})", partial(fewer_negatives, count=count), Demand((DEFAULT,), count)
        )
        for count in HARDEST
    ),
    RewardType("gold_only", "Gold_only", gold_only, Demand((DEFAULT,))),
    RewardType("neg_only", "Neg_only", negatives_only, SCORES),
)
