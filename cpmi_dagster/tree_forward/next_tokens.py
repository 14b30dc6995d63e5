"""Log-probabilities of the tokens that nodes predict: the values of a labeler's trees.

Logits over 152,000 tokens in float32 take 0.6 MB a position, so they are computed for slices of 128 MiB, about 220
positions. The decoder runs once; then the whole model runs on each slice with the decoder's output substituted, so that
all that a model does to its logits (caps, scales, biases) is applied.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from cpmi_dagster.models.tokens import TokenIds
from cpmi_dagster.tree_forward.row_readers import upload
from cpmi_dagster.tree_forward.trees import PackedRow

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

SLICE_BYTES = 128 * 2**20
FLOAT32_BYTES = 4
CPU_ROWS = 32


def token_logprobs(model: "PreTrainedModel", context: TokenIds, target: TokenIds) -> "torch.Tensor":
    """log p(token | all tokens before it) of each target token, natural log, float32, [target tokens].

    One sequence, read alone: the reference for token trees.

    Args:
        context: token ids of question and steps, at least one.
        target: token ids of the answer line, at least one.
    """
    import torch

    with torch.inference_mode():
        sequence = torch.tensor([[*context, *target[:-1]]], device=model.device)
        logits = model(input_ids=sequence, use_cache=False).logits[0, len(context) - 1 :]
        tokens = torch.tensor(target, device=logits.device)
        places = torch.arange(len(target), device=logits.device)
        return logits.float().log_softmax(-1)[places, tokens]


def predicted_logprobs(model: "PreTrainedModel", output: Any, row: PackedRow) -> "torch.Tensor":
    """log p of the token that each place of a row predicts, natural log, float32, on the logits' device, [values].

    Args:
        output: the decoder's output for this row.
    """
    import torch

    whole: Any = model
    kept, place = np.unique(row.places, return_inverse=True)
    order = np.argsort(place, kind="stable")
    step = max(1, SLICE_BYTES // (FLOAT32_BYTES * whole.get_output_embeddings().weight.shape[0]))
    bounds = np.searchsorted(place[order], np.arange(0, len(kept) + step, step))
    chosen, places, rows, tokens = (
        upload(part, model.device) for part in (kept, order, place[order], row.predicted[order])
    )
    hidden = output.last_hidden_state.flatten(0, 1)
    hidden = hidden[chosen.to(hidden.device)]
    # in the place of a slice's tokens, whose states are known
    empty = torch.zeros((1, 1), dtype=torch.long, device=model.device)
    ordered = []
    for number, (first, last) in enumerate(pairwise(bounds)):
        part = type(output)(last_hidden_state=hidden[None, number * step : (number + 1) * step])
        with _replaced_forward(whole.get_decoder(), part):
            logits = whole(input_ids=empty, use_cache=False).logits[0]
        ordered.append(_pick_logprobs(logits, rows[first:last] - number * step, tokens[first:last]))
    picked = torch.cat(ordered) if ordered else hidden.new_empty(0, dtype=torch.float32)
    return torch.empty_like(picked).index_copy_(0, places.to(picked.device), picked)


@contextmanager
def _replaced_forward(decoder: Any, output: Any) -> Iterator[None]:
    """Within the block, calls of a decoder return this output."""
    before = decoder.__dict__.get("forward")
    decoder.forward = lambda *_, **__: output
    try:
        yield
    finally:
        if before is None:
            del decoder.forward
        else:
            decoder.forward = before


def _pick_logprobs(logits: "torch.Tensor", rows: "torch.Tensor", tokens: "torch.Tensor") -> "torch.Tensor":
    """log p of `tokens[n]` under `logits[rows[n]]`, rows ascending; float32, [n]."""
    import torch

    rows, tokens = rows.to(logits.device), tokens.to(logits.device)
    if logits.device.type != "cpu":
        logits = logits.float()
        return logits[rows, tokens] - logits.logsumexp(-1)[rows]
    # on a CPU, log_softmax of parts that fit the cache takes a tenth of the time of logsumexp
    parts = logits.split(CPU_ROWS)
    bounds = torch.searchsorted(rows, torch.arange(len(parts) + 1) * CPU_ROWS).tolist()
    return torch.cat(
        [
            part.float().log_softmax(-1)[rows[first:last] - number * CPU_ROWS, tokens[first:last]]
            for number, (part, (first, last)) in enumerate(zip(parts, pairwise(bounds), strict=True))
        ]
    )
