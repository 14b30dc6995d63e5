"""Laws of the comparison, and no text that breaks it or holds it up."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.answers.conclusions import concluded_value
from cpmi_dagster.answers.extraction import announced_answer, extract_answer, hash_answer
from cpmi_dagster.answers.fences import boxed_answer, closing_brace, unwrapped
from cpmi_dagster.answers.forms import read_form
from cpmi_dagster.answers.plain_text import plain_text
from cpmi_dagster.answers.units import split_letter, split_unit
from cpmi_dagster.answers.values import Undecidable, read_value
from cpmi_dagster.answers.verdicts import decide, is_equivalent, is_formula

PATIENCE = 5.0
PIECES = [
    *r"0123456789+-*/^_(){}[]=<>,.:;!%$|° xyief", r"\frac", r"\sqrt", r"\pi", r"\text{", r"\cup", r"\pm", r"\mp", "&",
    r"\begin{pmatrix}", r"\end{pmatrix}", r"\\", r"\left(", r"\sin", r"\log_", r"\binom", r"\overline{", r"\le", r"\in",
    r"\infty", "9**9**9", "^{999999}", "or", "cm", "\x00", "\x1b", "\ud800", "\u202e", "٣", "²", "½", "√",
]  # fmt: skip
latex_soup = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
wrapping = st.sampled_from(
    [r"\sqrt{#}", "(1+#)^9", r"\sin(#)", r"\frac{1}{#}", "e^{#}", "|#|", "(#)!", r"\sqrt[3]{2+#}"]
)
statements = st.sampled_from(
    ["####", "The answer is:", r"\boxed{", r"\boxed", r"\fbox{", "}", "$", r"\[", "\n", " 5", "."]
)


@st.composite
def nested(draw: st.DrawFn) -> str:
    before, _, after = draw(wrapping).partition("#")
    depth = draw(st.integers(1, 45))
    return before * depth + draw(latex_soup) + after * draw(st.sampled_from([depth, depth - 1]))


any_text = st.text(max_size=60) | latex_soup | nested()


@contextmanager
def little_work() -> Iterator[None]:
    """The block takes this thread few seconds of a processor, however long it waits for one."""
    began = time.thread_time()
    yield
    assert time.thread_time() - began < PATIENCE


@given(answer=any_text)
def test_every_answer_equals_itself(answer: str):
    assert is_equivalent(answer, answer)
    assert is_equivalent(f" {answer}\n", answer)


@settings(max_examples=300)
@given(gold=any_text, candidate=any_text)
def test_the_exact_comparison_is_symmetric_and_never_fails(gold: str, candidate: str):
    with little_work():
        verdict = decide(gold, candidate)
        assert verdict in {True, False, None}
        assert decide(candidate, gold) is verdict


@given(value=st.fractions(max_denominator=1000))
def test_a_fraction_equals_its_latex(value):
    sign = "-" if value < 0 else ""
    latex = rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"
    assert decide(str(value), latex) is True
    assert decide(str(value + 1), latex) is False


@given(number=st.integers(-(10**12), 10**12))
def test_thousands_commas_and_typesetting_change_nothing(number: int):
    for written in (f"{number:,}", f"${number}$", rf"\({number}\)", f"{number}.", f"{number}.00", rf"x = {number}"):
        assert decide(str(number), written) is True
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


@given(count=st.integers(1, 10**6))
def test_a_thousand_meters_are_a_kilometer(count: int):
    assert decide(f"{count} km", f"{1000 * count} m") is True
    assert decide(f"{count} km", f"{count} m") is False


@given(number=st.integers(1000, 10**12), separator=st.sampled_from(["\\,", "\\ ", "\u2009", " ", "~"]))
def test_a_thin_space_separates_thousands(number: int, separator: str):
    assert decide(str(number), f"{number:,}".replace(",", separator)) is True


MONSTERS = [
    "9^9^9^9", "9**9**9", "((((" * 90 + "1", "2^" * 100 + "2", r"\sqrt{" * 60 + "2", "1" * 399, r"\frac{1}{0}",
    "3000!!", "10^{999999999}", r"\sqrt{(1+" * 18 + "x" + ")^9}" * 18, r"\sin(10^{10^{10}})", r"e^{e^{e^{e^{9}}}}",
    "0^{-1}", "(3000!)^{1000}", r"\frac{1}{x-x}", r"\log_1 5", r"\binom{3000}{1500}!", "{" * 200 + "}" * 200,
    r"\pm" * 100, r"\sin " * 99 + "x",
]  # fmt: skip


@pytest.mark.parametrize("monster", MONSTERS)
def test_monsters_are_turned_away_quickly(monster: str):
    with little_work():
        assert decide("18", monster) in {False, None}
        assert decide(f"{monster}+1", monster) in {False, None}


def value(text: str) -> None:
    with suppress(Undecidable):
        read_value(text)


def with_one_less(text: str) -> bool | None:
    return decide(text, text[1:])


REPEATED = [
    "9", "9,", "9 ", "9.", "1,234", "(", "((", "{", "[[1,", "\\frac", "\\frac{", "\\frac{1}{", "\\sqrt", "\\sqrt{",
    "\\sqrt[3]{", "^", "^{", "_", "_{", "$", "\\$", "$5 ", "\\(", "\\[", "\\]", "\\boxed{", "\\boxed", "\\fbox{}",
    "}", "*", "**a", "The answer is:", "The answer is:\n", "####", "a: ", "\n", " ", "a ", "cm ", "per ", "million ",
    "\\text{", "\\text{a}", "\\left(", "\\pm", "|", "|x|", "=", "x=", "x<", "\\cup", "and ", "a or ",
    "\\begin{pmatrix}", "&", "\\\\", "!", "°", "\\sin", "\\log_", "mod ", "{\\choose", "'", ",\\!", "\ud800",
]  # fmt: skip
OF_TEXTS = [extract_answer, announced_answer, hash_answer, boxed_answer, concluded_value]
OF_ANSWERS = [unwrapped, plain_text, read_form, split_unit, split_letter, value, is_formula, with_one_less]


@pytest.mark.parametrize("function", [*OF_TEXTS, *OF_ANSWERS, lambda text: closing_brace(text, 0)])
def test_no_repeated_pattern_holds_a_function_up(function: Callable[[str], object]):
    length = 100_000 if function in OF_TEXTS else 3_000
    assert len(REPEATED) == 65
    for pattern in REPEATED:
        with little_work():
            function(pattern * (length // len(pattern)) + "x9")


@settings(max_examples=200)
@given(text=st.lists(any_text | statements, max_size=12).map("".join))
def test_no_text_breaks_extraction(text: str):
    for answer in (extract_answer(text), boxed_answer(text), hash_answer(text)):
        assert answer is None or answer == answer.strip()
    assert extract_answer(text) != ""


@pytest.mark.slow
@settings(max_examples=40)
@given(gold=latex_soup, candidate=latex_soup)
def test_no_text_breaks_or_holds_up_the_whole_comparison(gold: str, candidate: str):
    with little_work():
        assert is_equivalent(gold, candidate) in {True, False}
