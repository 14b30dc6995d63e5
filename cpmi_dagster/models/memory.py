"""Recognise out-of-memory errors, and release cached memory."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


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
