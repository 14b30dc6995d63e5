r"""The value of a part of an answer as a floating-point number, to tell which of two is larger.

numeric_value(r"\frac{3\pi}{4}")  2.356…        numeric_value(r"-\infty")  -inf        numeric_value("x+1")  None
"""

from math import inf

from cpmi_dagster.answers.equivalence.expressions import read_expression
from cpmi_dagster.answers.equivalence.plain_text import plain_text
from cpmi_dagster.answers.equivalence.polynomials import Undecidable, real_value


def numeric_value(text: str) -> float | None:
    """The value of an expression without letters; None where there are any, or it cannot be read."""
    bare = text.replace(" ", "").lstrip("+")
    if bare in {"\\infty", "-\\infty"}:
        return -inf if bare[0] == "-" else inf
    try:
        return real_value(read_expression(plain_text(text)))
    except (Undecidable, ArithmeticError, RecursionError):
        return None
