"""Laws of the heuristic negatives, for answers of every form that can be generated."""

import random
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.answers.equivalence.decide import decide
from cpmi_dagster.negatives.hard_negatives import heuristic_negatives
from cpmi_dagster.negatives.mistakes.propose import propose

WANTED = 4
INTEGERS = st.integers(-(10**6), 10**6).map(str)
DECIMALS = st.decimals(-(10**4), 10**4, places=2).map(str)
PROPER = st.fractions(0, 1, max_denominator=99).filter(lambda value: 0 < value < 1)
FRACTIONS = st.fractions(-99, 99, max_denominator=99).filter(lambda value: value.denominator > 1)
LATEX_FRACTIONS = st.builds(
    lambda value, command: f"{'-' if value < 0 else ''}\\{command}{{{abs(value.numerator)}}}{{{value.denominator}}}",
    FRACTIONS,
    st.sampled_from(["frac", "dfrac", "tfrac"]),
)
MIXED = st.builds(
    lambda whole, part: f"{whole}\\frac{{{part.numerator}}}{{{part.denominator}}}", st.integers(1, 99), PROPER
)
POINTS = st.lists(st.integers(-99, 99), min_size=2, max_size=4).map(lambda entries: f"({', '.join(map(str, entries))})")
INTERVALS = st.builds(
    lambda left, length, brackets: f"{brackets[0]}{left}, {left + length}{brackets[1]}",
    st.integers(-50, 50),
    st.integers(3, 50),
    st.sampled_from(["[]", "[)", "(]"]),
)
ROOTS = st.builds(
    lambda factor, root: f"{factor}\\sqrt{{{root}}}", st.integers(2, 60), st.sampled_from([2, 3, 5, 7, 11])
)
IN_BASE = st.integers(2, 9).flatmap(
    lambda base: st.text("0123456789"[:base], min_size=2, max_size=7).map(lambda digits: f"1{digits}_{base}")
)
NUMBER = re.compile(r"\.?[0-9]+(?:\.[0-9]+)?")
ANY = INTEGERS | DECIMALS | LATEX_FRACTIONS | MIXED | POINTS | INTERVALS | ROOTS | IN_BASE
SEEDS = st.integers(0, 2**48)


def shape(answer: str) -> str:
    """The answer with numbers, signs and kinds of brackets made alike; a coefficient of 1 is not written."""
    plain = NUMBER.sub("n", answer).replace("-", "")
    return re.sub(r"(?:^|n)(?=\\sqrt)", "n", re.sub(r"[\[(]", "(", re.sub(r"[\])]", ")", plain)))


@settings(max_examples=200)
@given(gold=ANY, seed=SEEDS)
def test_four_different_negatives_none_equivalent_to_another(gold: str, seed: int):
    answers = [gold, *(negative.answer for negative in heuristic_negatives(gold, WANTED, seed))]
    assert len(answers) == WANTED + 1
    assert [
        (one, other)
        for place, one in enumerate(answers)
        for other in answers[:place]
        if decide(one, other) is not False
    ] == []


@settings(max_examples=200)
@given(gold=ANY, seed=SEEDS)
def test_negatives_have_the_form_of_the_gold_answer(gold: str, seed: int):
    assert {shape(negative.answer) for negative in heuristic_negatives(gold, WANTED, seed)} == {shape(gold)}


@settings(max_examples=60)
@given(gold=ANY, seed=SEEDS, other_seed=SEEDS)
def test_the_seed_decides_and_the_global_generator_does_not(gold: str, seed: int, other_seed: int):
    random.seed(other_seed)
    first = list(propose(gold, seed))
    state = random.getstate()
    assert list(propose(gold, seed)) == first
    assert random.getstate() == state
    # where two heuristics give one answer, the first of them in the order of the seed names it
    assert {other.answer for other in propose(gold, other_seed)} == {one.answer for one in first}


@given(gold=IN_BASE, seed=SEEDS)
def test_digits_are_digits_of_the_base(gold: str, seed: int):
    base = int(gold.split("_")[1])
    for negative in heuristic_negatives(gold, WANTED, seed):
        digits, _, kept = negative.answer.partition("_")
        assert int(kept) == base
        assert all(int(digit) < base for digit in digits.removeprefix("-"))


@given(gold=MIXED | LATEX_FRACTIONS.map(str), seed=SEEDS)
def test_fractions_are_in_lowest_terms_as_long_as_there_are_any(gold: str, seed: int):
    from math import gcd

    for negative in heuristic_negatives(gold, 2, seed):
        top, bottom = (int(part) for part in re.findall(r"\{([0-9]+)\}", negative.answer))
        assert gcd(top, bottom) == 1


@given(gold=st.text(alphabet="\\{}[]()_^$%,.:;=<>+-/ 0123456789abxAB\u0663fracsqtpi", max_size=30), seed=SEEDS)
def test_no_text_breaks_the_heuristics(gold: str, seed: int):
    answers = [proposal.answer for _, proposal in zip(range(64), propose(gold, seed), strict=False)]
    assert len(answers) == len(set(answers))
    assert gold not in answers


def test_a_text_too_long_to_be_an_answer_has_no_edits():
    assert list(propose("1" * 5000, seed=0)) == []
