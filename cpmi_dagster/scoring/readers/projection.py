"""From hidden states to log-probabilities, at target positions only and a slice at a time.

A vocabulary of 152,000 in float32 takes 0.6 MB a position: 128 MiB hold 220 positions, whatever the length of the row.
The decoder runs once. Then the whole model runs on each slice with the decoder's output substituted, so that everything
a model does to its logits (caps, scales, biases) is applied.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.scoring.transfer import upload
from cpmi_dagster.scoring.trees import Integers

if TYPE_CHECKING:
    import torch

SLICE_BYTES = 128 * 2**20
FLOAT32_BYTES = 4
CPU_ROWS = 32


def target_logprobs(
    model: LoadedModel, inputs: dict[str, Any], predictors: Integers, predicted: Integers
) -> "torch.Tensor":
    """log p(predicted[n] | what the predictor sees), float32, on the device of the logits, [target tokens].

    Args:
        inputs: arguments of the model's forward; rows of input_ids count as one long row.
        predictors: position that predicts each target token, [target tokens].
        predicted: token id it predicts, [target tokens].
    """
    import torch

    whole: Any = model.model
    kept, predictor = np.unique(predictors, return_inverse=True)
    order = np.argsort(predictor, kind="stable")
    step = max(1, SLICE_BYTES // (FLOAT32_BYTES * whole.get_output_embeddings().weight.shape[0]))
    bounds = np.searchsorted(predictor[order], np.arange(0, len(kept) + step, step))
    chosen, places, rows, tokens = (
        upload(part, model.device) for part in (kept, order, predictor[order], predicted[order])
    )
    output = whole.get_decoder()(**inputs)
    hidden = output.last_hidden_state.flatten(0, 1)
    hidden = hidden[chosen.to(hidden.device)]
    ordered = []
    for number, (first, last) in enumerate(pairwise(bounds)):
        part = type(output)(last_hidden_state=hidden[None, number * step : (number + 1) * step])
        with _returning(whole.get_decoder(), part):
            logits = whole(input_ids=inputs["input_ids"], use_cache=False).logits[0]
        ordered.append(_picked(logits, rows[first:last] - number * step, tokens[first:last]))
    picked = torch.cat(ordered) if ordered else hidden.new_empty(0, dtype=torch.float32)
    return torch.empty_like(picked).index_copy_(0, places.to(picked.device), picked)


@contextmanager
def _returning(decoder: Any, output: Any) -> Iterator[None]:
    """Within the block a decoder returns this output instead of computing one."""
    before = decoder.__dict__.get("forward")
    decoder.forward = lambda *_, **__: output
    try:
        yield
    finally:
        if before is None:
            del decoder.forward
        else:
            decoder.forward = before


def _picked(logits: "torch.Tensor", rows: "torch.Tensor", tokens: "torch.Tensor") -> "torch.Tensor":
    """log p of `tokens[n]` under `logits[rows[n]]`, rows ascending; float32, [n]."""
    import torch

    rows, tokens = rows.to(logits.device), tokens.to(logits.device)
    if logits.device.type != "cpu":
        logits = logits.float()
        return logits[rows, tokens] - logits.logsumexp(-1)[rows]
    # on a CPU log_softmax takes a tenth of the time of logsumexp, on copies that fit the cache
    parts = logits.split(CPU_ROWS)
    bounds = torch.searchsorted(rows, torch.arange(len(parts) + 1) * CPU_ROWS).tolist()
    return torch.cat(
        [
            part.float().log_softmax(-1)[rows[first:last] - number * CPU_ROWS, tokens[first:last]]
            for number, (part, (first, last)) in enumerate(zip(parts, pairwise(bounds), strict=True))
        ]
    )
