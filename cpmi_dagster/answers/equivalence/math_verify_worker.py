r"""One math-verify process: reads a pair of answers a line, writes a verdict a line.

    → ready
    ← ["\\frac{1}{2}", "0.5"]
    → true

It is run as a script of its own, so that math-verify's time-outs (signals, which need a main thread) work whatever the
caller is doing. It ends when its input does.
"""

import json
import logging
import sys
from contextlib import suppress
from typing import TextIO

PARSE_SECONDS = 2
VERIFY_SECONDS = 3
WARM_UP = (r"\sin^2 x + \cos^2 x", "1")
MEMORY_BYTES = 4 << 30
FAILURES = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RuntimeError, AssertionError,
            MemoryError)  # fmt: skip


def limit_memory() -> None:
    """Keep a runaway computation from taking the machine's memory, where the system can; a lower limit stays."""
    try:
        import resource
    except ImportError:
        return
    limits = [limit for limit in resource.getrlimit(resource.RLIMIT_AS) if limit != resource.RLIM_INFINITY]
    lowest = min([*limits, MEMORY_BYTES])
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (lowest, lowest))


def judge(gold: str, candidate: str) -> bool:
    """math-verify's verdict on two formulas without fences; a pair it fails on is not equivalent.

    Left to itself, math-verify looks for an answer in a text and takes a part of it, such as its last number, where it
    cannot read the whole.
    """
    from math_verify import LatexExtractionConfig, parse, verify
    from math_verify.errors import TimeoutException

    whole_formula = [LatexExtractionConfig(boxed_match_priority=-1)]
    try:
        parsed = [
            parse(f"${answer}$", whole_formula, fallback_mode="no_fallback", parsing_timeout=PARSE_SECONDS)
            for answer in (gold, candidate)
        ]
        return all(parsed) and bool(verify(parsed[0], parsed[1], timeout_seconds=VERIFY_SECONDS))
    except (*FAILURES, TimeoutException):
        return False


def serve(requests: TextIO, replies: TextIO) -> None:
    """Answer requests until there are no more."""
    judge(*WARM_UP)
    print("ready", file=replies, flush=True)
    for request in requests:
        gold, candidate = json.loads(request)
        print("true" if judge(gold, candidate) else "false", file=replies, flush=True)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    limit_memory()
    output, sys.stdout = sys.stdout, sys.stderr
    serve(sys.stdin, output)
