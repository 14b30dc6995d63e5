"""Laws of the comparison, and no text that breaks it or holds it up."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.answers.extraction import extract_answer
from cpmi_dagster.answers.plain_text import boxed_answer, unwrap
from cpmi_dagster.answers.values import Undecidable, read_value
from cpmi_dagster.answers.verdicts import decide, is_equivalent

PIECES = [
    *r"0123456789+-*/^_(){}[]=<>,.:;!%$|° xyief", r"\frac", r"\sqrt", r"\pi", r"\text{", r"\cup", r"\pm", r"\mp", "&",
    r"\begin{pmatrix}", r"\end{pmatrix}", r"\\", r"\left(", r"\sin", r"\log_", r"\binom", r"\overline{", r"\le", r"\in",
    r"\infty", "9**9**9", "^{999999}", "or", "cm", "\x00", "\x1b", "\ud800", "\u202e", "٣", "²", "½", "√",
]  # fmt: skip
latex_soup = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
any_text = st.text(max_size=60) | latex_soup
statements = st.sampled_from(["####", "The answer is:", r"\boxed{", r"\fbox{", "}", "$", r"\[", "\n", " 5", "."])


@given(answer=any_text)
def test_every_answer_equals_itself(answer: str):
    assert is_equivalent(answer, answer)
    assert is_equivalent(f" {answer}\n", answer)


@settings(max_examples=200)
@given(gold=any_text, candidate=any_text)
def test_the_exact_comparison_is_symmetric_and_never_fails(gold: str, candidate: str):
    verdict = decide(gold, candidate)
    assert verdict in {True, False, None}
    assert decide(candidate, gold) is verdict


@given(value=st.fractions(max_denominator=1000))
def test_a_fraction_equals_its_latex(value):
    sign = "-" if value < 0 else ""
    latex = rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"
    assert decide(str(value), latex) is True
    assert decide(str(value + 1), latex) is False


@given(number=st.integers(-(10**12), 10**12), separator=st.sampled_from(["\\,", "\\ ", "\u2009", " ", "~"]))
def test_separators_of_thousands_and_typesetting_change_nothing(number: int, separator: str):
    for written in (f"{number:,}", f"${number}$", rf"\({number}\)", f"{number}.", f"{number}.00", rf"x = {number}"):
        assert decide(str(number), written) is True
    assert decide(str(abs(number)), f"{abs(number):,}".replace(",", separator)) is True
    assert decide(str(number), str(-number - 1)) is False


@given(numbers=st.lists(st.integers(-99, 99), min_size=2, max_size=5, unique=True), data=st.data())
def test_order_counts_in_tuples_only(numbers: list[int], data: st.DataObject):
    shuffled = data.draw(st.permutations(numbers))
    first, second = (", ".join(map(str, order)) for order in (numbers, shuffled))
    assert decide(first, second) is True
    assert decide(rf"\{{{first}\}}", rf"\{{{second}\}}") is True
    assert decide(f"({first})", f"({second})") is (numbers == shuffled)


@given(coefficients=st.lists(st.integers(-9, 9), min_size=2, max_size=4), at=st.integers(-5, 5))
def test_a_polynomial_equals_its_shifted_self_shifted_back(coefficients: list[int], at: int):
    written = "+".join(f"({c})x^{{{power}}}" for power, c in enumerate(coefficients))
    shifted = "+".join(f"({c})(x+({at})-({at}))^{{{power}}}" for power, c in enumerate(coefficients))
    assert decide(written, shifted) is True
    assert decide(written, f"{shifted}+1") is False


MONSTERS = [
    "9^9^9^9", "((((" * 90 + "1", r"\sqrt{" * 60 + "2", "1" * 399, r"\frac{1}{0}", "3000!!", "10^{999999999}",
    r"\sqrt{(1+" * 18 + "x" + ")^9}" * 18, r"\sin(10^{10^{10}})", "(3000!)^{1000}", r"\binom{3000}{1500}!",
    "{" * 200 + "}" * 200, r"\pm" * 100, r"\sin " * 99 + "x", "+".join(["x^x^x", "9999!"] * 25),
]  # fmt: skip


@pytest.mark.parametrize("monster", MONSTERS)
def test_monsters_are_turned_away(monster: str):
    assert decide("18", monster) in {False, None}
    assert decide(f"{monster}+1", monster) in {False, None}


def work_out(text: str) -> None:
    with suppress(Undecidable):
        read_value(text)


REPEATED = [
    "9", "9,", "9 ", "1,234", "(", "[[1,", "\\frac{", "\\frac{1}{", "\\sqrt{", "^{", "$", "$5 ", "\\[", "\\boxed{", "}",
    "**a", "The answer is:", "\n", "cm ", "million ", "\\text{", "\\text{a}", "\\pm", "|x|", "x=", "a or ", "&", "!",
]  # fmt: skip


@pytest.mark.parametrize("function", [extract_answer, unwrap, work_out, lambda text: decide(text, text[1:])])
def test_no_repeated_pattern_holds_a_function_up(function: Callable[[str], object]):
    """A pattern that backtracks would take hours."""
    for pattern in REPEATED:
        function(pattern * ((20_000 if function is extract_answer else 2_000) // len(pattern)) + "x9")


@settings(max_examples=200)
@given(text=st.lists(any_text | statements, max_size=12).map("".join))
def test_no_text_breaks_extraction(text: str):
    for answer in (extract_answer(text), boxed_answer(text)):
        assert answer is None or answer == answer.strip()
    assert extract_answer(text) != ""
