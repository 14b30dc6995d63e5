r"""Read plain text or LaTeX as an exact polynomial.

    "-\frac{1}{2}"      -> {1: -1/2}             "2\sqrt{12}"  -> {√3: 4}
    "14\frac{6}{7}"     -> {1: 104/7}            "3(x+1)"      -> {x: 3, 1: 3}
    "1.5 \times 10^3"   -> {1: 1500}             "\sin x"      -> Undecidable

Grammar: sum = term (± term)*; term = factor ((·|/)? factor)*; factor = base (^ exponent)?; a number directly before a
proper fraction of whole numbers is a mixed number. Letters stand for themselves.
"""

import re
from fractions import Fraction

from cpmi_dagster.equivalence.polynomials import (
    Polynomial,
    Undecidable,
    add,
    as_rational,
    divide,
    multiply,
    number,
    power,
    root,
    scale,
    square_root,
    symbol,
)

MAX_DEPTH = 40
MAX_DIGITS = 300
_TOKEN = re.compile(r"\s*([0-9]+\.?[0-9]*|\.[0-9]+|\\[A-Za-z]+|[A-Za-z]|[-+*/^(){}\[\]])")
_MIXED_FRACTION = re.compile(r"\s*\\frac\{([0-9]{1,9})\}\{([0-9]{1,9})\}|\s+([0-9]{1,9})/([0-9]{1,9})(?![\d/.])")
_TIMES = {"*", "\\cdot", "\\times"}
_OVER = {"/", "\\div"}
_CLOSING = {"(": ")", "{": "}", "[": "]"}
_LETTERS = {
    "\\pi", "\\alpha", "\\beta", "\\gamma", "\\delta", "\\theta", "\\lambda", "\\mu", "\\phi", "\\varphi", "\\omega",
    "\\rho", "\\sigma", "\\tau", "\\zeta", "\\epsilon", "\\infty",
}  # fmt: skip
_ENDS = {"", ")", "}", "]"}


def read_expression(text: str) -> Polynomial:
    """The polynomial a text stands for.

    Args:
        text: As `plain_text` leaves it.

    Raises:
        Undecidable: the text is something else, or too large or too deep.
    """
    reader = _Reader(text)
    value = reader.sum()
    if reader.token:
        raise Undecidable(f"unexpected {reader.token!r}")
    return value


class _Reader:
    """Recursive descent over one text; `token` is the next token, empty at the end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.depth = 0
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

    def sum(self) -> Polynomial:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Undecidable("too deep")
        total = self.signed_term()
        while self.token in {"+", "-"}:
            total = add(total, self.signed_term())
        self.depth -= 1
        return total

    def signed_term(self) -> Polynomial:
        sign = 1
        while self.token in {"+", "-"}:
            sign = -sign if self.advance() == "-" else sign
        return scale(self.term(), sign)

    def term(self) -> Polynomial:
        product = self.factor()
        while self.token not in _ENDS and self.token not in {"+", "-"}:
            if self.token in _OVER:
                self.advance()
                product = divide(product, self.signed_factor())
            elif self.token in _TIMES:
                self.advance()
                product = multiply(product, self.signed_factor())
            else:
                product = multiply(product, self.factor())
        return product

    def signed_factor(self) -> Polynomial:
        if self.token == "-":
            self.advance()
            return scale(self.factor(), -1)
        return self.factor()

    def factor(self) -> Polynomial:
        base = self.base()
        if self.token != "^":
            return base
        self.advance()
        if self.token == "{":
            return power(base, self.group())
        sign = -1 if self.token == "-" and self.advance() else 1
        return power(base, scale(self.base(), sign))

    def base(self) -> Polynomial:
        if self.token in _CLOSING:
            return self.group()
        if self.token == "\\frac":
            self.advance()
            numerator = self.group()
            return divide(numerator, self.group())
        if self.token == "\\sqrt":
            return self.radical()
        if self.token[:1].isdigit() or self.token[:1] == ".":
            return self.numeral()
        if self.token.isalpha() or self.token in _LETTERS:
            return symbol(self.advance().removeprefix("\\"))
        raise Undecidable(f"unexpected {self.token!r}")

    def group(self) -> Polynomial:
        closing = _CLOSING.get(self.advance())
        value = self.sum()
        if closing is None or self.advance() != closing:
            raise Undecidable("unbalanced brackets")
        return value

    def radical(self) -> Polynomial:
        self.advance()
        if self.token != "[":
            return square_root(self.group())
        degree = as_rational(self.group())
        if degree is None or degree.denominator != 1 or not 2 <= degree <= 12:
            raise Undecidable("degree of a root")
        return root(int(degree), self.group())

    def numeral(self) -> Polynomial:
        if len(self.token) > MAX_DIGITS:
            raise Undecidable("number too long")
        whole = Fraction(self.token)
        mixed = _MIXED_FRACTION.match(self.text, self.position) if self.token.isdigit() else None
        if mixed:
            top, bottom = (int(part) for part in mixed.groups() if part is not None)
            if top < bottom:
                self.position = mixed.end()
                whole += Fraction(top, bottom)
        self.advance()
        return number(whole)
