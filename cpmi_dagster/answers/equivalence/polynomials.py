r"""Exact arithmetic with rationals, square roots, π, i and letters: a sum of coefficient × √radicand × symbols.

    2\sqrt{3} + \frac{\pi}{2}   ->  {(3, ()): 2,  (1, (("pi", 1),)): 1/2}
    4x^3 - x                    ->  {(1, (("x", 3),)): 4,  (1, (("x", 1),)): -1}

Square roots are reduced to square-free radicands, which are linearly independent over the rationals, so two
polynomials are equal exactly when their terms are. What the arithmetic cannot carry out (a root or a quotient of a sum,
a power with a letter in it, a sine) becomes an opaque symbol: equal terms are still equal, different ones decide
nothing. Whole coefficients are ints, which are much faster than fractions.
"""

from fractions import Fraction
from hashlib import blake2b
from math import comb, factorial, fsum, gcd, isqrt, pi, sqrt

Symbols = tuple[tuple[str, int], ...]
Monomial = tuple[int, Symbols]
Rational = int | Fraction
Polynomial = dict[Monomial, Rational]

ONE: Monomial = (1, ())
IMAGINARY = "i"
OPAQUE = "?"
MAX_BITS = 1 << 15
MAX_POWER = 1024
MAX_TERMS = 64
MAX_RADICAND = 10**9
MAX_FACTORIAL = 3000
MAX_DESCRIPTION = 120


class Undecidable(Exception):
    """The text is not an expression of this arithmetic, or is too large for it."""


def number(value: Rational) -> Polynomial:
    """A rational constant."""
    return {ONE: value.numerator if value.denominator == 1 else value} if value else {}


def symbol(name: str) -> Polynomial:
    """A letter, π or i."""
    return {(1, ((name, 1),)): 1}


def opaque(description: str) -> Polynomial:
    """A symbol for something that only its description identifies."""
    return symbol(OPAQUE + description)


def is_opaque(polynomial: Polynomial) -> bool:
    """Whether some symbol is an expression that was not evaluated."""
    return any(name.startswith(OPAQUE) for _, symbols in polynomial for name, _ in symbols)


def as_rational(polynomial: Polynomial) -> Rational | None:
    """The value of a constant without roots; None for anything else."""
    if not polynomial:
        return 0
    return polynomial.get(ONE) if len(polynomial) == 1 else None


def real_value(polynomial: Polynomial) -> float | None:
    """The value of a constant with roots and π, the same for equal constants; None for anything else."""
    if any(name != "pi" for _, symbols in polynomial for name, _ in symbols):
        return None
    terms = sorted(polynomial.items())
    try:
        return fsum(factor * sqrt(root) * pi ** sum(power for _, power in symbols) for (root, symbols), factor in terms)
    except OverflowError:
        return None


def describe(polynomial: Polynomial) -> str:
    """The same short text for equal polynomials; a digest where it would be long, for descriptions nest."""
    terms = sorted(polynomial.items())  # hexadecimal, for Python refuses to write very long decimals
    text = ";".join(f"{value.numerator:x}/{value.denominator:x}*{monomial}" for monomial, value in terms)
    return text if len(text) <= MAX_DESCRIPTION else blake2b(text.encode(), digest_size=16).hexdigest()


def add(left: Polynomial, right: Polynomial) -> Polynomial:
    """Sum of two polynomials."""
    total = dict(left)
    for monomial, coefficient in right.items():
        total[monomial] = total.get(monomial, 0) + coefficient
    return _checked(total)


def scale(polynomial: Polynomial, factor: Rational) -> Polynomial:
    """Polynomial times a rational."""
    return _checked({monomial: coefficient * factor for monomial, coefficient in polynomial.items()})


def multiply(left: Polynomial, right: Polynomial) -> Polynomial:
    """Product of two polynomials."""
    for constant, other in ((left, right), (right, left)):
        if len(constant) == 1 and ONE in constant:
            return scale(other, constant[ONE])
    product: Polynomial = {}
    for first, a in left.items():
        for second, b in right.items():
            monomial, factor = _multiply_monomials(first, second)
            product[monomial] = product.get(monomial, 0) + a * b * factor
    return _checked(product)


def divide(left: Polynomial, right: Polynomial) -> Polynomial:
    """Quotient; a divisor of several terms becomes an opaque symbol.

    Raises:
        Undecidable: the divisor is zero.
    """
    if not right:
        raise Undecidable("division by zero")
    if len(right) > 1:
        inverse = Fraction(1) / right[min(right)]
        return multiply(left, scale(opaque("1/" + describe(scale(right, inverse))), inverse))
    (((radicand, symbols), coefficient),) = right.items()
    inverse, factor = _multiply_monomials((radicand, ()), (1, tuple((name, -power) for name, power in symbols)))
    return multiply(left, {inverse: Fraction(factor) / (coefficient * radicand)})


def power(base: Polynomial, exponent: Polynomial) -> Polynomial:
    """Base to an exponent; opaque unless the exponent is an integer, or a half of a constant.

    Raises:
        Undecidable: the result would be too large.
    """
    value = as_rational(exponent)
    if value is None:
        return opaque(f"{describe(base)}^{describe(exponent)}")
    if value.denominator == 2 and as_rational(base) is not None:
        return power(square_root(base), number(value * 2))
    if value.denominator != 1:
        return opaque(f"{describe(base)}^{describe(exponent)}")
    if abs(value) > MAX_POWER and (as_rational(base) is None or abs(value) > MAX_BITS):
        raise Undecidable("power too large")
    return _integer_power(base if value >= 0 else divide(number(1), base), abs(int(value)))


def square_root(radicand: Polynomial) -> Polynomial:
    """Square root; opaque unless the radicand is a rational constant."""
    value = as_rational(radicand)
    if value is None:
        return opaque("sqrt" + describe(radicand))
    root = _square_root_of_integer(abs(value.numerator) * value.denominator)
    positive = scale(root, Fraction(1, value.denominator))
    return multiply(positive, symbol(IMAGINARY)) if value < 0 else positive


def root(degree: int, radicand: Polynomial) -> Polynomial:
    """n-th root; opaque unless it is a square root or a perfect power of positive numbers."""
    if degree == 2:
        return square_root(radicand)
    value = as_rational(radicand)
    if value is not None and value < 0 and degree % 2:
        return scale(root(degree, number(-value)), -1)
    if value is not None and value > 0:
        parts = [round(part ** (1 / degree)) for part in (value.numerator, value.denominator) if part < MAX_RADICAND]
        if len(parts) == 2 and Fraction(parts[0] ** degree, parts[1] ** degree) == value:
            return number(Fraction(*parts))
    return opaque(f"root{degree}{describe(radicand)}")


def apply(function: str, *arguments: Polynomial) -> Polynomial:
    """A function's value: exact for `!`, `binom` and `|` of whole numbers, else opaque."""
    values = [as_rational(argument) for argument in arguments]
    whole = [int(value) for value in values if value is not None and value.denominator == 1]
    if function == "|" and values[0] is not None:
        return number(abs(values[0]))
    if len(whole) == len(values) and all(0 <= value <= MAX_FACTORIAL for value in whole):
        if function == "!":
            return number(factorial(whole[0]))
        if function == "binom":
            return number(comb(*whole))
    if function == "|":
        return opaque(f"|{min(describe(scale(arguments[0], sign)) for sign in (1, -1))}|")
    return opaque(f"{function}({','.join(map(describe, arguments))})")


def _integer_power(base: Polynomial, exponent: int) -> Polynomial:
    result = number(1)
    for bit in bin(exponent)[2:]:
        result = multiply(result, result)
        if bit == "1":
            result = multiply(result, base)
    return result


def _square_root_of_integer(value: int) -> Polynomial:
    if value == 0:
        return {}
    if isqrt(value) ** 2 == value:
        return number(isqrt(value))
    if value > MAX_RADICAND:
        raise Undecidable("radicand too large")
    outside, factor = 1, 2
    while factor * factor <= value:
        while value % (factor * factor) == 0:
            value //= factor * factor
            outside *= factor
        factor += 1
    return {(value, ()): outside}


def _multiply_monomials(left: Monomial, right: Monomial) -> tuple[Monomial, int]:
    common = gcd(left[0], right[0])
    radicand = (left[0] // common) * (right[0] // common)
    powers = dict(left[1])
    for name, exponent in right[1]:
        powers[name] = powers.get(name, 0) + exponent
    quarter_turns = powers.pop(IMAGINARY, 0) % 4
    if quarter_turns % 2:
        powers[IMAGINARY] = 1
    symbols = tuple(sorted((name, exponent) for name, exponent in powers.items() if exponent))
    return (radicand, symbols), -common if quarter_turns >= 2 else common


def _checked(polynomial: Polynomial) -> Polynomial:
    """The terms that are not zero, none of them too large."""
    terms: Polynomial = {}
    for monomial, coefficient in polynomial.items():
        if coefficient:
            terms[monomial] = _manageable(coefficient)
            if monomial is not ONE and (monomial[0] > MAX_RADICAND or any(abs(e) > MAX_POWER for _, e in monomial[1])):
                raise Undecidable("number too large")
    if len(terms) > MAX_TERMS:
        raise Undecidable("too many terms")
    return terms


def _manageable(value: Rational) -> Rational:
    if type(value) is int:
        bits = value.bit_length()
    else:
        bits = value.numerator.bit_length() + value.denominator.bit_length()
        value = value.numerator if value.denominator == 1 else value
    if bits > MAX_BITS:
        raise Undecidable("number too large")
    return value
