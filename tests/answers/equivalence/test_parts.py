"""The parts of the comparison by themselves: values at points, sets of numbers, units, exact arithmetic."""

from fractions import Fraction

import pytest

from cpmi_dagster.answers.equivalence.expressions import read_expression
from cpmi_dagster.answers.equivalence.intervals import intervals
from cpmi_dagster.answers.equivalence.plain_text import plain_text
from cpmi_dagster.answers.equivalence.points import agree, is_rounded
from cpmi_dagster.answers.equivalence.polynomials import Undecidable, as_rational
from cpmi_dagster.answers.equivalence.reading import read_form
from cpmi_dagster.answers.equivalence.units import split_unit


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (r"\sin 2x", r"2\sin x\cos x", True),
        (r"\sin 2x", r"2\sin x", False),
        (r"\sqrt{x^{2}}", "x", None),
        (r"\log 100", "2", True),
        (r"\log e", "1", True),
        (r"\log x", r"\ln x", True),
        (r"2^{\infty}", "1", None),
        (r"\frac{1}{x-x}", "1", None),
        (r"e^{i\pi}", "-1", True),
        (r"\sin x / 2", r"\frac{\sin x}{2}", None),
    ],
)
def test_values_at_points_tell_expressions_apart(one: str, other: str, expected: bool | None):
    assert agree(one, other) is expected


def test_a_decimal_may_be_rounded_or_cut_off():
    assert is_rounded(Fraction("0.666667"), 6, r"\frac{2}{3}") is True
    assert is_rounded(Fraction("0.666666"), 6, r"\frac{2}{3}") is True
    assert is_rounded(Fraction("0.666668"), 6, r"\frac{2}{3}") is False
    assert is_rounded(Fraction("0.666667"), 6, "x") is False
    assert is_rounded(Fraction("-1.414214"), 6, r"-\sqrt{2}") is True


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (r"(0,2)\cup[1,3]", [((0, 1), (3, 0))]),
        (r"(0,1)\cup(1,2)", [((0, 1), (1, -1)), ((1, 1), (2, -1))]),
        (r"(0,1)\cup\{1\}\cup(1,2)", [((0, 1), (2, -1))]),
        (r"[3,4]\cup[1,2]", [((1, 0), (2, 0)), ((3, 0), (4, 0))]),
        (r"[2,1]\cup[3,3]", [((3, 0), (3, 0))]),
        (r"(1,2,3)\cup(4,5)", None),
        (r"(x,2)\cup(4,5)", None),
    ],
)
def test_unions_are_brought_to_separate_intervals(answer: str, expected: list | None):
    form = read_form(answer)
    assert form is not None
    assert intervals(form) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5225 cubic inches", ("5225", "cubic inch")),
        ("2400 cm^2", ("2400", "square centimeter")),
        ("60 km/h", ("60", "kilometer per hour")),
        ("25 percent", ("25%", "")),
        ("2xy", ("2xy", "")),
        ("10 x", ("10 x", "")),
        ("10cm", ("10", "centimeter")),
    ],
)
def test_units_are_told_from_letters(text: str, expected: tuple[str, str]):
    assert split_unit(text) == expected


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        (r"0.1\overline{6}", Fraction(1, 6)),
        (r"\binom{5}{2} - 3!", 4),
        (r"14\frac{6}{7}", Fraction(104, 7)),
        (r"|-7|^2", 49),
        (r"\sqrt[3]{-27}", -3),
        (r"{6 \choose 3}", 20),
        ("sqrt(49)", 7),
    ],
)
def test_constants_are_worked_out_exactly(answer: str, value: Fraction | int):
    assert as_rational(read_expression(plain_text(answer))) == value


@pytest.mark.parametrize("text", ["", "(", "1+", r"\frac{1}{0}", "3 4)", "a|b", r"\sum k", "2^", "|1", "(1|"])
def test_what_is_no_expression_is_said_to_be_none(text: str):
    with pytest.raises(Undecidable):
        read_expression(text)
