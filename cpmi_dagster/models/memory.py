"""When a device's memory falls short, and how to give some back."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch says that memory is used up, on a GPU or on a CPU."""
    import torch
    from accelerate.utils.memory import should_reduce_batch_size

    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, Exception) and (should_reduce_batch_size(error) or "ALLOC_FAILED" in str(error))
    )


def release_memory(device: "torch.device") -> None:
    """Give back what the allocator keeps, so that smaller pieces can be made of it."""
    import torch

    if device.type == "cuda":
        torch.cuda.empty_cache()
