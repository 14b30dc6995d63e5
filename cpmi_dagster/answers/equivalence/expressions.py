r"""Read plain text or LaTeX as an expression, in exact arithmetic or at a point.

    "-\frac{1}{2}"      -> {1: -1/2}             "2\sqrt{12}"     -> {√3: 4}
    "14\frac{6}{7}"     -> {1: 104/7}            "3(x+1)"         -> {x: 3, 1: 3}
    "1.5 \times 10^3"   -> {1: 1500}             "0.\overline{3}" -> {1: 1/3}
    "\binom{5}{2} - 3!" -> {1: 4}                "\sin^2 x"       -> {(sin x)²: 1}, with sin x opaque

Grammar: sum = term (± term)*; term = factor ((·|/)? factor)*; factor = base (!|°)* (^ exponent)?; a number directly
before a proper fraction of whole numbers is a mixed number; a function takes the brackets behind it, or else the
product up to the next sign, dot or function. Letters are symbols.
"""

import re
from fractions import Fraction
from typing import Protocol, TypeVar

from cpmi_dagster.answers.equivalence import polynomials
from cpmi_dagster.answers.equivalence.polynomials import Polynomial, Rational, Undecidable

MAX_DEPTH = 40
MAX_DIGITS = 300
HALF_TURN = 180
TRIGONOMETRIC = ("sin", "cos", "tan", "cot", "sec", "csc")
FUNCTIONS = (*TRIGONOMETRIC, "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "log", "ln", "exp")
_TOKEN = re.compile(
    r"\s*([0-9]+\.?[0-9]*|\.[0-9]+|\\[A-Za-z]+|[A-Za-z](?:_(?:\{[A-Za-z0-9]+\}|[A-Za-z0-9]))?|[-+*/^(){}\[\]|!_°])"
)
_MIXED_FRACTION = re.compile(r"\s*\\frac\{([0-9]{1,9})\}\{([0-9]{1,9})\}|\s+([0-9]{1,9})/([0-9]{1,9})(?![\d/.])")
_REPEATING = re.compile(r"\s*\\(?:overline|bar)\s*\{?([0-9]{1,50})\}?")
_ROOT_DEGREE = re.compile(r"\s*([2-9]|1[0-2])\s*\]")
_INVERSE = re.compile(r"\s*\{?\s*-1(?![0-9])\s*\}?")
_NUMBER_IN_BRACKETS = re.compile(r"\(\s*([0-9]+)\s*\)")
_TIMES = {"*", "\\cdot", "\\times"}
_OVER = {"/", "\\div"}
_CLOSING = {"(": ")", "{": "}", "[": "]"}
_ENDS = {"", ")", "}", "]"}
_NAMES_OF_FUNCTIONS = set("fghFGHPQ")
_LETTERS = {
    "\\pi", "\\alpha", "\\beta", "\\gamma", "\\delta", "\\theta", "\\lambda", "\\mu", "\\phi", "\\varphi", "\\omega",
    "\\rho", "\\sigma", "\\tau", "\\zeta", "\\epsilon", "\\infty", "\\ell",
}  # fmt: skip
_FUNCTIONS = {f"\\{name}" for name in FUNCTIONS}

Value = TypeVar("Value")


class Arithmetic(Protocol[Value]):
    """The operations that evaluate an expression: on exact polynomials, or on numbers at a point."""

    def number(self, value: Rational) -> Value: ...
    def symbol(self, name: str) -> Value: ...
    def add(self, left: Value, right: Value) -> Value: ...
    def scale(self, polynomial: Value, factor: Rational) -> Value: ...
    def multiply(self, left: Value, right: Value) -> Value: ...
    def divide(self, left: Value, right: Value) -> Value: ...
    def power(self, base: Value, exponent: Value) -> Value: ...
    def root(self, degree: int, radicand: Value) -> Value: ...
    def apply(self, function: str, *arguments: Value) -> Value: ...


def read_expression(text: str) -> Polynomial:
    """The polynomial that a text denotes, as `plain_text` leaves it.

    Raises:
        Undecidable: the text is something else, or too large or too deep.
    """
    return work_out(text, polynomials)


def work_out(text: str, arithmetic: Arithmetic[Value]) -> Value:
    """The value of a text in the given arithmetic.

    Raises:
        Undecidable: the text is not an expression, or the arithmetic cannot carry it out.
    """
    reader = _Reader(text, arithmetic)
    value = reader.sum()
    if reader.token:
        raise Undecidable(f"unexpected {reader.token!r}")
    return value


class _Reader:
    """Recursive descent over one text; `token` is the next token, empty at the end."""

    def __init__(self, text: str, arithmetic: Arithmetic) -> None:
        self.text = text
        self.arithmetic = arithmetic
        self.position = 0
        self.depth = 0
        self.open_bars = 0
        self.token = ""
        self.advance()

    def advance(self) -> str:
        """Take the next token and look at the one after it."""
        taken, match = self.token, _TOKEN.match(self.text, self.position)
        if match:
            self.token, self.position = match.group(1), match.end()
        elif self.text[self.position :].strip():
            raise Undecidable(f"cannot read {self.text[self.position :][:20]!r}")
        else:
            self.token = ""
        return taken

    def at_end(self) -> bool:
        return self.token in _ENDS or (self.token == "|" and self.open_bars > 0)

    def sum(self):
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Undecidable("too deep")
        total = self.signed_term()
        while self.token in {"+", "-"}:
            total = self.arithmetic.add(total, self.signed_term())
        self.depth -= 1
        return total

    def signed_term(self):
        sign = 1
        while self.token in {"+", "-"}:
            sign = -sign if self.advance() == "-" else sign
        return self.term() if sign == 1 else self.arithmetic.scale(self.term(), sign)

    def term(self):
        product = self.factor()
        while not self.at_end() and self.token not in {"+", "-"}:
            if self.token in _OVER:
                self.advance()
                product = self.arithmetic.divide(product, self.signed_factor())
            elif self.token in _TIMES:
                self.advance()
                product = self.arithmetic.multiply(product, self.signed_factor())
            else:
                product = self.arithmetic.multiply(product, self.factor())
        return product

    def signed_factor(self):
        if self.token == "-":
            self.advance()
            return self.arithmetic.scale(self.factor(), -1)
        return self.factor()

    def factor(self):
        base = self.base()
        while self.token in {"!", "°"}:
            base = self.arithmetic.apply("!", base) if self.advance() == "!" else self.in_radians(base)
        if self.token != "^":
            return base
        self.advance()
        return self.arithmetic.power(base, self.exponent())

    def exponent(self):
        if self.token == "{":
            return self.group()
        sign = -1 if self.token == "-" and self.advance() else 1
        return self.arithmetic.scale(self.base(), sign)

    def in_radians(self, degrees):
        half_turns = self.arithmetic.divide(degrees, self.arithmetic.number(HALF_TURN))
        return self.arithmetic.multiply(half_turns, self.arithmetic.symbol("pi"))

    def base(self):
        if self.token in _CLOSING:
            return self.group()
        if self.token[:1].isdigit() or self.token[:1] == ".":
            return self.numeral()
        if self.token[:1].isalpha() or self.token in _LETTERS:
            return self.letter()
        if self.token in {"\\frac", "\\binom"}:
            taken, parts = self.advance(), (self.group(), self.group())
            return self.arithmetic.divide(*parts) if taken == "\\frac" else self.arithmetic.apply("binom", *parts)
        if self.token == "\\sqrt":
            return self.radical()
        if self.token in _FUNCTIONS:
            return self.application()
        if self.token == "|":
            return self.absolute_value()
        raise Undecidable(f"unexpected {self.token!r}")

    def group(self):
        closing = _CLOSING.get(self.advance())
        bars, self.open_bars = self.open_bars, 0
        value = self.sum()
        if closing is None or self.advance() != closing:
            raise Undecidable("unbalanced brackets")
        self.open_bars = bars
        return value

    def absolute_value(self):
        self.advance()
        self.open_bars += 1
        value = self.sum()
        self.open_bars -= 1
        if self.advance() != "|":
            raise Undecidable("unbalanced bars")
        return self.arithmetic.apply("|", value)

    def letter(self):
        argument = _NUMBER_IN_BRACKETS.match(self.text, self.position)
        if argument and self.token in _NAMES_OF_FUNCTIONS:
            self.position = argument.end()
            return self.arithmetic.symbol(f"{self.advance()}({argument.group(1)})")
        return self.arithmetic.symbol(self.advance().strip("\\").replace("{", "").replace("}", ""))

    def radical(self):
        self.advance()
        if self.token != "[":
            return self.arithmetic.root(2, self.group())
        degree = _ROOT_DEGREE.match(self.text, self.position)
        if degree is None:
            raise Undecidable("degree of a root")
        self.position = degree.end()
        self.advance()
        return self.arithmetic.root(int(degree.group(1)), self.group())

    def application(self):
        name, exponent, bases = self.advance()[1:], None, []
        while self.token in {"^", "_"}:
            if self.token == "^" and (inverse := _INVERSE.match(self.text, self.position)):
                self.position, name = inverse.end(), f"arc{name}"
                self.advance()
            elif self.advance() == "^":
                exponent = self.exponent()
            else:
                bases = [self.base()]
        value = self.arithmetic.apply(name, self.argument(), *bases)
        return value if exponent is None else self.arithmetic.power(value, exponent)

    def argument(self):
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Undecidable("too deep")
        bracketed = self.token in _CLOSING
        product = self.group() if bracketed else self.signed_factor()
        while not (bracketed or self.at_end() or self.token in _FUNCTIONS | _TIMES | {"+", "-"}):
            if self.token in _OVER:
                raise Undecidable("what the quotient behind a function belongs to")
            product = self.arithmetic.multiply(product, self.factor())
        self.depth -= 1
        return product

    def numeral(self):
        if len(self.token) > MAX_DIGITS:
            raise Undecidable("number too long")
        whole = int(self.token) if self.token.isdigit() else Fraction(self.token)
        if self.token.isdigit():
            whole += self.proper_fraction()
        elif repeating := _REPEATING.match(self.text, self.position):
            self.position = repeating.end()
            digits, places = repeating.group(1), len(self.token.partition(".")[2])
            whole += Fraction(int(digits), (10 ** len(digits) - 1) * 10**places)
        self.advance()
        return self.arithmetic.number(whole)

    def proper_fraction(self) -> Rational:
        mixed = _MIXED_FRACTION.match(self.text, self.position)
        if mixed is None:
            return 0
        top, bottom = (int(part) for part in mixed.groups() if part is not None)
        if top >= bottom:
            return 0
        self.position = mixed.end()
        return Fraction(top, bottom)
