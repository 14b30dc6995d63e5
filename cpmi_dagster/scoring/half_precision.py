"""Run a half-precision model in float32 temporarily: half precision may overflow where float32 does not.

Weights are widened and narrowed again, which restores every bit; tensors that are float32 anyway (rotary frequencies)
stay as they are.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any


@contextmanager
def in_float32(model: Any) -> Iterator[None]:
    """Widen the half-precision weights of a model within the block; they take twice the memory."""
    import torch

    narrow = {
        tensor: tensor.dtype
        for tensor in chain(model.parameters(), model.buffers())
        if tensor.is_floating_point() and tensor.dtype.itemsize < 4
    }
    try:
        with torch.no_grad():
            for tensor in narrow:
                tensor.data = tensor.data.float()
        yield
    finally:
        for tensor, dtype in narrow.items():
            tensor.data = tensor.data.to(dtype)
