"""The parts of the comparison by themselves: values, units, rounded constants."""

from fractions import Fraction

import pytest

from cpmi_dagster.answers.plain_text import plain_text
from cpmi_dagster.answers.units import size_of, split_unit
from cpmi_dagster.answers.values import Undecidable, is_rounded, read_value, same


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (r"\sin 2x", r"2\sin x\cos x", True), (r"\sin 2x", r"2\sin x", False), (r"\sqrt{x^{2}}", "x", None),
        (r"\log 100", "2", True), (r"e^{i\pi}", "-1", True), (r"10^{400}+1", "10^{400}", False),
        (r"\frac{1}{1000!}", r"\frac{1}{1001!}", False), (r"\tan \pi", r"\sin \pi", True),
        (r"0.1\overline{6}", r"\frac{1}{6}", True), (r"\binom{5}{2} - 3!", "4", True), ("|-7|^2", "49", True),
        (r"14\frac{6}{7}", r"\frac{104}{7}", True), (r"\sqrt[3]{-27}", "-3", True), (r"\sin^{-1} 1", r"\pi/2", True),
        (r"2^{5000}+1", r"2^{5000}", False), (r"2^{5000} \cdot 3", r"3 \cdot 4^{2500}", True),
    ],
)  # fmt: skip
def test_values_tell_expressions_apart(one: str, other: str, expected: bool | None):
    assert same(read_value(plain_text(one)), read_value(plain_text(other))) is expected


def test_a_decimal_may_be_rounded_or_cut_off():
    cases = {"0.666667": True, "0.666666": True, "0.666668": False}
    shown = {text: is_rounded(read_value(text), 6, read_value(r"\frac{2}{3}")) for text in cases}
    assert shown == cases
    assert not is_rounded(read_value("0.666667"), 6, read_value("x"))
    assert is_rounded(read_value("-1.414214"), 6, read_value(r"-\sqrt{2}"))
    assert not is_rounded(read_value("0.666667"), 6, read_value(r"\ln 0"))


@pytest.mark.parametrize("term", ["x^x^x", r"\arcsin x", r"\arcsin(1/2)", r"\sqrt{2}^{\sqrt{3}}"])
def test_what_would_take_minutes_is_not_worked_out(term: str):
    with pytest.raises(Undecidable):
        same(read_value("+".join([term] * 25) + "+9999!"), read_value("9999!+" + "+".join([term] * 25)))


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


def test_units_have_a_dimension_and_a_size():
    assert size_of("kilometer per hour") == ("length1/time1", Fraction(5, 18))
    assert size_of("liter") == ("length3", Fraction(1, 1000))
    assert size_of("apple per hour") is size_of("") is None


@pytest.mark.parametrize(
    "text", ["", "(", "1+", r"\frac{1}{0}", "3 4)", "a|b", r"\sum k", "2^", "|1", "(1|", r"\frac 1", "5 # 3", "9^9^9^9"]
)
def test_what_is_no_expression_is_said_to_be_none(text: str):
    with pytest.raises(Undecidable):
        read_value(text)
