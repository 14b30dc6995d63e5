"""Random numbers keyed by row: each row has its own, whatever other rows there are.

derived_seed(1715, ["t000000000", 2])      -> 1464969805
uniform_number(0, ["t000000000", 1])       -> 0.28899801574171846
"""

import hashlib
from collections.abc import Iterable

UNIFORM_BYTES = 6


def derived_seed(seed: int, ids: Iterable[object], size: int = 4) -> int:
    """A separate seed of `size` bytes for rows by their ids, so that each is drawn independently of the others."""
    digest = hashlib.sha256("\0".join(map(str, [seed, *ids])).encode()).digest()
    return int.from_bytes(digest[:size], "big")


def uniform_number(seed: int, ids: Iterable[object]) -> float:
    """A number in [0, 1) that depends on the seed and the ids alone."""
    return derived_seed(seed, ids, UNIFORM_BYTES) / 2 ** (8 * UNIFORM_BYTES)
