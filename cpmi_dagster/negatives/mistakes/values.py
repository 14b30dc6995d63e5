r"""The value of a part of an answer as a floating-point number, to tell which of two is larger.

numeric_value(r"\frac{3\pi}{4}")  2.356…        numeric_value(r"-\infty")  -inf        numeric_value("x+1")  None
"""

import math

from cpmi_dagster.answers.equivalence.expressions import read_expression
from cpmi_dagster.answers.equivalence.plain_text import plain_text
from cpmi_dagster.answers.equivalence.polynomials import Undecidable

CONSTANTS = {"pi": math.pi}


def numeric_value(text: str) -> float | None:
    """The value of an expression without letters; None where there are any, or it cannot be read."""
    bare = text.replace(" ", "").lstrip("+")
    if bare in {"\\infty", "-\\infty"}:
        return -math.inf if bare[0] == "-" else math.inf
    try:
        polynomial = read_expression(plain_text(text))
        if any(name not in CONSTANTS for _, symbols in polynomial for name, _ in symbols):
            return None
        return sum(
            float(coefficient) * math.sqrt(radicand) * math.prod(CONSTANTS[name] ** power for name, power in symbols)
            for (radicand, symbols), coefficient in polynomial.items()
        )
    except (Undecidable, ArithmeticError, RecursionError):
        return None
