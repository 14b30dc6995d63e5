"""Copy arrays to a device and values back without waiting for its running work.

On CUDA a copy from or to ordinary memory waits for everything launched before it. A copy from or to pinned memory does
not, so rows can be copied while others are computed.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch


def upload(array: np.ndarray, device: "torch.device") -> "torch.Tensor":
    """An array as a tensor on a device."""
    import torch

    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


class Download:
    """Values in transfer from a device.

    Args:
        values: float32, on any device.
    """

    def __init__(self, values: "torch.Tensor") -> None:
        import torch

        self._arrived: torch.cuda.Event | None = None
        self._values = values
        if values.is_cuda:
            self._values = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._values.copy_(values, non_blocking=True)
            self._arrived = torch.cuda.Event()
            self._arrived.record(torch.cuda.current_stream(values.device))

    def numpy(self) -> NDArray[np.float64]:
        """The values; waits for this copy only, not for work launched after it."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._values.cpu().double().numpy()
