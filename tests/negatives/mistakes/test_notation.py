"""Arguments get braces before an edit and lose them after it, as the gold answer is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.negatives.mistakes.notation import brace_arguments, find_fractions, written_like

BARE_AND_BRACED = [
    (r"\frac12x^2", r"\frac{1}{2}x^{2}"),
    (r"\frac{\sqrt6}2", r"\frac{\sqrt{6}}{2}"),
    (r"\frac 59", r"\frac{5}{9}"),
    (r"\frac1b", r"\frac{1}{b}"),
    (r"\sqrt 2+\sqrt 5", r"\sqrt{2}+\sqrt{5}"),
    (r"\frac1{216}", r"\frac{1}{216}"),
    (r"\sin^2 t", r"\sin^{2} t"),
    (r"\sqrt[3]{4}", r"\sqrt[3]{4}"),
    (r"x^{10}", r"x^{10}"),
    (r"45^\circ", r"45^\circ"),
]


@pytest.mark.parametrize(("bare", "braced"), BARE_AND_BRACED)
def test_braces_come_and_go(bare: str, braced: str):
    assert brace_arguments(bare) == braced
    assert written_like(braced, bare) == bare


def test_an_argument_that_grew_keeps_its_braces():
    assert written_like(r"\frac{1}{12}x^{10}", r"\frac12x^9") == r"\frac1{12}x^{10}"


@given(answer=st.text(alphabet=r"\frac{}sqt12x^[] ", max_size=24))
def test_braced_text_is_left_as_it_is_the_second_time(answer: str):
    braced = brace_arguments(answer)
    assert brace_arguments(braced) == braced


def test_fractions_are_found_within_fractions_and_beside_a_slash():
    found = [(fraction.top, fraction.bottom) for fraction in find_fractions(r"\frac{\frac{1}{2}}{3} + 7/8")]
    assert found == [(r"\frac{1}{2}", "3"), ("1", "2"), ("7", "8")]


def test_braces_are_dropped_in_the_order_of_the_golds_commands() -> None:
    assert written_like(r"\frac{\frac{\sqrt{6}}{2}}{2}", r"\frac{\sqrt6}2") == r"\frac{\frac{\sqrt6}2}{2}"
