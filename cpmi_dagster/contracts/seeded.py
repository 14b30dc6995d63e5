"""Random numbers keyed by the ids of a row, whatever other rows there are, and hashes of texts.

derived_seed(1715, ["t000000000", 2])      -> 1464969805
uniform_number(0, ["t000000000", 1])       -> 0.28899801574171846
text_hash("2 + 3?", "2 + 3 = 5")           -> 5567548450906413266
"""

import hashlib
from collections.abc import Iterable

UNIFORM_BYTES = 6
HASH_BYTES = 8


def derived_seed(seed: int, ids: Iterable[object], size: int = 4) -> int:
    """A seed of `size` bytes that depends on the seed and the ids alone."""
    digest = hashlib.sha256("\0".join(map(str, [seed, *ids])).encode()).digest()
    return int.from_bytes(digest[:size], "big")


def uniform_number(seed: int, ids: Iterable[object]) -> float:
    """A number in [0, 1) that depends on the seed and the ids alone."""
    return derived_seed(seed, ids, UNIFORM_BYTES) / 2 ** (8 * UNIFORM_BYTES)


def text_hash(*texts: str) -> int:
    """A hash of 64 bits of texts in their order, the same on every machine and in every version."""
    pieces = [text.encode() for text in texts]
    lengths = [len(piece).to_bytes(HASH_BYTES, "big") for piece in pieces]
    digest = hashlib.blake2b(b"".join([*lengths, b"\0" * HASH_BYTES, *pieces]), digest_size=HASH_BYTES).digest()
    return int.from_bytes(digest, "big")
