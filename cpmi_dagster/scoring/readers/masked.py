"""A 4-D mask of the whole row: for short rows, and for models with a custom attention.

The mask is always passed: without one, transformers reads restarted position ids as packed sequences, and separates
branches from their prefix.
"""

from typing import Any

from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.scoring.attention import ancestor_mask
from cpmi_dagster.scoring.packing import PackedRow
from cpmi_dagster.scoring.readers.reader import MaskReader
from cpmi_dagster.scoring.transfer import upload


def masked_reader(model: LoadedModel) -> MaskReader:
    """A reader with the model's own attention: sdpa takes booleans (True = attend), others a number to add."""
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
