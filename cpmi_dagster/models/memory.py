"""Recognises out-of-memory errors, releases cached memory, and estimates what is free and what is needed."""

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

USABLE_SHARE = 0.5
"""Of free memory, for activations."""
MOST_ON_CPU = 2 * 2**30
"""Bytes on a CPU, which is no faster with more, and where nothing says that memory runs out."""
HIDDEN_COPIES, INNER_COPIES = 18, 5
"""Values per token that a layer keeps for its gradient: of the hidden size, and of the inner size."""
MEMORY_LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
"""Files with the limit of a container, and with what it uses."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out, on a GPU or a CPU."""
    import torch
    from accelerate.utils.memory import should_reduce_batch_size

    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, Exception) and (should_reduce_batch_size(error) or "ALLOC_FAILED" in str(error))
    )


def release_memory(device: "torch.device") -> None:
    """Release the allocator's cache."""
    import torch

    if device.type == "cuda":
        torch.cuda.empty_cache()


def free_bytes(device: "torch.device") -> int:
    """Bytes that are free on a GPU, or in this machine or container."""
    import torch

    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError, IndexError):
        line = next(each for each in Path("/proc/meminfo").read_text().splitlines() if each.startswith("MemAvailable"))
        free = int(line.split()[1]) * 1024
    for limit, used in MEMORY_LIMITS:
        with suppress(OSError, ValueError):
            free = min(free, max(0, int(Path(limit).read_text()) - int(Path(used).read_text())))
    return free


def training_tokens(config: Any, itemsize: int, device: "torch.device", checkpointing: bool = False) -> int:
    """Tokens whose activations fit the free memory while a decoder is trained; at least 1.

    Args:
        config: of the decoder.
        itemsize: bytes of an activation.
        checkpointing: layers keep their inputs alone.
    """
    usable = int(free_bytes(device) * USABLE_SHARE)
    if device.type == "cpu":
        usable = min(usable, MOST_ON_CPU)
    return max(1, usable // training_bytes_per_token(config, itemsize, checkpointing))


def training_bytes_per_token(config: Any, itemsize: int, checkpointing: bool = False) -> int:
    """Bytes of activations per token that all layers of a decoder keep for the gradient."""
    text = config.get_text_config()
    inner = getattr(text, "intermediate_size", None) or 4 * text.hidden_size
    layer = HIDDEN_COPIES * text.hidden_size + INNER_COPIES * inner
    return itemsize * (
        text.num_hidden_layers * text.hidden_size + layer if checkpointing else text.num_hidden_layers * layer
    )


def sampled_rows(config: Any, itemsize: int, tokens: int, device: "torch.device") -> int | None:
    """Continuations whose keys and values fit the free memory, at least 1; None on a GPU, which says if it runs out.

    Args:
        config: of the decoder.
        itemsize: bytes of a key's number.
        tokens: of the longest prompt and its continuation.
    """
    if device.type != "cpu":
        return None
    text = config.get_text_config()
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    of_row = 2 * text.num_hidden_layers * heads * width * itemsize * tokens
    # rows are copied when they are packed anew, so that they are there twice
    return max(1, min(int(free_bytes(device) * USABLE_SHARE), MOST_ON_CPU) // (2 * of_row))
