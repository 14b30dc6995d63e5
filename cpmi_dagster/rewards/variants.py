"""Variants of CPMI: other conditionings, other contrasts, fewer negatives, one of its two terms alone.

Rewards in nats per token, of a step after which the gold answer's log-probability rises by 1.0 and those of two hard
negatives by 0.4 and 0.6:

    gold_only  1.0      neg_only  -0.5      cpmi  0.5
"""

from functools import partial

import polars as pl

from cpmi_dagster.contracts.contexts import CONDITIONINGS, PAPERS
from cpmi_dagster.rewards.methods import SCORES, conditioned, template_mean
from cpmi_dagster.rewards.reward_type import ALL, DEFAULT, Demand, Evidence, RewardType
from cpmi_dagster.scoring.conditionings import CONTRASTS, Contrast, contrast_shifts, gold_shifts, template_scores


def contrasted(evidence: Evidence, contrast: Contrast) -> pl.DataFrame:
    """The shift under another contrast with the hard negatives, which is not the paper's."""
    return template_mean(contrast_shifts(evidence.logprobs, evidence.conditioning, contrast), pl.col("shift"))


def fewer_negatives(evidence: Evidence, count: int) -> pl.DataFrame:
    """CPMI with the `count` hardest negatives (appendix D.1)."""
    return template_mean(template_scores(evidence.logprobs, [evidence.conditioning], count), pl.col("cpmi"))


def gold_only(evidence: Evidence) -> pl.DataFrame:
    """The gold answer's shift alone (table 2), which needs no hard negatives."""
    return template_mean(gold_shifts(evidence.logprobs, evidence.conditioning), pl.col("gold_shift"))


def negatives_only(evidence: Evidence) -> pl.DataFrame:
    """Minus the hard negatives' shift alone (table 2)."""
    return template_mean(evidence.scores(evidence.conditioning), -pl.col("negative_shift"))


VARIANTS = (
    *(
        RewardType(
            f"cpmi_{name}", f"CPMI ({entry.words})", partial(conditioned, conditioning=name), Demand((name,), ALL)
        )
        for name, entry in CONDITIONINGS.items()
        if name != PAPERS
    ),
    *(
        RewardType(f"cpmi_{contrast}", f"CPMI ({contrast})", partial(contrasted, contrast=contrast), SCORES)
        for contrast in CONTRASTS
        if contrast != "mean"
    ),
    *(
        RewardType(
            f"cpmi_m{count}", f"CPMI (M = {count})", partial(fewer_negatives, count=count), Demand((DEFAULT,), count)
        )
        for count in (1, 2)
    ),
    RewardType("gold_only", "Gold_only", gold_only, Demand((DEFAULT,))),
    RewardType("neg_only", "Neg_only", negatives_only, SCORES),
)
