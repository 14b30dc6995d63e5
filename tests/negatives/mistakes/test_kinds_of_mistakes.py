"""Fractions, multiples, digits in a base, values stated twice, letters and words."""

import pytest

from cpmi_dagster.negatives.mistakes.chains import is_chain, propose_chain_changes
from cpmi_dagster.negatives.mistakes.digits import is_in_base, propose_digit_changes
from cpmi_dagster.negatives.mistakes.fraction_changes import (
    count_unreduced,
    has_improper_mixed_number,
    propose_fraction_swaps,
)
from cpmi_dagster.negatives.mistakes.letters import propose_letters
from cpmi_dagster.negatives.mistakes.multiples import propose_term_multiples
from cpmi_dagster.negatives.mistakes.number_changes import propose_number_changes
from cpmi_dagster.negatives.mistakes.plausible import is_nonsense, is_unpolished
from cpmi_dagster.negatives.mistakes.words import propose_phrases, propose_words


@pytest.mark.parametrize(
    ("answer", "count"),
    [(r"\frac{2}{4}", 1), (r"\frac{9\pi}{21}", 1), (r"\frac{2+2\sqrt{3}}{4}", 1), (r"\frac{1+2\sqrt{3}}{4}", 0),
     ("4:6", 1), ("19:60", 0), (r"\sqrt{12}", 1), (r"\frac{2}{3}", 0), (r"\frac{2(x+1)}{4m}", 1), ("6/8", 1)],
)  # fmt: skip
def test_what_one_would_have_simplified_is_counted(answer: str, count: int):
    assert count_unreduced(answer) == count


def test_fractions_turn_over_but_not_in_mixed_numbers():
    assert [proposal.answer for proposal in propose_fraction_swaps(r"-\frac{7}{4}")] == [r"-\frac{4}{7}"]
    assert [proposal.answer for proposal in propose_fraction_swaps(r"\frac{-33}{2}")] == [r"\frac{-2}{33}"]
    assert list(propose_fraction_swaps(r"14\frac{6}{7}")) == []
    assert has_improper_mixed_number(r"14\frac{7}{6}")


def test_terms_get_a_coefficient_but_arguments_of_functions_do_not():
    assert [proposal.answer for proposal in propose_term_multiples(r"\frac{\pi}{2}")] == [
        r"\frac{2\pi}{2}", r"\frac{3\pi}{2}",
    ]  # fmt: skip
    assert [proposal.answer for proposal in propose_term_multiples("g(x)")] == ["2g(x)", "3g(x)"]
    assert [proposal.answer for proposal in propose_term_multiples("y=x")] == ["y=2x", "y=3x"]
    assert [proposal.answer for proposal in propose_term_multiples("i,-i")] == ["2i,-2i", "3i,-3i"]


@pytest.mark.parametrize("answer", ["1011_2", "A5_{11}", r"\text{A5}_{11}", "43_5.", "-37_8"])
def test_digits_stay_below_the_base(answer: str):
    assert is_in_base(answer)
    assert all(is_in_base(proposal.answer) for proposal in propose_digit_changes(answer))


def test_no_number_in_a_base():
    assert not is_in_base("29_8")
    assert not is_in_base("x_2")


def test_values_stated_twice_change_together():
    assert is_chain(r"0.56 = 56\%")
    assert not is_chain("x = 5")
    changed = [proposal.answer for proposal in propose_chain_changes(r"0.56 = 56\%", propose_number_changes)]
    assert r"0.57 = 57\%" in changed
    rounded = propose_chain_changes(r"\$\dfrac{2}{3} \approx \$0.67", propose_number_changes)
    assert r"\$\dfrac{1}{3} \approx \$0.33" in [proposal.answer for proposal in rounded]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (r"\text{(C)}", {rf"\text{{({letter})}}" for letter in "ABDE"}),
        ("A,B,E", {"A,B,C", "A,B,D", "A,C,E", "A,D,E", "B,C,E", "B,D,E"}),
        ("CD", {"AD", "BD", "ED", "CA", "CB", "CE"}),
        (r"\text{ABCD}", {rf"\text{{{order}}}" for order in ("BACD", "CBAD", "DBCA", "ACBD", "ADCB", "ABDC")}),
        ("CBAD", {"EBAD", "CEAD", "CBED", "CBAE"}),
        ("H", {*"ABCDEFG"}),
    ],
)
def test_letters_change_for_others_that_are_likely(answer: str, expected: set[str]):
    assert {proposal.answer for proposal in propose_letters(answer)} == expected


def test_words_change_within_their_group_and_names_for_names():
    assert r"\text{even}" in [proposal.answer for proposal in propose_words(r"\text{odd}")]
    assert [proposal.answer for proposal in propose_words(r"\mbox{one}")] == [
        r"\mbox{two}", r"\mbox{three}", r"\mbox{four}",
    ]  # fmt: skip
    assert r"\text{Alice}" in [proposal.answer for proposal in propose_phrases(r"\text{Evelyn}")]
    assert list(propose_phrases("CBAD")) == []


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("[2,-5)", "[2,5)"),
        ("2, 2", "2, -2"),
        (r"\text{October 32}", r"\text{October 30}"),
        (r"8\!:\!60 \text{ p.m.}", r"8\!:\!59 \text{ p.m.}"),
        (r"2\frac{3}{3}", r"2\frac{2}{3}"),
        ("x^{3}+x^{3}+1", "x^{3}+x^{2}+1"),
    ],
)
def test_nobody_writes_that(answer: str, gold: str):
    assert is_nonsense(answer, gold)
    assert not is_nonsense(gold, gold)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [(r"\frac{2}{2}", r"\frac{1}{2}"), (r"\$0", r"\$2"), ("89, 95, 85", "89, 88, 85"), (r"2\sqrt{8}", r"2\sqrt{7}")],
)
def test_less_likely_because_one_would_have_tidied_it(answer: str, gold: str):
    assert is_unpolished(answer, gold)
    assert not is_unpolished(gold, gold)
