"""Exact numbers: their operators and the two ways to write them."""

from fractions import Fraction
from math import isclose, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.miniature.quantities import (
    Quantity,
    UndefinedResult,
    apply,
    as_decimal,
    as_latex,
    rational,
    surd,
    whole,
)

integers = st.integers(-500, 500)
fractions = st.fractions(min_value=-50, max_value=50, max_denominator=40)


def value(quantity: Quantity) -> float:
    return float(quantity.coefficient) * sqrt(quantity.radicand)


@given(fractions, fractions, st.sampled_from("+-*/"))
def test_operators_agree_with_fractions(left, right, operator):
    if operator == "/" and right == 0:
        with pytest.raises(UndefinedResult):
            apply("/", Quantity(left), Quantity(right))
        return
    expected = {"+": left + right, "-": left - right, "*": left * right, "/": left / (right or 1)}[operator]
    assert apply(operator, Quantity(left), Quantity(right)) == Quantity(expected)


@given(fractions, st.integers(1, 400))
def test_a_surd_keeps_its_value_and_pulls_every_square_out(coefficient, radicand):
    simplified = surd(coefficient, radicand)
    assert isclose(value(simplified), float(coefficient) * sqrt(radicand), abs_tol=1e-9)
    assert all(simplified.radicand % (root * root) for root in range(2, 21))


@given(st.fractions(min_value=0, max_value=500, max_denominator=30))
def test_a_square_root_squares_back(number):
    root = apply("sqrt", Quantity(number), whole(2))
    assert apply("*", root, root) == Quantity(number)


@given(integers, st.integers(1, 30))
def test_remainders_agree_with_python(left, right):
    assert apply("mod", whole(left), whole(right)) == whole(left % right)


def test_different_roots_do_not_add_up():
    with pytest.raises(UndefinedResult):
        apply("+", surd(Fraction(1), 2), surd(Fraction(1), 3))


@pytest.mark.parametrize(
    ("quantity", "latex"),
    [
        (whole(-4), "-4"),
        (rational(6, 8), r"\frac{3}{4}"),
        (rational(-1, 2), r"-\frac{1}{2}"),
        (surd(Fraction(1), 12), r"2\sqrt{3}"),
        (surd(Fraction(1, 2), 2), r"\frac{\sqrt{2}}{2}"),
    ],
)
def test_latex_is_written_as_in_math(quantity, latex):
    assert as_latex(quantity) == latex


def test_decimals_are_written_as_in_gsm8k():
    assert [as_decimal(rational(number, 100)) for number in (100, 25, 50, 5)] == ["1", "0.25", "0.5", "0.05"]
    with pytest.raises(UndefinedResult):
        as_decimal(rational(1, 3))
