r"""Exact numbers of the miniature world: a fraction times a square root, and the operators between them.

    Quantity(Fraction(3, 4))      is 3/4, written `0.75` in a word problem and `\frac{3}{4}` in LaTeX
    Quantity(Fraction(2), 3)      is 2√3, written `2\sqrt{3}`
    apply("sqrt", 72)             is 6√2, since 72 = 6² · 2

Results are exact, so that rounding never decides whether a solution is right.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

SWAPPABLE_OPERATORS = ("+", "-", "*", "/")


class UndefinedResult(ArithmeticError):
    """The operation has no result of the form fraction times square root."""


@dataclass(frozen=True)
class Quantity:
    """`coefficient` times the square root of `radicand`, a square-free positive integer."""

    coefficient: Fraction
    radicand: int = 1

    @property
    def is_whole(self) -> bool:
        """Whether this is an integer."""
        return self.radicand == 1 and self.coefficient.denominator == 1


def whole(number: int) -> Quantity:
    """An integer as a quantity."""
    return Quantity(Fraction(number))


def rational(numerator: int, denominator: int) -> Quantity:
    """A fraction as a quantity, in lowest terms."""
    return Quantity(Fraction(numerator, denominator))


def surd(coefficient: Fraction, radicand: int) -> Quantity:
    """`coefficient` · √`radicand` with every square pulled out of the root: surd(1, 72) is 6√2."""
    if coefficient == 0 or radicand == 0:
        return whole(0)
    for root in range(isqrt(radicand), 1, -1):
        if radicand % (root * root) == 0:
            return Quantity(coefficient * root, radicand // (root * root))
    return Quantity(coefficient, radicand)


def apply(operator: str, left: Quantity, right: Quantity) -> Quantity:
    """The exact result of one operation: `+`, `-`, `*`, `/`, `mod`, or `sqrt`, which ignores the right operand.

    Raises:
        UndefinedResult: The result cannot be written as a fraction times a square root.
    """
    one, other = left.coefficient, right.coefficient
    match operator:
        case "+" | "-":
            other = -other if operator == "-" else other
            if one and other and left.radicand != right.radicand:
                raise UndefinedResult(f"the roots of {left.radicand} and {right.radicand} do not add up to one root")
            return surd(one + other, left.radicand if one else right.radicand)
        case "*":
            return surd(one * other, left.radicand * right.radicand)
        case "/" if other:
            return surd(one / (other * right.radicand), left.radicand * right.radicand)
        case "mod" if left.is_whole and right.is_whole and other > 0:
            return Quantity(one % other)
        case "sqrt" if left.radicand == 1 and one >= 0:
            return surd(Fraction(1, one.denominator), one.numerator * one.denominator)
    raise UndefinedResult(f"{left} {operator} {right} has no result of this form")


def as_decimal(quantity: Quantity) -> str:
    """The way a word problem writes a number: `12`, `0.25`, `-3.5`; UndefinedResult beyond two decimals."""
    hundredths = quantity.coefficient * 100
    if quantity.radicand != 1 or hundredths.denominator != 1:
        raise UndefinedResult(f"{quantity} needs more than two decimals")
    if quantity.is_whole:
        return str(quantity.coefficient)
    return f"{float(quantity.coefficient):.2f}".rstrip("0")


def as_latex(quantity: Quantity) -> str:
    r"""The way MATH writes a number: `12`, `-\frac{3}{4}`, `2\sqrt{3}`, `\frac{\sqrt{2}}{2}`."""
    numerator, denominator = abs(quantity.coefficient.numerator), quantity.coefficient.denominator
    sign = "-" if quantity.coefficient < 0 else ""
    top = str(numerator)
    if quantity.radicand != 1:
        top = (top if numerator != 1 else "") + rf"\sqrt{{{quantity.radicand}}}"
    return f"{sign}{top}" if denominator == 1 else rf"{sign}\frac{{{top}}}{{{denominator}}}"
