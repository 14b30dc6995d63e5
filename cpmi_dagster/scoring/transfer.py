"""Arrays to a device and values back, without waiting for what the device is doing.

On CUDA a copy from or to ordinary memory waits for everything launched before it; from and to pinned memory it does
not, so that rows can be handed over while others are being read.
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
    """Values on their way from a device.

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
        """The values; waits for them alone, not for what was launched since."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._values.cpu().double().numpy()
