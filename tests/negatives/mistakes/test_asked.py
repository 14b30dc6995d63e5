"""Wrong answers that could answer the question."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.negatives.hard_negatives import heuristic_negatives
from cpmi_dagster.negatives.mistakes.asked import Asked, what_is_asked
from cpmi_dagster.negatives.mistakes.repeated import in_all_places
from cpmi_dagster.negatives.mistakes.values import quantity_value

PROBABILITY = "What is the probability that both are red?"
COUNT = "Ann has 3 hats. How many hats has she left?"
ANGLE = r"What is the measure of angle $\angle A$, in degrees?"
WANTED = 4
SEEDS = st.integers(0, 2**48)
SHARES = st.integers(0, 100).flatmap(
    lambda percent: st.sampled_from([f"{percent}\\%", f"{percent / 100:.2f}", f"\\frac{{{percent + 1}}}{{102}}"])
)


@pytest.mark.parametrize(
    ("question", "gold", "asked"),
    [
        (PROBABILITY, r"\frac{1}{3}", Asked(is_probability=True)),
        ("What is the chance of rain, in percent?", "75\\%", Asked(is_probability=True)),
        ("The probability of heads is $m/n$. Find $m+n$.", "13", Asked()),
        ("What is the probability that the number of heads is 2?", "0.5", Asked(is_probability=True, is_amount=True)),
        ("Ann likely has a chance. How many hats has she?", "1", Asked(is_amount=True)),
        ("If the chance of rain is 0.5, how many days are dry?", "1", Asked(is_amount=True)),
        ("Red is as likely as blue. What is $x$?", "1", Asked()),
        (COUNT, "5", Asked(is_amount=True)),
        ("Find the length of $AB$.", r"2\sqrt{3}", Asked(is_amount=True)),
        ("How far below zero is it? Find the change of the length.", "-3", Asked()),
        (ANGLE, "40", Asked(is_angle=True, is_amount=True)),
        ("What is $x$?", r"40^\circ", Asked(is_angle=True, is_amount=True)),
        ("Find $\\tan 45^\\circ$.", "1", Asked()),
        ("How many degrees Fahrenheit is it?", "40", Asked(is_amount=True)),
        ("The length is 3. What is $x$?", "2", Asked()),
        (COUNT, "(1,2)", Asked()),
        ("", "5", Asked()),
    ],
)
def test_words_and_gold_answer_tell_what_is_asked(question: str, gold: str, asked: Asked):
    assert what_is_asked(question, gold) == asked


@given(gold=SHARES, seed=SEEDS)
def test_wrong_probabilities_are_probabilities(gold: str, seed: int):
    found = [quantity_value(negative.answer) for negative in heuristic_negatives(gold, WANTED, seed, PROBABILITY)]
    assert len(found) == WANTED
    assert all(value is not None and 0 <= value <= 1 for value in found)


@given(gold=st.integers(0, 999).map(str) | st.integers(2, 99).map("{}\\sqrt{{2}}".format), seed=SEEDS)
def test_wrong_counts_and_lengths_are_not_negative(gold: str, seed: int):
    found = [quantity_value(negative.answer) for negative in heuristic_negatives(gold, WANTED, seed, COUNT)]
    assert len(found) == WANTED
    assert all(value is not None and value >= 0 for value in found)


@pytest.mark.parametrize(
    ("question", "gold", "rests"),
    [
        (ANGLE, "40", {"140", "50"}),
        ("What is $x$?", r"130^\circ", {r"50^\circ"}),
        (PROBABILITY, r"\frac{1}{3}", {r"\frac{2}{3}"}),
        (PROBABILITY, "0.35", {"0.65"}),
        (PROBABILITY, "35\\%", {"65\\%"}),
        (COUNT, "40", set()),
    ],
)
def test_what_is_left_of_the_whole_is_a_mistake(question: str, gold: str, rests: set[str]):
    negatives = heuristic_negatives(gold, 40, 0, question)
    assert {negative.answer for negative in negatives if negative.source == "rest"} == rests


@pytest.mark.parametrize(
    ("gold", "edited", "everywhere"),
    [
        (r"(1+\sqrt{5}, 1-\sqrt{5})", r"(1+\sqrt{6}, 1-\sqrt{5})", r"(1+\sqrt{6}, 1-\sqrt{6})"),
        (r"(x+1)^{2}+3(x+1)", r"(x-1)^{2}+3(x+1)", r"(x-1)^{2}+3(x-1)"),
        (r"(\frac{1}{6}, \frac{1}{6})", r"(\frac{1}{6}, \frac{1}{7})", r"(\frac{1}{7}, \frac{1}{7})"),
        ("24x+24y", "25x+24y", "25x+25y"),
        ("124x+24y", "124x+25y", "124x+25y"),
        (r"(\sqrt{2}, \sqrt{2})", r"(-\sqrt{2}, \sqrt{2})", r"(-\sqrt{2}, \sqrt{2})"),
        ("x^{2}+2", "x^{2}+3", "x^{2}+3"),
    ],
)
def test_a_repeated_part_is_edited_in_all_its_places(gold: str, edited: str, everywhere: str):
    assert in_all_places(gold, edited) == everywhere


@given(gold=st.text("(1+2x){}\\frac", max_size=20), edited=st.text("(1+2x){}\\frac", max_size=20))
def test_an_edit_stays_an_edit_wherever_it_is_made(gold: str, edited: str):
    assert (in_all_places(gold, edited) == gold) == (gold == edited)
    assert in_all_places(gold, gold) == gold
