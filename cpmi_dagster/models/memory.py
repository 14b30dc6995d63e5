"""Recognise that a device's memory ran out, release cached memory, and remember what fits.

64 continuations at once, memory ran out at 256     64, 64, ... for 64 calls, then 128 once more
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

RAISED_AFTER = 64
"""Uses of a lowered size after which twice as much is tried: what took the memory may have ended."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch means that memory ran out, on a GPU or a CPU."""
    import torch
    from accelerate.utils.memory import should_reduce_batch_size

    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, Exception) and (should_reduce_batch_size(error) or "ALLOC_FAILED" in str(error))
    )


def release_memory(device: "torch.device") -> None:
    """Release the allocator's cache, so that its memory can be divided differently."""
    import torch

    if device.type == "cuda":
        torch.cuda.empty_cache()


def size_that_fits(remembered: dict[str, Any], name: str, most: int) -> int:
    """How much to try at once: `most`, or less where memory has run out.

    Args:
        remembered: of a `LoadedModel`.
        name: of the size in it, see `remember_size`.
    """
    if name not in remembered:
        return most
    size, uses = remembered[name]
    size, uses = (2 * size, 0) if uses == RAISED_AFTER else (size, uses)
    remembered[name] = size, uses + 1
    return min(size, most)


def remember_size(remembered: dict[str, Any], name: str, size: int) -> None:
    """Memory ran out: no more than `size` next time."""
    remembered[name] = size, 0
