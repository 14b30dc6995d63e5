"""Keep `transformers` from writing to the terminal while weights are loaded, trained or saved."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Within the block: no progress bars, no warnings, only errors; as it was before, after it."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


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
