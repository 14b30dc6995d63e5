"""What every way of reading a row offers, and the part that all models under a mask share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cpmi_dagster.errors import ModelError
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.scoring.packing import Row
from cpmi_dagster.scoring.readers.projection import target_logprobs
from cpmi_dagster.scoring.transfer import upload

if TYPE_CHECKING:
    import torch


class TreeReader(Protocol):
    """A model, and a way to make it read rows of token trees."""

    @property
    def name(self) -> str:
        """What the way is called."""
        ...

    def tokens_computed(self, tokens: int) -> int:
        """Tokens that go through the model for a row of so many, padding included."""
        ...

    def logprobs(self, row: Row) -> "torch.Tensor":
        """Log-probability of every target token of a row, natural logarithm.

        Returns:
            float32, in the order of `row.predicted`, on the device of the model's logits, [target tokens].
        """
        ...


@dataclass(frozen=True)
class MaskReader:
    """Reads a whole row in one forward pass, under a mask.

    Attributes:
        name: what it is called.
        model: the labeler.
        implementation: attention implementation of transformers; None = the model's own.
        mask: the arguments that tell a row's structure, attention_mask among them.
        padded: tokens of a row with its padding.
    """

    name: str
    model: LoadedModel
    implementation: str | None
    mask: Callable[[Row, int], dict[str, Any]]
    padded: Callable[[int], int] = lambda tokens: tokens

    def tokens_computed(self, tokens: int) -> int:
        """See `TreeReader`."""
        return self.padded(tokens)

    def logprobs(self, row: Row) -> "torch.Tensor":
        """See `TreeReader`."""
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
    """Have a model's layers use another attention implementation for a while; generation keeps the model's own."""
    config = model.config.get_text_config()
    before = config._attn_implementation
    try:
        config._attn_implementation = implementation or before
        yield
    finally:
        config._attn_implementation = before


def check_terms(module: Any, structure: Any, terms: dict[str, Any], unknown: tuple[str, ...]) -> None:
    """Refuse attention that a reader would compute without something the model means by it.

    Args:
        module: the attention layer.
        structure: what the reader handed to the model; None where the model did not hand it on.
        terms: further arguments of the layer's call.
        unknown: those that the reader's attention does not know.

    Raises:
        ModelError: the structure is missing, or one of the unknown terms is given.
    """
    given = [name for name in unknown if terms.get(name) is not None]
    if structure is None or given:
        reason = f"it adds {', '.join(given)}" if given else "it does not hand on their structure"
        raise ModelError(f"{type(module).__name__} cannot read trees this way: {reason}")


def shown_mask(size: int, device: "torch.device") -> "torch.Tensor":
    """What transformers is shown where the structure goes by other arguments: a 4-D mask, so that it makes none."""
    import torch

    return torch.ones((1, 1, 1, size), dtype=torch.bool, device=device)
