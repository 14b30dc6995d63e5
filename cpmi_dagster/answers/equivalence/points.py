r"""The value of an expression at a few fixed points, to sixty digits: where two expressions differ there, they differ.

    agree("\sin 2x", "2\sin x\cos x")        True     (equal at every point)
    agree("\sin 2x", "2\sin x")              False
    agree("\sqrt{x^2}", "x")                 None     (equal at the points with x > 0, not at the others)

Letters get fixed irrational-looking values, positive at the first points and of both signs at the last; π, e and i
are themselves. Two short expressions that agree to forty-five digits at all points are the same.
"""

import random
import threading
from functools import lru_cache
from typing import Any

import mpmath

from cpmi_dagster.answers.equivalence.expressions import work_out
from cpmi_dagster.answers.equivalence.polynomials import Rational, Undecidable

DIGITS = 60
AGREEING_DIGITS = 45
LARGEST_MAGNITUDE = 1 << 16
VANISHING_MAGNITUDE, TINY_MAGNITUDE = -60, -400
BITS_OF_A_DIGIT = 3.3219
LARGEST_ARGUMENT = 10_000
CACHED_VALUES = 1 << 14
POSITIVE_POINTS, POINTS = 2, 3
BITS_OF_A_LETTER, SMALLEST_LETTER = 150, 0.25
NEGATIVE_SHARE = 0.8
NATURAL, DECIMAL = "e", "10"

Number = Any  # mpmath's numbers have no types

_context = mpmath.MPContext()
_context.dps = DIGITS
_lock = threading.Lock()
_CONSTANTS = {"pi": +_context.pi, "e": +_context.e, "i": _context.j}
_FUNCTIONS = {
    "sin": _context.sin, "cos": _context.cos, "tan": _context.tan, "sinh": _context.sinh, "cosh": _context.cosh,
    "tanh": _context.tanh, "arcsin": _context.asin, "arccos": _context.acos, "arctan": _context.atan,
    "exp": _context.exp, "ln": _context.ln,
}  # fmt: skip
_RECIPROCALS = {"cot": "tan", "sec": "cos", "csc": "sin"}
_FAILURES = (Undecidable, ValueError, ArithmeticError, TypeError, RecursionError)


def agree(one: str, other: str) -> bool | None:
    r"""Whether two expressions, as `plain_text` leaves them, have the same values.

    Returns:
        False where they differ at a point with positive letters, True where they differ nowhere, None where only
        letters of other signs tell them apart or a value cannot be worked out. A `\log` without a base is read as
        decimal in both, then as natural in both.
    """
    bases = (DECIMAL, NATURAL) if "\\log" in one + other else (NATURAL,)
    verdicts = [_agree_with_base(one, other, base) for base in bases]
    return True if True in verdicts else verdicts[0]


def is_rounded(decimal: Rational, places: int, exact: str) -> bool | None:
    """Whether a decimal of so many places is the rounded, or cut-off, value of a constant expression.

    Returns:
        None where the expression's value cannot be worked out.
    """
    values = values_at_points(exact)
    if any(value is None for value in values):
        return None
    first, *others = (value for value in values if value is not None)
    if _context.im(first) or any(value != first for value in others):
        return False
    with _lock:
        shifted = _context.re(first) * 10**places
        return int(decimal * 10**places) in {int(shifted), int(_context.nint(shifted))}


@lru_cache(maxsize=CACHED_VALUES)
def values_at_points(text: str, base: str = NATURAL) -> tuple[Number | None, ...]:
    """The values of an expression at the fixed points, None where it has none; `base` is that of a bare `\\log`."""
    return tuple(_value(text, _Point(number, base)) for number in range(POINTS))


def _agree_with_base(one: str, other: str, base: str) -> bool | None:
    verdicts = [_equal(*pair) for pair in zip(values_at_points(one, base), values_at_points(other, base), strict=True)]
    if False in verdicts[:POSITIVE_POINTS]:
        return False
    return True if all(verdicts) else None


def _equal(one: Number | None, other: Number | None) -> bool | None:
    """Whether two values are the same.

    Returns:
        None where a small term may have been lost beside a huge one, or where the values may be what rounding left of
        zero; smaller values than that are products or powers.
    """
    if one is None or other is None:
        return None
    with _lock:
        size = max(_context.mag(one), _context.mag(other))
        difference = _context.mag(one - other)
    agreeing_bits = AGREEING_DIGITS * BITS_OF_A_DIGIT
    if difference < size - agreeing_bits or difference == -_context.inf:
        is_trusted = size < agreeing_bits and (difference == -_context.inf or not _may_be_noise(size))
        return True if is_trusted else None
    return None if _may_be_noise(size) else False


def _may_be_noise(size: int) -> bool:
    return TINY_MAGNITUDE < size < VANISHING_MAGNITUDE


def _value(text: str, point: "_Point") -> Number | None:
    with _lock:
        try:
            return work_out(text, point)
        except _FAILURES:
            return None


def _checked(value: Number) -> Number:
    """A value of manageable size: huge exponents and arguments take forever."""
    if not _context.isfinite(value) or (value and abs(_context.mag(value)) > LARGEST_MAGNITUDE):
        raise Undecidable("value too large or too small")
    return value


class _Point:
    """Arithmetic with complex numbers, every letter standing for one of them."""

    def __init__(self, number: int, base: str) -> None:
        self.seed = number
        self.base = _context.mpf(10) if base == DECIMAL else _CONSTANTS["e"]

    def number(self, value: Rational) -> Number:
        return _checked(_context.mpf(value.numerator) / value.denominator)

    def symbol(self, name: str) -> Number:
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if name == "infty":
            raise Undecidable("infinity")
        generator = random.Random(f"{self.seed} {name}")
        value = _context.mpf(generator.getrandbits(BITS_OF_A_LETTER)) / 2 ** (BITS_OF_A_LETTER - 1) + SMALLEST_LETTER
        return -value if self.seed >= POSITIVE_POINTS and generator.random() < NEGATIVE_SHARE else value

    def add(self, left: Number, right: Number) -> Number:
        return _checked(left + right)

    def scale(self, polynomial: Number, factor: Rational) -> Number:
        return _checked(polynomial * factor.numerator / factor.denominator)

    def multiply(self, left: Number, right: Number) -> Number:
        return _checked(left * right)

    def divide(self, left: Number, right: Number) -> Number:
        return _checked(left / right)

    def power(self, base: Number, exponent: Number) -> Number:
        if base and abs(exponent) * max(1, abs(_context.mag(base))) > LARGEST_MAGNITUDE:
            raise Undecidable("power too large")
        return _checked(base**exponent)

    def root(self, degree: int, radicand: Number) -> Number:
        if degree % 2 and not _context.im(radicand) and _context.re(radicand) < 0:
            return -_context.root(-radicand, degree)
        return _context.root(radicand, degree)

    def apply(self, function: str, *arguments: Number) -> Number:
        if max(abs(argument) for argument in arguments) > LARGEST_ARGUMENT:
            raise Undecidable("argument too large")
        return _checked(self._apply(function, *arguments))

    def _apply(self, function: str, argument: Number, *others: Number) -> Number:
        if function in _RECIPROCALS:
            return 1 / _FUNCTIONS[_RECIPROCALS[function]](argument)
        if function == "log":
            return _context.ln(argument) / _context.ln(others[0] if others else self.base)
        if function == "|":
            return abs(argument)
        if function == "!":
            return _context.gamma(argument + 1)
        if function == "binom":
            top, bottom = argument, others[0]
            return _context.gamma(top + 1) / (_context.gamma(bottom + 1) * _context.gamma(top - bottom + 1))
        if function in _FUNCTIONS and not others:
            return _FUNCTIONS[function](argument)
        raise Undecidable(function)
