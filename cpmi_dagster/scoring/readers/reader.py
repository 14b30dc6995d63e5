"""The reader that all masks share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cpmi_dagster.errors import ModelError
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


@contextmanager
def attention_implementation(model: Any, implementation: str | None) -> Iterator[None]:
    """Use another attention implementation within the block; generation keeps the model's own."""
    # private in transformers 5.23: `set_attn_implementation` would check it against the model and change sub-models
    config = model.config.get_text_config()
    before = config._attn_implementation
    try:
        config._attn_implementation = implementation or before
        yield
    finally:
        config._attn_implementation = before


def check_terms(module: Any, structure: Any, terms: dict[str, Any], unknown: tuple[str, ...]) -> None:
    """Refuse a layer whose attention has terms that a reader does not compute.

    Args:
        structure: the reader's mask or blocks; None where the model did not pass them to its layers.
        terms: further arguments of the layer's call.
        unknown: names of terms that the reader's attention does not compute.

    Raises:
        ModelError: the structure is missing, or one of the unknown terms is given.
    """
    given = [name for name in unknown if terms.get(name) is not None]
    if structure is None or given:
        reason = f"it adds {', '.join(given)}" if given else "it does not pass their structure to its layers"
        raise ModelError(f"{type(module).__name__} cannot read trees this way: {reason}")


def shown_mask(size: int, device: "torch.device") -> "torch.Tensor":
    """A 4-D mask without content: transformers makes no causal mask where it gets one."""
    import torch

    return torch.ones((1, 1, 1, size), dtype=torch.bool, device=device)
