r"""Inequalities: chains of comparisons, and the sets of numbers they describe.

read_relation("1 < x \le 4")   -> Relation({x - 1 > 0, 4 - x ≥ 0})
as_set(that)                   -> Collection("(]", [1, 4])
as_set(x \ne 2)                -> Collection("cup", [(-∞, 2), (2, ∞)])
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from cpmi_dagster.answers.equivalence.expressions import read_expression
from cpmi_dagster.answers.equivalence.forms import UNION, Collection, Comparison, Quantity, Relation
from cpmi_dagster.answers.equivalence.polynomials import Polynomial, add, is_opaque, scale, symbol

POSITIVE, NOT_NEGATIVE, NOT_ZERO = ">", ">=", "!="
INFINITY = Quantity(symbol("infty"))
MINUS_INFINITY = Quantity(scale(symbol("infty"), -1))
_CONSTANTS = {"pi", "e", "i", "infty"}
_SIGN = re.compile(r"(\\(?:le|ge|ne|lt|gt)(?![A-Za-z])|[<>])")
_SIGNS = {"<": POSITIVE, "\\lt": POSITIVE, ">": POSITIVE, "\\gt": POSITIVE, "\\le": NOT_NEGATIVE, "\\ge": NOT_NEGATIVE,
          "\\ne": NOT_ZERO}  # fmt: skip
_GREATER_ON_THE_LEFT = {">", "\\gt", "\\ge"}


def read_relation(text: str) -> Relation | None:
    """The comparisons of a chain; None where the text has no comparison sign.

    Raises:
        Undecidable: a side is no expression.
    """
    sides = _SIGN.split(text)
    if len(sides) == 1:
        return None
    values = [read_expression(side.strip()) for side in sides[::2]]
    return Relation(tuple(_comparison(*pair, sign) for pair, sign in zip(pairwise(values), sides[1::2], strict=True)))


def same_relations(one: Relation, other: Relation) -> bool:
    """Whether two chains make the same comparisons, in whatever order."""
    return all(comparison in other.comparisons for comparison in one.comparisons) and all(
        comparison in one.comparisons for comparison in other.comparisons
    )


def letters(relation: Relation) -> set[str]:
    """The unknowns of a relation."""
    symbols = (symbols for part in relation.comparisons for _, symbols in part.difference)
    return {name for pairs in symbols for name, _ in pairs if name not in _CONSTANTS}


def as_set(relation: Relation) -> Collection | None:
    """The numbers a relation allows its one letter, as an interval or a union; None in any other form."""
    bounds = [bound for comparison in relation.comparisons if (bound := _bound(comparison))]
    if len(bounds) < len(relation.comparisons) or len({bound.letter for bound in bounds}) > 1:
        return None
    if [bound.sign for bound in bounds] == [NOT_ZERO]:
        hole = bounds[0].value
        below, above = (MINUS_INFINITY, hole), (hole, INFINITY)
        return Collection(UNION, (Collection("()", below), Collection("()", above)))
    lower = [bound for bound in bounds if bound.is_lower]
    upper = [bound for bound in bounds if not bound.is_lower]
    if max(len(lower), len(upper)) > 1 or any(bound.sign == NOT_ZERO for bound in bounds):
        return None
    opening = "[" if lower and lower[0].sign == NOT_NEGATIVE else "("
    closing = "]" if upper and upper[0].sign == NOT_NEGATIVE else ")"
    ends = (lower[0].value if lower else MINUS_INFINITY, upper[0].value if upper else INFINITY)
    return Collection(opening + closing, ends)


@dataclass(frozen=True)
class _Bound:
    letter: str
    value: Quantity
    is_lower: bool
    sign: str


def _comparison(left: Polynomial, right: Polynomial, sign: str) -> Comparison:
    greater, smaller = (left, right) if sign in _GREATER_ON_THE_LEFT else (right, left)
    difference = add(greater, scale(smaller, -1))
    leading = difference[min(difference)] if difference else 1
    factor = Fraction(1) / (leading if _SIGNS[sign] == NOT_ZERO else abs(leading))
    return Comparison(scale(difference, factor), _SIGNS[sign])


def _bound(comparison: Comparison) -> _Bound | None:
    """The bound on x that a comparison of `±x + c` with zero gives; None for any other difference."""
    letters = {monomial for monomial in comparison.difference if any(name not in _CONSTANTS for name, _ in monomial[1])}
    if len(letters) != 1 or is_opaque(comparison.difference):
        return None
    (monomial,) = letters
    radicand, symbols = monomial
    if radicand != 1 or len(symbols) != 1 or symbols[0][1] != 1:
        return None
    coefficient = comparison.difference[monomial]
    rest = {key: value for key, value in comparison.difference.items() if key != monomial}
    value = Quantity(scale(rest, Fraction(-1) / coefficient))
    return _Bound(symbols[0][0], value, coefficient > 0, comparison.sign)
