"""Grading of multiple-choice and verdict answers."""

import pytest

from cpmi_dagster.benchmarks.choices import grade_answer, render_choices

OPTIONS = ["4", "7", "a heavy atom", "none of these"]
VERDICTS = ["True", "False", "Uncertain"]


@pytest.mark.parametrize("answer", ["B", "b", "(B)", "B.", "B)", "(B) 7", r"\text{B}", "**B**", "Option B", "7"])
def test_the_letter_or_the_text_of_the_right_option_is_right(answer):
    assert grade_answer("B", answer, OPTIONS)


@pytest.mark.parametrize("answer", ["A", "(C)", "4", "a heavy atom", "9", "E", "", None])
def test_anything_else_is_wrong(answer):
    assert not grade_answer("B", answer, OPTIONS)


@pytest.mark.parametrize("answer", ["Uncertain", "uncertain.", "Unknown", r"\text{uncertain}"])
def test_a_verdict_is_right_however_it_is_worded(answer):
    assert grade_answer("Uncertain", answer, VERDICTS)


@pytest.mark.parametrize("answer", ["True", "B", "C", "it depends"])
def test_a_verdict_is_not_meant_by_a_letter(answer):
    assert not grade_answer("Uncertain", answer, VERDICTS)


def test_an_underscore_in_a_verdict_may_be_a_hyphen_or_a_space():
    verdicts = ["entailment", "self_contradiction"]
    assert grade_answer("self_contradiction", "Self-contradiction", verdicts)
    assert grade_answer("self_contradiction", "self contradiction", verdicts)


def test_an_open_question_is_graded_by_equivalence():
    assert grade_answer(r"\frac{1}{2}", "0.5")
    assert not grade_answer("18", "19")
    assert not grade_answer("18", None)


def test_options_stand_under_the_question():
    assert render_choices("Which is prime? ", ["4", "7"]) == "Which is prime?\n(A) 4\n(B) 7"
