"""The reader that all masks share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cpmi_dagster.models.attention import attention_implementation
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.scoring.packing import PackedRow
from cpmi_dagster.scoring.readers.projection import target_logprobs
from cpmi_dagster.scoring.transfer import upload

if TYPE_CHECKING:
    import torch


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

    def tokens_computed(self, tokens: int) -> int:
        """Tokens that go through the model for a row of `tokens` nodes, padding included."""
        return self.padded(tokens)

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
