"""Random numbers for training, without effect on the caller's generators."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def isolated_randomness(seed: int) -> Iterator[None]:
    """Seed every library's generator within the block; afterwards their states are restored."""
    import random

    import numpy as np
    import torch
    from transformers import set_seed

    python_state, numpy_state = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        try:
            set_seed(seed)
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)
