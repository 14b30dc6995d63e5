r"""Answers that state one value in two notations: both sides change together.

0.56 = 56\%                    -> 0.57 = 57\%, 0.62 = 62\%
\$\dfrac{2}{3} \approx \$0.67  -> \$\dfrac{1}{3} \approx \$0.33
"""

import re
from collections.abc import Callable, Iterator
from fractions import Fraction

from cpmi_dagster.answers.equivalence.expressions import read_expression
from cpmi_dagster.answers.equivalence.plain_text import plain_text
from cpmi_dagster.answers.equivalence.polynomials import Undecidable, as_rational
from cpmi_dagster.answers.equivalence.units import split_unit
from cpmi_dagster.negatives.mistakes.numerals import find_numerals
from cpmi_dagster.negatives.mistakes.proposal import Proposal

_CHAIN = re.compile(r"(.+?)(\s*(?:=|\\approx)\s*)([^=]+)")
_PERCENT = re.compile(r"\\?%")
_PER_CENT = 100


def is_chain(answer: str) -> bool:
    """Whether the answer is a number, `=` or `\\approx`, and the same number written otherwise."""
    return _sides(answer) is not None


def propose_chain_changes(answer: str, propose_side: Callable[[str], Iterator[Proposal]]) -> Iterator[Proposal]:
    """Changes of the first side, as `propose_side` makes them, with the second rewritten to the same value."""
    sides = _sides(answer)
    if sides is None:
        return
    first, sign, second = sides
    (numeral,) = find_numerals(second)
    for changed, heuristic in propose_side(first):
        value = _value(changed)
        if value is None:
            continue
        shown = value * (_PER_CENT if _PERCENT.search(second) else 1) * 10**numeral.places
        if shown >= 0:
            written = numeral.written(round(shown))
            yield Proposal(f"{changed}{sign}{second[: numeral.start]}{written}{second[numeral.end :]}", heuristic)


def propose_last_side(answer: str, propose_side: Callable[[str], Iterator[Proposal]]) -> Iterator[Proposal]:
    """Changes of the second side, as `propose_side` makes them, without the first."""
    sides = _sides(answer)
    if sides is not None:
        yield from propose_side(sides[2])


def _sides(answer: str) -> tuple[str, str, str] | None:
    found = _CHAIN.fullmatch(answer)
    if found is None:
        return None
    first, sign, second = found.groups()
    one, other = _value(first), _value(second)
    if one is None or other is None or one < 0 or len(find_numerals(second)) != 1:
        return None
    tolerance = Fraction(1, 10 ** find_numerals(second)[0].places) if "approx" in sign else 0
    return (first, sign, second) if abs(one - other) <= tolerance else None


def _value(side: str) -> Fraction | None:
    percent = _PERCENT.search(side)
    try:
        value = as_rational(read_expression(split_unit(plain_text(_PERCENT.sub("", side)))[0]))
    except (Undecidable, RecursionError):
        return None
    return None if value is None else Fraction(value) / (_PER_CENT if percent else 1)
