"""Draw tokens by temperature, top-k and top-p, with random numbers that belong to the prompt.

Every prompt has a stream of random numbers, seeded by (seed, prompt), so the result depends neither on other prompts
nor on the caller's random state.

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
"""Part of every prompt's seed; a change would change all kept texts and the published figures."""


def prompt_seed(prompt: str, seed: int) -> int:
    """A seed of 31 bits for engines with a random generator; vLLM gives sample i the seed plus i."""
    return derived_seed(seed, [STREAM, prompt]) >> 1


def uniform_numbers(prompt: str, seed: int, samples: int, limit: int, first: int = 0) -> "torch.Tensor":
    """The random numbers of a prompt's samples, in (0, 1], (samples, limit)."""
    import torch

    generator = torch.Generator().manual_seed(derived_seed(seed, [STREAM, prompt], size=8))
    return 1 - torch.rand((first + samples, limit), generator=generator)[first:]


def draw_tokens(logits: "torch.Tensor", numbers: "torch.Tensor", sampling: Sampling) -> "torch.Tensor":
    """Draw one token per row by inverting the cumulative distribution; returns ids, (rows,).

    Args:
        logits: (rows, vocabulary).
        numbers: uniform in (0, 1], (rows,).
        sampling: temperature, top-k and top-p, applied in this order.
    """
    import torch

    # probabilities in descending order; in vocabulary order if nothing is cut
    width, tokens = logits.shape[-1], None
    if 0 < sampling.top_k < width:
        highest, tokens = logits.topk(sampling.top_k, dim=-1)
        probabilities = (highest.float() / sampling.temperature).softmax(dim=-1)
    else:
        probabilities = (logits.float() / sampling.temperature).softmax(dim=-1)
        if sampling.top_p < 1:
            # a nucleus is usually small: sort the whole vocabulary only if it is not
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
