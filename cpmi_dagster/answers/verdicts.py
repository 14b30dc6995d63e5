"""Whether two answers are the same: by `equivalence`, and by math-verify where that cannot decide.

is_equivalent("\\frac{1}{2}", "0.5")  ->  True
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from cpmi_dagster.answers.equivalence import math_verify
from cpmi_dagster.answers.equivalence.decide import decide
from cpmi_dagster.answers.equivalence.plain_text import plain_text

CACHED_VERDICTS = 1 << 16


def is_equivalent(gold: str, candidate: str) -> bool:
    """Whether two answers are mathematically the same. Never raises on any text, never hangs."""
    verdict = decide(gold, candidate)
    return _verified(gold, candidate) if verdict is None else verdict


def equivalent(golds: Sequence[str], candidates: Sequence[str]) -> list[bool]:
    """`is_equivalent` of many pairs, in order; each different pair is compared once."""
    pairs = list(zip(golds, candidates, strict=True))
    verdicts = {pair: decide(*pair) for pair in dict.fromkeys(pairs)}
    undecided = [pair for pair, verdict in verdicts.items() if verdict is None]
    with ThreadPoolExecutor(math_verify.MAX_WORKERS) as threads:
        verdicts.update(zip(undecided, threads.map(lambda pair: _verified(*pair), undecided), strict=True))
    return [bool(verdicts[pair]) for pair in pairs]


@lru_cache(maxsize=CACHED_VERDICTS)
def _verified(gold: str, candidate: str) -> bool:
    return math_verify.verify(plain_text(gold), plain_text(candidate))
