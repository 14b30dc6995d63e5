"""Ways to score the same requests with the same model; each takes token ids and returns log p of every target.

Contexts "q" and "q s", answers "a b" and "a c"; what goes through the model:

    released        q a b | q a c | q s a b | q s a c     a sequence each, padded batches of 12 in the order they come
    harness         q s a | q a                           a sequence per text without its last token, longest first
    cached prefix   q s   | a, a | a, a                   question and steps once, answers behind them (scoring_cached)
    tree            q s a a                               ours; its seconds include tokenising and building tables
    dense           as many tokens as the tree, without branches: the unit of "seconds per token"
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import polars as pl
import torch
from scoring_meter import ForwardMeter
from scoring_sequences import Key, Request, padded_tokens

from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.scoring.logprobs import answer_logprobs
from cpmi_dagster.scoring.settings import Scoring

RELEASED_BATCH = 12
KEY_COLUMNS = ("trajectory_id", "template", "context", "step_index", "answer_rank")
Logprobs = Mapping[Key, float]
Item = TypeVar("Item")


def batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """The items, so many at a time."""
    return (items[first : first + size] for first in range(0, len(items), size))


def tree(model: LoadedModel, trajectories: pl.DataFrame, negatives: pl.DataFrame, scoring: Scoring) -> Logprobs:
    """Ours, from text to table."""
    table = answer_logprobs(trajectories, negatives, model, scoring).logprobs
    return {cast(Key, row[:-1]): row[-1] for row in table.select(*KEY_COLUMNS, "logprob_sum").iter_rows()}


def released(model: LoadedModel, requests: Sequence[Request], batch: int = RELEASED_BATCH) -> Logprobs:
    """The authors' procedure: sequences padded on the right with a mask, logits of every position, log-softmax over
    the target's.

    Args:
        model: the labeler.
        requests: in the order trajectory, template, context, answer.
        batch: sequences of a forward pass.
    """
    scored: dict[Key, float] = {}
    for part in batches(requests, batch):
        ids, mask = _right_padded([request.context + request.target for request in part], model.device)
        with torch.inference_mode():
            logits = model.model(input_ids=ids, attention_mask=mask, use_cache=False).logits
            for request, row, own in zip(part, logits, ids, strict=True):
                first, last = len(request.context), len(request.context) + len(request.target)
                logprobs = row[first - 1 : last - 1].float().log_softmax(-1)
                scored[request.key] = float(logprobs.gather(1, own[first:last, None]).double().sum())
    return scored


def released_tokens(requests: Sequence[Request], batch: int = RELEASED_BATCH) -> int:
    """Tokens that `released` computes, padding included."""
    return padded_tokens([len(request.context) + len(request.target) for request in requests], batch)


def _right_padded(texts: Sequence[Sequence[int]], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask, [texts, longest]."""
    longest = max(map(len, texts))
    ids = torch.tensor([[*text, *[0] * (longest - len(text))] for text in texts])
    lengths = torch.tensor([len(text) for text in texts])
    mask = (torch.arange(longest) < lengths[:, None]).long()
    return ids.to(device), mask.to(device)


class Harness:
    """lm-evaluation-harness on the loaded model.

    `HFLM.loglikelihood` tokenises the pair itself and moves the newline that ends a context into the target; the ids
    of this project's layout go to `HFLM._loglikelihood_tokens`, to which it hands its own. That sorts by length,
    computes sequences that differ only in their last token once, and projects every position to the vocabulary.

    Args:
        model: the labeler.
        batch: sequences of a forward pass.
    """

    def __init__(self, model: LoadedModel, batch: int) -> None:
        from lm_eval.models import huggingface

        logging.getLogger("lm_eval").setLevel(logging.ERROR)
        harness: Any = huggingface.HFLM
        self._model = harness(
            pretrained=model.model, tokenizer=model.tokenizer, batch_size=batch, max_length=model.context_length
        )

    def __call__(self, requests: Sequence[Request]) -> Logprobs:
        """log p of every target."""
        pairs = [(None, list(request.context), list(request.target)) for request in requests]
        outcomes = self._model._loglikelihood_tokens(pairs, disable_tqdm=True)
        return {request.key: value for request, (value, _) in zip(requests, outcomes, strict=True)}


def harness_tokens(requests: Sequence[Request], batch: int) -> int:
    """Tokens that the harness computes, padding included."""
    texts = {request.context + request.target[:-1] for request in requests}
    return padded_tokens(sorted(map(len, texts), reverse=True), batch)


def dense(model: LoadedModel, meter: ForwardMeter, longest: int) -> None:
    """Ordinary causal passes over as many random tokens as were metered, as many positions projected.

    Args:
        model: the labeler.
        meter: of the tree scorer.
        longest: tokens of a row.
    """
    share = meter.projected / max(meter.tokens, 1)
    generator = torch.Generator().manual_seed(0)
    with torch.inference_mode():
        for first in range(0, meter.tokens, longest):
            tokens = min(longest, meter.tokens - first)
            ids = torch.randint(0, len(model.tokenizer), (1, tokens), generator=generator)
            kept = torch.arange(max(1, round(tokens * share)))
            model.model(input_ids=ids.to(model.device), logits_to_keep=kept.to(model.device), use_cache=False)
