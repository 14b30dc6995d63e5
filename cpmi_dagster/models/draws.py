"""Log-probabilities of given tokens, and of tokens that are drawn.

    "The answer is: " + OWN_DRAW        sum of p log p over the vocabulary: minus the entropy
    "The answer is: " + UNIFORM_DRAW    mean of log p over it: minus the self-certainty, less a constant

A draw stands in the place of a target's last token.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

OWN_DRAW, UNIFORM_DRAW = -1, -2


def picked(logprobs: "torch.Tensor", rows: "torch.Tensor", tokens: "torch.Tensor", is_drawn: bool) -> "torch.Tensor":
    """`logprobs[rows[n], tokens[n]]`, and where the token is a draw, its expectation; [n].

    Args:
        is_drawn: whether any token is a draw; looking at those on a GPU would wait for them.
    """
    import torch

    values = logprobs[rows, tokens]
    if is_drawn:
        for draw, expected in (
            (OWN_DRAW, lambda whole: -torch.special.entr(whole.exp()).sum(-1)),
            (UNIFORM_DRAW, lambda whole: whole.mean(-1)),
        ):
            drawn = tokens == draw
            values[drawn] = expected(logprobs[rows[drawn]])
    return values
