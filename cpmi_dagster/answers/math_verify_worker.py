r"""A math-verify process: reads one pair of answers per line, writes one verdict per line.

    ← ["\\frac{1}{2}", "0.5"]
    → true

It is run as a script and imports nothing of this package. The signal SIGPROF kills it if a pair takes more than
`PAIR_SECONDS` of processor time.
"""

import json
import logging
import re
import sys
from contextlib import suppress
from resource import RLIM_INFINITY, RLIMIT_AS, getrlimit, setrlimit
from signal import ITIMER_PROF, setitimer
from typing import Any

from math_verify import LatexExtractionConfig, parse, verify
from sympy import And, Or, Set

PAIR_SECONDS, MEMORY_BYTES = 4.0, 4 << 30
_COMPARED = re.compile(r"[<>]|\\(?:le|ge|ne)(?![A-Za-z])")
_JOINT = re.compile(r"\b(?:and|or)\b")
_MEMBER = re.compile(r"\s*([A-Za-z])\s*\\in(?![A-Za-z])")


def _parse(formula: str) -> list[Any]:
    """Parse a whole formula for sympy; by default math-verify takes a part of it, such as the last number."""
    whole = [LatexExtractionConfig(boxed_match_priority=-1)]
    # None: math-verify sets no alarm
    return parse(f"${formula}$", whole, fallback_mode="no_fallback", parsing_timeout=None)  # pyright: ignore[reportArgumentType]


def _solve(formula: str) -> tuple[set[str], Any]:
    r"""The unknown of inequalities joined by `and` or `or`, or of `x \in …`, and its solution set."""
    if member := _MEMBER.match(formula):
        return {member[1]}, _parse(formula[member.end() :])[0]
    parts = [[_parse(part)[0] for part in re.split(r"\band\b", text)] for text in re.split(r"\bor\b", formula)]
    if isinstance(parts[0][0], Set):
        return set(), parts[0][0]
    condition = Or(*(And(*joined) for joined in parts))
    return {*map(str, condition.free_symbols)}, condition.as_set()


def _is_same(gold: Any, candidate: Any) -> bool:
    """Whether math-verify accepts the pair in either order: it is not symmetric."""
    return any(verify(*pair, timeout_seconds=None) for pair in ((gold, candidate), (candidate, gold)))


def _judge(gold: str, candidate: str) -> bool:
    """Whether two formulas are equivalent; False if math-verify or sympy fails on them."""
    if _COMPARED.search(gold + candidate):
        try:
            (unknown, allowed), (other_unknown, other) = _solve(gold), _solve(candidate)
            return not (unknown and other_unknown and unknown != other_unknown) and _is_same(allowed, other)
        except Exception:  # sympy solves few inequalities, and raises anything on the others
            if _JOINT.search(gold + candidate):
                return False
    try:
        return _is_same(_parse(gold), _parse(candidate))
    except Exception:  # sympy raises anything
        return False


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    soft, hard = getrlimit(RLIMIT_AS)
    if soft == RLIM_INFINITY or soft > MEMORY_BYTES:
        with suppress(ValueError):  # not every system can
            setrlimit(RLIMIT_AS, (MEMORY_BYTES, hard))
    output, sys.stdout = sys.stdout, sys.stderr
    _judge(r"\sin^2 x + \cos^2 x", "1")  # loads what math-verify loads late
    for request in sys.stdin:
        setitimer(ITIMER_PROF, PAIR_SECONDS)
        verdict = _judge(*json.loads(request))
        setitimer(ITIMER_PROF, 0)
        print("true" if verdict else "false", file=output, flush=True)
