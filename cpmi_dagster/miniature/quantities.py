r"""Exact numbers of the miniature world: a fraction times a square root, and the operators between them.

    Quantity(Fraction(3, 4))      is 3/4, written `0.75` in a word problem and `\frac{3}{4}` in LaTeX
    Quantity(Fraction(2), 3)      is 2√3, written `2\sqrt{3}`
    apply("sqrt", 72)             is 6√2, since 72 = 6² · 2

Results are exact, so that a solution's correctness never depends on rounding.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from cpmi_dagster.answers.equivalence import polynomials
from cpmi_dagster.answers.equivalence.polynomials import Polynomial, Undecidable

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
    return _read(polynomials.scale(polynomials.square_root(polynomials.number(radicand)), coefficient))


OPERATORS: dict[str, Callable[[Polynomial, Polynomial], Polynomial]] = {
    "+": polynomials.add,
    "-": lambda left, right: polynomials.add(left, polynomials.scale(right, -1)),
    "*": polynomials.multiply,
    "/": polynomials.divide,
    "sqrt": lambda left, _right: polynomials.square_root(left),
}


def apply(operator: str, left: Quantity, right: Quantity) -> Quantity:
    """The exact result of one operation: a key of `OPERATORS`, where `sqrt` ignores the right operand, or `mod`.

    Raises:
        UndefinedResult: The result cannot be written as a fraction times a square root.
    """
    if operator == "mod":
        if not (left.is_whole and right.is_whole and right.coefficient > 0):
            raise UndefinedResult("a remainder needs integers and a positive divisor")
        return Quantity(left.coefficient % right.coefficient)
    try:
        return _read(OPERATORS[operator](_written(left), _written(right)))
    except Undecidable as error:
        raise UndefinedResult(f"{left} {operator} {right}: {error}") from error


def _written(quantity: Quantity) -> Polynomial:
    return {(quantity.radicand, ()): quantity.coefficient} if quantity.coefficient else {}


def _read(polynomial: Polynomial) -> Quantity:
    if not polynomial:
        return whole(0)
    ((radicand, symbols), coefficient), *others = polynomial.items()
    if symbols or others:
        raise UndefinedResult("the result is no fraction times a square root")
    return Quantity(Fraction(coefficient), radicand)


def as_decimal(quantity: Quantity) -> str:
    """The way a word problem writes a number: `12`, `0.25`, `-3.5`.

    Raises:
        UndefinedResult: The number needs more than two decimals.
    """
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
