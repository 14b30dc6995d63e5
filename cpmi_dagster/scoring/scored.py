"""What both scorers return: one row per answer, context and template.

trajectory_id  template  context  step_index  answer_rank  logprob_sum  token_count
t000000001            0  prefix            2            0       -4.816            8
"""

from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True)
class Scored:
    """Log-probabilities of some trajectories, and the tokens it took.

    Attributes:
        logprobs: columns of `labels.answer_logprobs`, in no particular order; sums may be NaN or infinite.
        forward_tokens: tokens that went through a forward pass.
    """

    logprobs: pl.DataFrame
    forward_tokens: int
