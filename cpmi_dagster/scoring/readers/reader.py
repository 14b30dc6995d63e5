"""Read a whole row in one forward pass, under a mask, and project to the vocabulary at target positions only.

A vocabulary of 152,000 in float32 takes 0.6 MB a position: 128 MiB hold 220 positions, whatever the length of the row.
The decoder runs once. Then the whole model runs on each slice with the decoder's output substituted, so that everything
a model does to its logits (caps, scales, biases) is applied.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from cpmi_dagster.models.attention import attention_implementation
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.scoring.packing import PackedRow
from cpmi_dagster.scoring.trees import Integers

if TYPE_CHECKING:
    import torch

SLICE_BYTES = 128 * 2**20
FLOAT32_BYTES = 4
CPU_ROWS = 32


def upload(array: np.ndarray, device: "torch.device") -> "torch.Tensor":
    """An array as a tensor on a device; from pinned memory, so that the copy does not wait for the device's work."""
    import torch

    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


@dataclass(frozen=True)
class MaskReader:
    """Reads a whole row in one forward pass, under a mask.

    Attributes:
        name: name in the settings.
        model: the labeler.
        implementation: attention implementation of transformers; None = the model's own.
        mask: arguments of the model's forward that describe a row's structure, attention_mask included.
        padded: length of a row with its padding.
    """

    name: str
    model: LoadedModel
    implementation: str | None
    mask: Callable[[PackedRow, int], dict[str, Any]]
    padded: Callable[[int], int] = lambda tokens: tokens

    def logprobs(self, row: PackedRow) -> "torch.Tensor":
        """Log-probability of every target token of a row, natural logarithm.

        Returns:
            float32, in the order of `row.predicted`, on the device of the model's logits, [target tokens].
        """
        import torch

        size = self.padded(len(row))
        padding = (0, size - len(row))
        inputs = {
            "input_ids": upload(np.pad(row.tokens, padding)[None], self.model.device),
            "position_ids": upload(np.pad(row.depth, padding)[None], self.model.device),
            "use_cache": False,
            **self.mask(row, size),
        }
        with torch.inference_mode(), attention_implementation(self.model.model, self.implementation):
            return target_logprobs(self.model, inputs, row.predictors, row.predicted)


def masked_reader(model: LoadedModel) -> MaskReader:
    """A reader with the model's own attention and a 4-D mask: for short rows, and models with a custom attention.

    sdpa takes booleans (True = attend), others a number to add. The mask is always passed: without one, transformers
    reads restarted position ids as packed sequences, and separates branches from their prefix.
    """
    # private in transformers 5.23: the name of the attention implementation
    takes_booleans = model.model.config.get_text_config()._attn_implementation == "sdpa"

    def mask(row: PackedRow, size: int) -> dict[str, Any]:
        import torch

        allowed = ancestor_mask(upload(row.end, model.device))[None, None]
        if takes_booleans:
            return {"attention_mask": allowed}
        dtype = model.model.dtype
        blocked = torch.full(allowed.shape, torch.finfo(dtype).min, dtype=dtype, device=model.device)
        return {"attention_mask": blocked.masked_fill(allowed, 0)}

    return MaskReader("masked", model, None, mask)


def ancestor_mask(end: "torch.Tensor") -> "torch.Tensor":
    """True where node i may attend to node j: j is i or an ancestor of i, that is, `j <= i < end[j]`.

    node   0 1 2 3
    end    4 2 4 4
           0  x . . .
           1  x x . .
           2  x . x .
           3  x . x x

    Args:
        end: index after each node's last descendant, nodes in preorder, [nodes].

    Returns:
        [nodes (i), nodes (j)], boolean.
    """
    import torch

    index = torch.arange(len(end), device=end.device)
    return (index[None, :] <= index[:, None]) & (index[:, None] < end[None, :])


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
