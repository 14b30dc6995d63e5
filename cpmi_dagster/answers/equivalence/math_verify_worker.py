r"""One math-verify process: reads a pair of answers a line, writes a verdict a line.

    ← ["\\frac{1}{2}", "0.5"]
    → true

It is run as a script of its own, imports nothing of this package, and ends when its input does. A pair that takes more
than `PAIR_SECONDS` of the processor ends it by the signal SIGPROF, whatever the computation is doing.
"""

import json
import logging
import re
import sys
from contextlib import suppress
from typing import Any, TextIO

from math_verify import LatexExtractionConfig, parse, verify
from sympy import And, Or, Set, Symbol

PAIR_SECONDS = 4.0
MEMORY_BYTES = 4 << 30
WARM_UP = (r"\sin^2 x + \cos^2 x", "1")
COMPARED = re.compile(r"[<>]|\\(?:le|ge|ne)(?![A-Za-z])")
JOINT = re.compile(r"\b(?:and|or)\b")
MEMBER = re.compile(r"\s*([A-Za-z])\s*\\in(?![A-Za-z])")


def limit_memory() -> None:
    """Keep a runaway computation from taking the machine's memory, where the system can; a lower limit stays."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        if soft == resource.RLIM_INFINITY or soft > MEMORY_BYTES:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, hard))


def limit_time(seconds: float) -> None:
    """End this process when it has used so many more seconds of the processor, where the system can; 0 is no limit."""
    with suppress(ImportError):
        from signal import ITIMER_PROF, setitimer

        setitimer(ITIMER_PROF, seconds)


def parsed(formula: str) -> list[Any]:
    """The whole of a formula without fences, as sympy has it; empty where math-verify cannot read it.

    Left to itself, math-verify looks for an answer in a text and takes a part of it, such as its last number.
    """
    whole = [LatexExtractionConfig(boxed_match_priority=-1)]
    # None is no alarm of its own
    return parse(f"${formula}$", whole, fallback_mode="no_fallback", parsing_timeout=None)  # pyright: ignore[reportArgumentType]


def solved(formula: str) -> tuple[set[Any], Any]:
    r"""The unknown of inequalities joined by `and` or `or`, and the numbers that they allow it; a set has no unknown.

    The unknown of a membership, such as `x \in [0, 5)`, is its letter.
    """
    if member := MEMBER.match(formula):
        return {Symbol(member[1])}, parsed(formula[member.end() :])[0]
    parts = [[parsed(part)[0] for part in re.split(r"\band\b", text)] for text in re.split(r"\bor\b", formula)]
    if isinstance(parts[0][0], Set):
        return set(), parts[0][0]
    condition = Or(*(And(*joined) for joined in parts))
    return condition.free_symbols, condition.as_set()


def is_same(one: Any, other: Any) -> bool:
    """Whether math-verify accepts one for the other, or the other for the one: it is not symmetric."""
    return bool(verify(one, other, timeout_seconds=None)) or bool(verify(other, one, timeout_seconds=None))


def judge(gold: str, candidate: str) -> bool:
    """The verdict on two formulas without fences; a pair that math-verify or sympy fails on is not equivalent."""
    if COMPARED.search(gold + candidate):
        try:
            (unknown, allowed), (other_unknown, other) = solved(gold), solved(candidate)
            if unknown and other_unknown and {*map(str, unknown)} != {*map(str, other_unknown)}:
                return False
            return is_same(allowed, other)
        except Exception:  # sympy solves few inequalities, and fails on the others in any way
            if JOINT.search(gold + candidate):
                return False
    try:
        return is_same(parsed(gold), parsed(candidate))
    except Exception:  # whatever sympy makes of a text
        return False


def serve(requests: TextIO, replies: TextIO) -> None:
    """Answer requests until there are no more."""
    judge(*WARM_UP)
    for request in requests:
        limit_time(PAIR_SECONDS)
        verdict = judge(*json.loads(request))
        limit_time(0)
        print("true" if verdict else "false", file=replies, flush=True)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    limit_memory()
    output, sys.stdout = sys.stdout, sys.stderr
    serve(sys.stdin, output)
