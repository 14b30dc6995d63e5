"""Tokens of a continuation: drawn by temperature, top-k and top-p, until a text or a line ends.

Every prompt has a stream of random numbers, seeded by (seed, prompt), so the result depends neither on other prompts
nor on the caller's random state.

    logits     [2.0, 1.0, 0.5, -1.0]      top_k 3, top_p 0.9, temperature 1
    kept       [0.63, 0.23, 0.14]         0.63 + 0.23 < 0.9, so the third stays
    number     0.80                       between 0.63 and 0.86: token 1

A continuation ends at the end-of-text token, or at the end of a line that stops it. A token may contain more than the
newline, such as `.\\n\\n`: the text is cut, the token counts.

    stop = "answer"   "48 / 2 = 24\\nThe answer is: 24\\nProblem:"  →  "48 / 2 = 24\\nThe answer is: 24\\n"
                      "#### 24\\n" also ends a text
    stop = "line"     "24\\nProblem:"  →  "24\\n"
"""

import re
from typing import TYPE_CHECKING

from cpmi_dagster.contracts.seeded import derived_seed
from cpmi_dagster.generation.engine import Generation, Stop
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.models.language_models import LoadedModel

if TYPE_CHECKING:
    import torch

NUCLEUS_GUESS = 64
STREAM = 0
"""Part of every prompt's seed; a change would change all kept texts and the published figures."""
LAST_LINE: dict[Stop, re.Pattern[str]] = {
    "answer": re.compile(r"(?:the answer is\s*:|####)[^\S\n]*\S[^\n]*\n", re.IGNORECASE),
    "line": re.compile(r"\n"),
}
TAIL_TOKENS = 64
TOKEN_ENDINGS = "token endings"
"""Key of `LoadedModel.cache`."""


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


def states_answer(line: str) -> bool:
    """Whether a line states the final answer, as `… The answer is: 24` and `#### 24` do."""
    return LAST_LINE["answer"].search(line.rstrip("\n") + "\n") is not None


def cut_at_stop(text: str, stop: Stop, met_limit: bool, tokens: int, prompt_tokens: int) -> Generation:
    """Cut a continuation after its first stopping line; without one it is truncated if it met the limit."""
    last_line = LAST_LINE[stop].search(text)
    kept = text[: last_line.end()] if last_line else text
    return Generation(kept, tokens, truncated=met_limit and not last_line, prompt_tokens=prompt_tokens)


class StopRule:
    """Finds rows that have just ended; only rows whose newest token contains a newline are decoded."""

    def __init__(self, loaded: LoadedModel, stop: Stop) -> None:
        self._tokenizer = loaded.tokenizer
        self._last_line = LAST_LINE[stop]
        if TOKEN_ENDINGS not in loaded.cache:  # 152,000 tokens take a second to decode
            loaded.cache[TOKEN_ENDINGS] = _token_endings(loaded)
        self._ends_text, self._ends_line = loaded.cache[TOKEN_ENDINGS]

    def ended(self, tokens: "torch.Tensor", counts: "torch.Tensor", active: "torch.Tensor") -> "torch.Tensor":
        """Whether each active row ended with its newest token, (rows,).

        Args:
            tokens: continuations, (rows, limit); the first `counts` tokens of a row are valid.
            counts: tokens of each row, (rows,), all positive.
            active: rows to look at, (rows,).
        """
        newest = tokens.gather(1, (counts - 1)[:, None])[:, 0]
        ended = self._ends_text[newest] & active
        rows = (self._ends_line[newest] & active & ~ended).nonzero()[:, 0].tolist()
        if rows:
            ends = counts[rows].tolist()
            tails = [tokens[row, max(0, end - TAIL_TOKENS) : end].tolist() for row, end in zip(rows, ends, strict=True)]
            texts = self._tokenizer.batch_decode(tails)
            ended[[row for row, text in zip(rows, texts, strict=True) if self._last_line.search(text)]] = True
        return ended


def _token_endings(loaded: LoadedModel) -> "tuple[torch.Tensor, torch.Tensor]":
    """Whether each token ends a text, and whether it contains a newline; (vocabulary,) each."""
    import torch

    tokens = range(loaded.model.config.get_text_config().vocab_size)
    configured = getattr(loaded.model.generation_config, "eos_token_id", None)
    last = [loaded.tokenizer.eos_token_id, *(configured if isinstance(configured, list) else [configured])]
    texts = loaded.tokenizer.batch_decode([[token] for token in tokens])
    return (
        torch.tensor([token in last for token in tokens], device=loaded.device),
        torch.tensor(["\n" in text for text in texts], device=loaded.device),
    )
