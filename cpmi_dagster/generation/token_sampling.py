"""Draw next tokens by temperature, top-k and top-p, from random numbers that belong to the prompt.

Every prompt has its own stream of random numbers, seeded by (seed, prompt): the result does not depend on the other
prompts of a batch, nor on the caller's random state.

    logits     [2.0, 1.0, 0.5, -1.0]      top_k 3, top_p 0.9, temperature 1
    kept       [0.63, 0.23, 0.14]         0.63 + 0.23 < 0.9, so the third stays
    number     0.80                       between 0.63 and 0.86: token 1
"""

from typing import TYPE_CHECKING

from cpmi_dagster.contracts.seeded import derived_seed
from cpmi_dagster.generation.settings import Sampling

if TYPE_CHECKING:
    import torch

NUCLEUS_GUESS = 64
STREAM = 0
"""Part of every prompt's seed: sampled texts that are kept, and the printed figures, rest on it."""


def prompt_seed(prompt: str, seed: int) -> int:
    """A seed for engines with their own generator.

    Returns:
        A number of 31 bits, far from those of other prompts: vLLM gives sample i the seed plus i.
    """
    return derived_seed(seed, [STREAM, prompt]) >> 1


def uniform_numbers(prompt: str, seed: int, samples: int, limit: int, first: int = 0) -> "torch.Tensor":
    """The random numbers that a prompt's samples are drawn with, in (0, 1], (samples, limit)."""
    import torch

    generator = torch.Generator().manual_seed(derived_seed(seed, [STREAM, prompt], size=8))
    return 1 - torch.rand((first + samples, limit), generator=generator)[first:]


def draw_tokens(logits: "torch.Tensor", numbers: "torch.Tensor", sampling: Sampling) -> "torch.Tensor":
    """One token a row, by inversion of the cumulative distribution.

    Args:
        logits: (rows, vocabulary).
        numbers: uniform in (0, 1], (rows,).
        sampling: temperature, top-k and top-p, applied in this order.

    Returns:
        Token ids, (rows,).
    """
    import torch

    # the most likely tokens, descending; all of them, in place, where nothing is cut
    width, tokens = logits.shape[-1], None
    if 0 < sampling.top_k < width:
        highest, tokens = logits.topk(sampling.top_k, dim=-1)
        probabilities = (highest.float() / sampling.temperature).softmax(dim=-1)
    else:
        probabilities = (logits.float() / sampling.temperature).softmax(dim=-1)
        if sampling.top_p < 1:
            # a nucleus rarely holds more than a few tokens: sort the whole vocabulary only where it does
            likely, tokens = probabilities.topk(min(NUCLEUS_GUESS, width), dim=-1)
            if bool((likely.sum(dim=-1) >= sampling.top_p).all()):
                probabilities = likely
            else:
                probabilities, tokens = probabilities.sort(dim=-1, descending=True)
    cumulative = probabilities.cumsum(dim=-1)
    if sampling.top_p < 1:
        kept = cumulative - probabilities < sampling.top_p
        cumulative = (probabilities * kept).cumsum(dim=-1)
    chosen = torch.searchsorted(cumulative, (numbers * cumulative[:, -1])[:, None])
    chosen = chosen.clamp(max=cumulative.shape[-1] - 1)
    return (chosen if tokens is None else tokens.gather(1, chosen))[:, 0]
