r"""Fractions upside down, and whether a fraction or root is as simple as it can be.

\frac{2}{3}              -> \frac{3}{2} (fraction_swap)             7/8 -> 8/7 (fraction_swap)
count_unreduced(r"\frac{2}{4} + \frac{9\pi}{21}")  2                count_unreduced("4:6")  1
count_unreduced(r"\sqrt{12}")  1                                    count_unreduced(r"\frac{1+\sqrt{5}}{2}")  0
"""

import re
from collections.abc import Iterator
from math import gcd, isqrt

from cpmi_dagster.negatives.mistakes.notation import find_fractions
from cpmi_dagster.negatives.mistakes.proposal import Proposal

_MIXED = re.compile(r"[0-9]\s*$")
_RATIO = re.compile(r"(?<![0-9!}])([0-9]+)\s*:\s*([0-9]+)(?![0-9])(?!\\?[!:])")
_ROOT = re.compile(r"\\sqrt\{([0-9]{1,9})\}")
_CONSTANT = re.compile(r"\\(?:pi|sqrt|circ)")
_TERM_SIGNS = re.compile(r"[-+]")
_LEADING = re.compile(r"\s*([0-9]+)(?![0-9.])")
_GROUP = re.compile(r"\{[^{}]*\}|\([^()]*\)")
LARGEST_ROOT_FACTOR = 100


def propose_fraction_swaps(answer: str) -> Iterator[Proposal]:
    r"""The answer with one fraction of numbers or letters turned upside down."""
    yield from (proposal for top, proposal in _swaps(answer) if not _CONSTANT.search(top))


def propose_constant_swaps(answer: str) -> Iterator[Proposal]:
    r"""The answer with one fraction turned upside down that has a root or π on top."""
    yield from (proposal for top, proposal in _swaps(answer) if _CONSTANT.search(top))


def has_improper_mixed_number(answer: str) -> bool:
    r"""Whether some whole number stands before a fraction that is not proper, as in `2\frac{7}{6}`."""
    return any(
        _MIXED.search(answer[: fraction.start])
        and fraction.top.isdecimal()
        and fraction.bottom.isdecimal()
        and int(fraction.top) >= int(fraction.bottom)
        for fraction in find_fractions(answer)
    )


def count_unreduced(answer: str) -> int:
    """How many fractions, ratios and square roots one would have simplified."""
    fractions = [(_content(fraction.top), _content(fraction.bottom)) for fraction in find_fractions(answer)]
    ratios = [(int(found[1]), int(found[2])) for found in _RATIO.finditer(answer)]
    unreduced = sum(gcd(*pair) > 1 for pair in [*fractions, *ratios])
    return unreduced + sum(not _is_square_free(int(found[1])) for found in _ROOT.finditer(answer))


def _swaps(answer: str) -> Iterator[tuple[str, Proposal]]:
    for fraction in find_fractions(answer):
        sign, top = ("-", fraction.top[1:]) if fraction.top.startswith("-") else ("", fraction.top)
        if top.strip() in {"", "1"} or _MIXED.search(answer[: fraction.start]):
            continue
        swapped = fraction.written(sign + fraction.bottom, top)
        yield fraction.top, Proposal(answer[: fraction.start] + swapped + answer[fraction.end :], "fraction_swap")


def _content(part: str) -> int:
    r"""The greatest common divisor of a sum's coefficients: 2 for `4-6\sqrt{5}`."""
    flat = part
    while (shorter := _GROUP.sub("", flat)) != flat:
        flat = shorter
    coefficients = [_LEADING.match(term) for term in _TERM_SIGNS.split(flat) if term.strip()]
    return gcd(*(int(found[1]) if found else 1 for found in coefficients)) if coefficients else 1


def _is_square_free(radicand: int) -> bool:
    return all(radicand % factor**2 for factor in range(2, min(isqrt(radicand), LARGEST_ROOT_FACTOR) + 1))
