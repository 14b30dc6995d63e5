"""From hidden states to log-probabilities, at target positions only and a slice at a time.

A vocabulary of 152,000 in float32 takes 0.6 MB a position: 128 MiB hold 220 positions, whatever the length of the row.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cpmi_dagster.language_models import LoadedModel
from cpmi_dagster.scoring.trees import Integers

if TYPE_CHECKING:
    import torch

SLICE_BYTES = 128 * 2**20
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
        order = np.argsort(predictor, kind="stable")
        head = model.get_output_embeddings()
        step = max(1, SLICE_BYTES // (FLOAT32_BYTES * head.weight.shape[0]))
        bounds = np.searchsorted(predictor[order], np.arange(0, len(kept) + step, step))
        # all that the device needs to know goes there first: a copy waits for what was launched before it
        places, rows, tokens, chosen = (
            torch.from_numpy(part).to(self.model.device) for part in (order, predictor[order], predicted[order], kept)
        )
        hidden = model.get_decoder()(**inputs).last_hidden_state.flatten(0, 1)
        hidden = hidden[chosen.to(hidden.device)]
        ordered = [
            picked_logprobs(
                head(hidden[number * step : (number + 1) * step]), rows[first:last] - number * step, tokens[first:last]
            )
            for number, (first, last) in enumerate(pairwise(bounds))
        ]
        picked = torch.cat(ordered)
        return torch.empty_like(picked).index_copy_(0, places.to(picked.device), picked)


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
        return picked_logprobs(logits, torch.from_numpy(predictor), torch.from_numpy(predicted))


def picked_logprobs(logits: "torch.Tensor", rows: "torch.Tensor", tokens: "torch.Tensor") -> "torch.Tensor":
    """log p of `tokens[n]` under `logits[rows[n]]`, float32, [n]."""
    logits, rows, tokens = logits.float(), rows.to(logits.device), tokens.to(logits.device)
    return logits[rows, tokens] - logits.logsumexp(-1)[rows]
