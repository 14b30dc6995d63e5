"""From hidden states to log-probabilities, at target positions only and a slice at a time.

A vocabulary of 152,000 in float32 takes 0.6 MB a position: 64 MiB hold 110 positions, whatever the length of the row.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cpmi_dagster.language_models import LoadedModel
from cpmi_dagster.scoring.trees import Integers

if TYPE_CHECKING:
    import torch

SLICE_BYTES = 64 * 2**20
FLOAT32_BYTES = 4


class Projection(Protocol):
    """Runs a model and picks the log-probabilities of target tokens."""

    def logprobs(self, inputs: dict[str, Any], predictors: Integers, predicted: Integers) -> "torch.Tensor":
        """log p(predicted[n] | what the predictor sees), float32, [target tokens].

        Args:
            inputs: arguments of the model's forward; rows of input_ids count as one long row.
            predictors: position that predicts each target token, [target tokens].
            predicted: token id it predicts, [target tokens].
        """
        ...


@dataclass(frozen=True)
class SlicedProjection:
    """The decoder's hidden states through the output embeddings, a slice of positions at a time."""

    model: LoadedModel

    def logprobs(self, inputs: dict[str, Any], predictors: Integers, predicted: Integers) -> "torch.Tensor":
        """See `Projection`."""
        import torch

        model: Any = self.model.model
        kept, predictor = np.unique(predictors, return_inverse=True)
        output = model.get_decoder()(**inputs)
        hidden = output.last_hidden_state.flatten(0, 1)
        hidden = hidden[torch.from_numpy(kept).to(hidden.device)]
        head = model.get_output_embeddings()
        step = max(1, SLICE_BYTES // (FLOAT32_BYTES * head.weight.shape[0]))
        order = np.argsort(predictor, kind="stable")
        bounds = np.searchsorted(predictor[order], np.arange(0, len(kept) + step, step))
        picked = hidden.new_empty(len(predicted), dtype=torch.float32)
        for number, (first, last) in enumerate(pairwise(bounds)):
            chosen = order[first:last]
            logits = head(hidden[number * step : (number + 1) * step])
            rows, tokens, places = (
                torch.from_numpy(part).to(hidden.device)
                for part in (predictor[chosen] - number * step, predicted[chosen], chosen)
            )
            picked[places] = picked_logprobs(logits, rows, tokens).to(picked.device)
        return picked


@dataclass(frozen=True)
class OwnProjection:
    """The model's own logits, for models that scale or cap them; all target positions at once."""

    model: LoadedModel

    def logprobs(self, inputs: dict[str, Any], predictors: Integers, predicted: Integers) -> "torch.Tensor":
        """See `Projection`."""
        import torch

        model: Any = self.model.model
        kept, predictor = np.unique(predictors, return_inverse=True)
        if len(inputs["input_ids"]) == 1:
            logits = model(**inputs, logits_to_keep=torch.from_numpy(kept).to(self.model.device)).logits[0]
        else:
            logits = model(**inputs).logits.flatten(0, 1)[torch.from_numpy(kept)]
        rows, tokens = (torch.from_numpy(part).to(logits.device) for part in (predictor, predicted))
        return picked_logprobs(logits, rows, tokens)


def picked_logprobs(logits: "torch.Tensor", rows: "torch.Tensor", tokens: "torch.Tensor") -> "torch.Tensor":
    """log p of `tokens[n]` under `logits[rows[n]]`, float32, [n]."""
    logits = logits.float()
    return logits[rows, tokens] - logits.logsumexp(-1)[rows]
