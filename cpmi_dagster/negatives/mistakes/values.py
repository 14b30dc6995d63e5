r"""The value of a part of an answer as a floating-point number, to tell which of two is larger.

numeric_value(r"\frac{3\pi}{4}")  2.356…        numeric_value(r"-\infty")  -inf        numeric_value("x+1")  None
quantity_value("75\%")            0.75          quantity_value(r"3\text{ cm}")  3.0  quantity_value("(1,2)")  None
"""

from math import inf

from cpmi_dagster.answers.equivalence.expressions import read_expression
from cpmi_dagster.answers.equivalence.forms import Quantity
from cpmi_dagster.answers.equivalence.plain_text import plain_text
from cpmi_dagster.answers.equivalence.polynomials import Undecidable, real_value
from cpmi_dagster.answers.equivalence.reading import read_form
from cpmi_dagster.answers.equivalence.units import split_unit

PER_CENT = 100


def numeric_value(text: str) -> float | None:
    """The value of an expression, a unit left out; None where it has letters, or cannot be read."""
    bare = text.replace(" ", "").lstrip("+")
    if bare in {"\\infty", "-\\infty"}:
        return -inf if bare[0] == "-" else inf
    try:
        return real_value(read_expression(split_unit(plain_text(text))[0]))
    except (Undecidable, ArithmeticError, RecursionError):
        return None


def quantity_value(text: str) -> float | None:
    """The value of an answer that is one number, perhaps with a unit, a name or a percent sign; None for any other."""
    form = read_form(plain_text(text))
    if not isinstance(form, Quantity) or (value := real_value(form.value)) is None:
        return None
    return value / PER_CENT if form.percent else value
