"""The parts of the comparison by themselves: values, units, exact constants."""

from fractions import Fraction

import pytest

from cpmi_dagster.answers.equivalence.expressions import Undecidable, is_rounded, read_expression, same
from cpmi_dagster.answers.equivalence.plain_text import plain_text
from cpmi_dagster.answers.equivalence.units import size_of, split_unit


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (r"\sin 2x", r"2\sin x\cos x", True), (r"\sin 2x", r"2\sin x", False), (r"\sqrt{x^{2}}", "x", None),
        (r"\log 100", "2", True), (r"e^{i\pi}", "-1", True), (r"10^{400}+1", "10^{400}", False),
        (r"\frac{1}{1000!}", r"\frac{1}{1001!}", False), (r"\tan \pi", r"\sin \pi", None),
    ],
)  # fmt: skip
def test_values_tell_expressions_apart(one: str, other: str, expected: bool | None):
    assert same(read_expression(one), read_expression(other)) is expected


def test_a_decimal_may_be_rounded_or_cut_off():
    cases = {"0.666667": True, "0.666666": True, "0.666668": False}
    shown = {text: is_rounded(read_expression(text), 6, read_expression(r"\frac{2}{3}")) for text in cases}
    assert shown == cases
    assert not is_rounded(read_expression("0.666667"), 6, read_expression("x"))
    assert is_rounded(read_expression("-1.414214"), 6, read_expression(r"-\sqrt{2}"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5225 cubic inches", ("5225", "cubic inch")), ("2400 cm^2", ("2400", "square centimeter")),
        ("60 km/h", ("60", "kilometer per hour")), ("25 percent", ("25%", "")), ("2xy", ("2xy", "")),
        ("10 x", ("10 x", "")), ("10cm", ("10", "centimeter")),
    ],
)  # fmt: skip
def test_units_are_told_from_letters(text: str, expected: tuple[str, str]):
    assert split_unit(text) == expected


@pytest.mark.parametrize(
    ("unit", "size"),
    [
        ("kilometer per hour", ("length1/time1", Fraction(5, 18))), ("liter", ("length3", Fraction(1, 1000))),
        ("square centimeter", ("length2", Fraction(1, 10_000))), ("apple", None), ("apple per hour", None), ("", None),
    ],
)  # fmt: skip
def test_units_have_a_dimension_and_a_size(unit: str, size: tuple[str, Fraction] | None):
    assert size_of(unit) == size


@pytest.mark.parametrize(
    ("answer", "constant"),
    [
        (r"0.1\overline{6}", Fraction(1, 6)), (r"\binom{5}{2} - 3!", 4), (r"14\frac{6}{7}", Fraction(104, 7)),
        (r"|-7|^2", 49), (r"\sqrt[3]{-27}", -3), (r"{6 \choose 3}", 20), ("sqrt(49)", 7), (r"\sqrt{2}", None),
        ("x", None),
    ],
)  # fmt: skip
def test_rational_constants_are_worked_out_exactly(answer: str, constant: Fraction | int | None):
    value = read_expression(plain_text(answer))
    is_rational = isinstance(value[0], Fraction) and value[1:] == value[:-1]
    assert (value[0] if is_rational else None) == constant


@pytest.mark.parametrize(
    "text", ["", "(", "1+", r"\frac{1}{0}", "3 4)", "a|b", r"\sum k", "2^", "|1", "(1|", r"\frac 1"]
)
def test_what_is_no_expression_is_said_to_be_none(text: str):
    with pytest.raises(Undecidable):
        read_expression(text)
