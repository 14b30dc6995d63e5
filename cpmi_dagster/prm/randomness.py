"""Training draws random numbers of its own and leaves everyone else's as they were."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def isolated_randomness(seed: int) -> Iterator[None]:
    """Within the block every generator that libraries draw from starts at `seed`; after it, they are as before."""
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
