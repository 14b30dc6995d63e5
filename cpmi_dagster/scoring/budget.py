"""How many tokens a row may have: estimated from free memory, halved when memory runs out.

Qwen3-8B in bfloat16 holds about 156 kB of activations a token while a layer runs; half of 40 GiB carries 138,000
tokens. Longer rows stop being faster long before that: at 16,384 tokens on a GPU, 4,096 on a CPU.
"""

from typing import Any

from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.models.memory import size_that_fits

LONGEST_ROW = {"cuda": 16_384, "cpu": 4_096}
SHORTEST_ROW = 128
USABLE_SHARE = 0.5
# hidden states, residual, normed copies, queries, keys, values and the attention's result, in widths of the model
HIDDEN_COPIES = 10
# gate, up and their product
INNER_COPIES = 3
ROW_TOKENS = "row tokens"
"""In `LoadedModel.remembered`: the longest row after memory ran out."""


def row_budget(model: LoadedModel) -> int:
    """Tokens of a row that fit the device's memory: at least `SHORTEST_ROW`, fewer than ran out of memory before."""
    return size_that_fits(model.remembered, ROW_TOKENS, _by_free_memory(model))


def _by_free_memory(model: LoadedModel) -> int:
    import torch

    longest = LONGEST_ROW.get(model.device.type, LONGEST_ROW["cpu"])
    if model.device.type != "cuda":
        return longest
    free, _ = torch.cuda.mem_get_info(model.device)
    cached = torch.cuda.memory_reserved(model.device) - torch.cuda.memory_allocated(model.device)
    fitting = int((free + cached) * USABLE_SHARE) // bytes_per_token(model.model)
    # powers of two keep the lengths that kernels are compiled for few
    return max(SHORTEST_ROW, min(longest, 1 << (max(fitting, 1).bit_length() - 1)))


def bytes_per_token(model: Any) -> int:
    """Activations of one token while a layer runs, in bytes."""
    config = model.config.get_text_config()
    inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    heads = config.num_attention_heads
    attention = heads * (getattr(config, "head_dim", None) or config.hidden_size // heads)
    return model.dtype.itemsize * (HIDDEN_COPIES * max(config.hidden_size, attention) + INNER_COPIES * inner)
