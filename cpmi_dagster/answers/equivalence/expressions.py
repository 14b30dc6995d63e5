r"""Read plain text or LaTeX as an expression, and work out its value: exactly where it is rational, else to 150 digits.

    "-\frac{1}{2}"      -> -1/2             "2\sqrt{12}"     -> 6.928…
    "14\frac{6}{7}"     -> 104/7            "0.\overline{3}" -> 1/3
    "1.5 \times 10^3"   -> 1500             "\sin^2 30°"     -> 0.25
    "3(x+1)"            -> its values at three points, where x is three fixed fractions

Letters are positive at the first two points and of both signs at the last. Two expressions that differ at a point with
positive letters differ; two that agree at all points are the same.

Grammar: sum = term (± term)*; term = factor ((·|/)? factor)*; factor = base (!|°)* (^ exponent)?; a number directly
before a proper fraction of whole numbers is a mixed number; a function takes the brackets behind it, or else the
product up to the next sign, dot or function.
"""

import random
import re
import threading
from collections.abc import Callable
from fractions import Fraction
from math import comb, factorial
from typing import Any

import mpmath

DIGITS, AGREEING_BITS = 150, 300
POSITIVE_POINTS, POINTS = 2, 3
MAX_DEPTH = 40
LARGEST_MAGNITUDE, LARGEST_ARGUMENT, LARGEST_FACTORIAL = 1 << 16, 10_000, 3000
MAX_BITS = 1 << 15
LEAST_NOISE, LARGEST_NOISE = -1000, -150
TRIGONOMETRIC = ("sin", "cos", "tan", "cot", "sec", "csc")
FUNCTIONS = (*TRIGONOMETRIC, "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "log", "ln", "exp")

Number = Any  # a Fraction, or one of mpmath's numbers, which have no types
Value = tuple[Number, ...]

_TOKEN = re.compile(
    r"\s*([0-9]+\.?[0-9]*|\.[0-9]+|[fghFGHPQ]\(\s*[0-9]+\s*\)|\\sqrt\s*\[\s*[0-9]{1,2}\s*\]|\\[A-Za-z]+"
    r"|[A-Za-z](?:_(?:\{[A-Za-z0-9]+\}|[A-Za-z0-9]))?|[-+*/^(){}\[\]!_°])"
)
_REPEATING = re.compile(r"([0-9]*)\.([0-9]*)\\(?:overline|bar)\s*\{?([0-9]{1,50})\}?")
_MIXED = re.compile(
    r"(?<![0-9._])([0-9]+)(?:\s*\\frac\{([0-9]{1,9})\}\{([0-9]{1,9})\}|\s+([0-9]{1,9})/([0-9]{1,9})(?![0-9/.]))"
)
_BARS = re.compile(r"\|([^|]*)\|")
_INVERSE = re.compile(rf"\\({'|'.join(FUNCTIONS)})\s*\^\s*(?:\{{\s*-1\s*\}}|-1(?![0-9]))")
_TIMES, _OVER, _SIGNS = {"*", "\\cdot", "\\times"}, {"/", "\\div"}, {"+", "-"}
_CLOSING = {"(": ")", "{": "}", "[": "]"}
_ENDS = {"", ")", "}", "]"} | _SIGNS
_LETTERS = {
    "\\alpha", "\\beta", "\\gamma", "\\delta", "\\theta", "\\lambda", "\\mu", "\\phi", "\\varphi", "\\omega", "\\rho",
    "\\sigma", "\\tau", "\\zeta", "\\epsilon", "\\infty", "\\ell",
}  # fmt: skip

_mp = mpmath.MPContext()
_mp.dps = DIGITS
_lock = threading.Lock()
_CONSTANTS = {"\\pi": +_mp.pi, "e": +_mp.e, "i": _mp.j}
_FUNCTIONS: dict[str, Callable[..., Number]] = {
    **{
        f"\\{name}": getattr(_mp, name.replace("arc", "a"))
        for name in (*FUNCTIONS, "arccot", "arcsec", "arccsc", "arcsinh", "arccosh", "arctanh")
    },
    "\\log": lambda argument, base=10: _mp.ln(argument) / _mp.ln(base),
    "\\binom": _mp.binomial,
    "!": _mp.factorial,
}
_OF_ANY_SIZE = {"\\log", "\\ln"}


class Undecidable(Exception):
    """The text is not an expression, or is too large or too deep for one."""


def read_expression(text: str) -> Value:
    """The value of a text, as `plain_text` leaves it, at each of the fixed points.

    Raises:
        Undecidable: the text is not an expression, or its value cannot be worked out.
    """
    tokens = _tokens(text)
    count = POINTS if any(map(_is_letter, tokens)) else 1
    try:
        with _lock:
            values = [_Reader(tokens, point).read() for point in range(count)]
    except (ValueError, ArithmeticError, TypeError, RecursionError) as error:
        raise Undecidable(str(error)) from error
    return tuple(values) * (POINTS // count)


def same(one: Value, other: Value) -> bool | None:
    """Whether two values are the same; None where they differ at a negative letter alone, or may have lost digits."""
    verdicts: list[bool | None] = []
    for left, right in zip(one, other, strict=True):
        if isinstance(left, Fraction) and isinstance(right, Fraction):
            verdicts.append(left == right)
            continue
        left, right = _inexact(left), _inexact(right)
        size, difference = max(_mp.mag(left), _mp.mag(right)), _mp.mag(left - right)
        # what rounding left of zero; smaller numbers than that are products or powers
        may_be_noise = LEAST_NOISE < size < LARGEST_NOISE
        if difference == -_mp.inf or difference < size - AGREEING_BITS:
            # a small term may have been lost beside a huge one
            is_sure = size < AGREEING_BITS and (difference == -_mp.inf or not may_be_noise)
            verdicts.append(True if is_sure else None)
        else:
            verdicts.append(None if may_be_noise else False)
    return False if False in verdicts[:POSITIVE_POINTS] else True if all(verdicts) else None


def real_value(value: Value) -> float | None:
    """The value of a real constant; None for anything else."""
    try:
        return float(value[0]) if value[1:] == value[:-1] else None
    except (TypeError, OverflowError):
        return None


def is_rounded(decimal: Value, places: int, exact: Value) -> bool:
    """Whether a decimal of so many places is the rounded, or cut-off, value of a real constant that is not whole."""
    if real_value(exact) is None or _mp.isint(_inexact(exact[0])):
        return False
    shifted = exact[0] * 10**places
    return decimal[0] * 10**places in {int(shifted), int(_mp.nint(_inexact(shifted)))}


def _tokens(text: str) -> list[str]:
    def mixed_number(mixed: re.Match[str]) -> str:
        whole, top, bottom = (part for part in mixed.groups() if part is not None)
        return f"({whole}+{top}/{bottom})" if int(top) < int(bottom) else mixed[0]

    def repeating_decimal(decimal: re.Match[str]) -> str:
        whole, start, repeating = decimal.groups()
        return f"({whole or 0}.{start or 0}+{int(repeating)}/{10 ** len(start + repeating) - 10 ** len(start)})"

    text = _MIXED.sub(mixed_number, text.rstrip())
    if "\\" in text:
        text = _INVERSE.sub(r"\\arc\1 ", _REPEATING.sub(repeating_decimal, text))
    tokens, position, text = [], 0, _BARS.sub(r"\\abs(\1)", text)
    while position < len(text):
        if (found := _TOKEN.match(text, position)) is None:
            raise Undecidable(f"cannot read {text[position:][:20]!r}")
        tokens.append(re.sub(r"[\s{}]", "", found[1]) if len(found[1]) > 1 else found[1])
        position = found.end()
    return tokens


def _is_letter(token: str) -> bool:
    return (token[:1].isalpha() or token in _LETTERS) and token not in _CONSTANTS


def _inexact(number: Number) -> Number:
    return _mp.mpf(number.numerator) / number.denominator if isinstance(number, Fraction) else number


def _bits(number: Fraction) -> int:
    return number.numerator.bit_length() + number.denominator.bit_length()


def _checked(number: Number) -> Number:
    """A number of manageable size: a long fraction becomes inexact."""
    if isinstance(number, Fraction) and _bits(number) <= MAX_BITS:
        return number
    number = _inexact(number)
    if not _mp.isfinite(number) or (number and abs(_mp.mag(number)) > LARGEST_MAGNITUDE):
        raise Undecidable("number too large or too small")
    return number


def _power(base: Number, exponent: Number) -> Number:
    if base and abs(exponent) * max(1, abs(_mp.mag(_inexact(base)))) > LARGEST_MAGNITUDE:
        raise Undecidable("power too large")
    if isinstance(exponent, Fraction) and exponent.denominator == 1:
        is_short = isinstance(base, Fraction) and _bits(base) * abs(exponent) <= 2 * MAX_BITS
        return _checked((base if is_short else _inexact(base)) ** int(exponent))
    return _checked(_inexact(base) ** _inexact(exponent))


def _root(degree: int, radicand: Number) -> Number:
    if degree % 2 and not _mp.im(_inexact(radicand)) and radicand < 0:
        return -_root(degree, -radicand)
    if isinstance(radicand, Fraction) and radicand >= 0:
        parts = [int(_mp.nint(_mp.root(part, degree))) for part in radicand.as_integer_ratio()]
        if (exact := Fraction(*parts)) ** degree == radicand:
            return exact
    return _mp.root(_inexact(radicand), degree)


def _apply(function: str, *arguments: Number) -> Number:
    if function == "\\abs":
        return abs(arguments[0])
    if function not in _OF_ANY_SIZE and any(abs(argument) > LARGEST_ARGUMENT for argument in arguments):
        raise Undecidable("argument too large")
    whole = [int(n) for n in arguments if isinstance(n, Fraction) and n.denominator == 1 and n >= 0]
    if function == "\\binom" and len(whole) == 2:
        return _checked(Fraction(comb(*whole)))
    if function == "!" and whole and whole[0] <= LARGEST_FACTORIAL:
        return _checked(Fraction(factorial(whole[0])))
    return _checked(_FUNCTIONS[function](*map(_inexact, arguments)))


class _Reader:
    """Recursive descent over tokens, every letter standing for its number at a point."""

    def __init__(self, tokens: list[str], point: int) -> None:
        self.left = ["", *reversed(tokens)]
        self.point = point
        self.depth = 0

    @property
    def token(self) -> str:
        """The next token, empty at the end."""
        return self.left[-1]

    def read(self) -> Number:
        value = self.sum()
        if self.token:
            raise Undecidable(f"unexpected {self.token!r}")
        return value

    def sum(self) -> Number:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Undecidable("too deep")
        total = self.signed(self.term)
        while self.token in _SIGNS:
            total = _checked(total + self.signed(self.term))
        self.depth -= 1
        return total

    def signed(self, operand: Callable[[], Number]) -> Number:
        sign = 1
        while self.token in _SIGNS:
            sign = -sign if self.left.pop() == "-" else sign
        return sign * operand()

    def term(self) -> Number:
        product = self.factor()
        while self.token not in _ENDS:
            operator = self.left.pop() if self.token in _TIMES | _OVER else ""
            factor = self.signed(self.factor) if operator else self.factor()
            product = _checked(product * (1 / factor if operator in _OVER else factor))
        return product

    def factor(self) -> Number:
        base = self.base()
        while self.token in {"!", "°"}:
            base = _apply("!", base) if self.left.pop() == "!" else base * _CONSTANTS["\\pi"] / 180
        if self.token != "^":
            return base
        self.left.pop()
        return _power(base, self.exponent())

    def exponent(self) -> Number:
        return self.group() if self.token == "{" else self.signed(self.base)

    def base(self) -> Number:
        if self.token in _CLOSING:
            return self.group()
        token = self.left.pop()
        if token[:1].isdigit() or token[:1] == ".":
            return Fraction(token)
        if token in _CONSTANTS:
            return _CONSTANTS[token]
        if _is_letter(token):
            return self.at_point(token)
        if token == "\\frac":
            return _checked(self.group() * (1 / self.group()))
        if token == "\\binom":
            return _apply(token, self.group(), self.group())
        if token.startswith("\\sqrt"):
            return _root(int(token[6:-1] or 2), self.group())
        if token in _FUNCTIONS or token == "\\abs":
            return self.application(token)
        raise Undecidable(f"unexpected {token!r}")

    def at_point(self, letter: str) -> Fraction:
        generator = random.Random(f"{self.point} {letter}")
        number = Fraction(generator.getrandbits(40), 1 << 39) + Fraction(1, 4)
        return -number if self.point >= POSITIVE_POINTS and generator.random() < 0.8 else number

    def group(self) -> Number:
        if self.token not in _CLOSING:
            raise Undecidable(f"unexpected {self.token!r}")
        closing, value = _CLOSING[self.left.pop()], self.sum()
        if self.left.pop() != closing:
            raise Undecidable("unbalanced brackets")
        return value

    def application(self, function: str) -> Number:
        exponent, index = None, []
        while self.token in {"^", "_"}:
            if self.left.pop() == "^":
                exponent = self.exponent()
            else:
                index = [self.base()]
        value = _apply(function, self.argument(), *index)
        return value if exponent is None else _power(value, exponent)

    def argument(self) -> Number:
        if self.token in _CLOSING:
            return self.group()
        product = self.signed(self.factor)
        while self.token not in _ENDS | _TIMES and self.token not in _FUNCTIONS:
            if self.token in _OVER:
                raise Undecidable("what the quotient behind a function belongs to")
            product = _checked(product * self.factor())
        return product
