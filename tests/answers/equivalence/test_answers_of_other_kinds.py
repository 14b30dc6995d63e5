"""Answers that are chains, sets, vectors, words, choices, verdicts, or numbers with units."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.answers.equivalence.decide import decide
from cpmi_dagster.answers.equivalence.units import size_of

SAME = [
    # chains of constants are their last side
    (r"\sqrt{68}=2\sqrt{17}", r"2\sqrt{17}"), (r"\sqrt{68}=2\sqrt{17}", r"\sqrt{68}"),
    (r"AB = \sqrt{68} = 2\sqrt{17}", r"2\sqrt{17}"),
    # thousands, sets, vectors, congruences
    (r"58\,500", "58500"), ("58 500", "58,500"), (r"1\,234\,567", "1234567"), ("58\u202f500", "58500"),
    (r"\{n \ge 13\}", r"n \ge 13"), (r"\{x \mid x > 1\}", "x>1"), (r"\{x : x > 1\}", r"(1,\infty)"),
    (r"\{x \in \mathbb{R} \mid x \ne 2\}", r"x \ne 2"), (r"\langle1,2,3\rangle", "(1,2,3)"),
    (r"\left\langle 1,2 \right\rangle", "(1,2)"), (r"n \equiv 1 \pmod{4}", r"n\equiv1\pmod 4"),
    # degrees and minutes
    ("33'", "33"), (r"33^\circ", "33 degrees"), (r"25^{\circ} \mathrm{C}", "25"),
    # words, choices, verdicts
    ("Paris", "paris."), ("(B)", "B"), ("B", "B. Paris"), ("B", "(B) Paris"), (r"\textbf{(B)}\ 12", "B"),
    ("B) Paris", "(b)"), ("Paris", "B. Paris"), ("12", r"\textbf{(E) } 12"), ("yes", "Yes."), ("true", "True"),
    ("no", "False"), ("Unknown", "uncertain."),
    # units
    ("5 km", "5km"), ("5 km", "5 kilometers"), ("5 km", "5000 m"), ("5 km", r"5000\text{ m}"), ("5 km", "5"),
    ("2 hours", "120 minutes"), ("1 km^2", "1000000 m^2"), ("1 m^3", "1000 liters"), ("3 feet", "36 inches"),
    ("60 mph", "1 mile per minute"), ("1.5 kg", "1500 g"), ("5 dollars", "500 cents"),
    # words that are part of the number
    ("3000000", "3 million"), ("24", "2 dozen"), ("24 eggs", "2 dozen eggs"), ("2.5", "5 halves"), ("0.3", "3 tenths"),
    ("300000", "3 hundred thousand"), (r"2 \frac{1}{2} \text{ million}", "2500000"), ("3 million dollars", "3000000"),
    ("25", "5 squared"), ("3 million square feet", "3000000"), ("5", "5 negative numbers"),
    # money
    ("50 cents", r"\$0.50"), ("50", r"\$50"), (r"\$50", "50.00"), ("€50", "50 euros"), ("50 €", "€50"),
    (r"\$0.50", "50¢"),
    ("-$5", "-5 dollars"), (r"\$3 \text{ million}", "3000000"), (r"\$5 per hour", "5 dollars per hour"),
    (r"\$2x", "2x"),
    (r"\$5", r"\$5 each"), (r"\$5 + \$6 = \$11", "11"), (r"\$1,\!234.50", "1234.5 dollars"),
]  # fmt: skip
DIFFERENT = [
    (r"\sqrt{68}=2\sqrt{17}", r"2\sqrt{15}"), (r"58\,500", "29000"), (r"\{n \ge 13\}", "n > 13"),
    (r"\langle1,2,3\rangle", "(1,3,2)"), (r"n \equiv 1 \pmod{4}", r"n \equiv 1 \pmod{8}"),
    (r"33^\circ", "33'"), ("33'", "33''"), (r"\text{(E)}", "e^1"), ("E", "e^{1}"),
    ("Paris", "London"), ("not Paris", "Paris"), ("B. Paris", "C. Paris"), ("B", "A. Paris"), ("B. Paris", "B. London"),
    ("12", r"\textbf{(E) } 13"), ("yes", "no"), ("true", "no"), ("unknown", "no"), ("no", "on"), ("yes", "sey"),
    ("5 km", "5 m"), ("5 km", "500 m"), ("5 km", "4 miles"), ("5 kg", "5000 m"), ("1 km^2", "1000 m^2"),
    ("3 feet", "3 inches"), ("2 hours", "2 minutes"), ("(A) 3", "3A+1"), ("x^2=4", "x=2"),
    ("3", "3 million"), ("2", "2 dozen"), ("3", "3 tenths"), ("5", "5 squared"), ("3", "3 zillion"),
    ("3", "3 twelfths"), ("5", "5 negative"), ("5", "negative 5"), ("3 million", "3 billion"),
    ("5 dollars", "5 hundred dollars"),
    (r"\$50", "50 cents"), ("€50", r"\$50"), ("50 €", "£50"), (r"\$5, \$6", "5 cents, 6 cents"),
    (r"\$3 million", r"\$3"),
    (r"\$5 per hour", r"\$5 per day"),
]  # fmt: skip


@pytest.mark.parametrize(("gold", "candidate"), SAME)
def test_answers_are_compared_by_what_they_are(gold: str, candidate: str):
    assert decide(gold, candidate) is True
    assert decide(candidate, gold) is True


@pytest.mark.parametrize(("gold", "candidate"), DIFFERENT)
def test_answers_that_look_alike_may_be_different_things(gold: str, candidate: str):
    assert not decide(gold, candidate)
    assert not decide(candidate, gold)


@given(count=st.integers(1, 10**6))
def test_a_thousand_meters_are_a_kilometer(count: int):
    assert decide(f"{count} km", f"{1000 * count} m") is True
    assert decide(f"{count} km", f"{count} m") is False


@given(number=st.integers(1000, 10**12), separator=st.sampled_from(["\\,", "\\ ", "\u2009", " ", "~"]))
def test_a_thin_space_separates_thousands(number: int, separator: str):
    assert decide(str(number), f"{number:,}".replace(",", separator)) is True


@pytest.mark.parametrize(
    ("unit", "size"),
    [
        ("kilometer per hour", ("length1/time1", Fraction(5, 18))),
        ("square centimeter", ("length2", Fraction(1, 10_000))),
        ("liter", ("length3", Fraction(1, 1000))),
        ("apple", None),
        ("apple per hour", None),
        ("", None),
    ],
)
def test_units_have_a_dimension_and_a_size(unit: str, size: tuple[str, Fraction] | None):
    assert size_of(unit) == size
