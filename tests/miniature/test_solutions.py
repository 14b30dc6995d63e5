"""Correct solutions: their arithmetic, their length, their last number."""

import re
from fractions import Fraction

from hypothesis import given
from sample_problems import generators, problems

from cpmi_dagster.miniature.solutions import solve
from cpmi_dagster.miniature.word_problems import HARD, STANDARD, make_word_problem

CALCULATION = re.compile(r"<<([\d.]+)([-+*/])([\d.]+)=([\d.]+)>>([\d.]+)")


def recompute(left: str, operator: str, right: str) -> Fraction:
    """The result of a calculator mark, by Python's own arithmetic."""
    first, second = Fraction(left), Fraction(right)
    return {"+": first + second, "-": first - second, "*": first * second, "/": first / (second or 1)}[operator]


@given(generators)
def test_every_calculator_mark_is_right(rng):
    for step in solve(make_word_problem(rng), rng).steps:
        ((left, operator, right, result, written),) = CALCULATION.findall(step)
        assert recompute(left, operator, right) == Fraction(result) == Fraction(written.rstrip("."))


@given(problems, generators)
def test_a_solution_is_right_throughout_and_ends_in_the_answer(problem, wording):
    solution = solve(problem, wording)
    assert all(solution.correct)
    assert solution.first_error == -1
    assert solution.answer == problem.answer
    assert problem.answer in solution.steps[-1]


@given(problems)
def test_nothing_is_left_unfilled_and_lengths_and_levels_are_in_range(problem):
    assert "@" not in problem.question
    assert not any("@" in step or "\n" in step for step in solve(problem).steps)
    assert 2 <= len(problem.operations) <= HARD.most + 1
    assert 1 <= problem.level <= 5


@given(generators)
def test_standard_word_problems_have_two_to_eight_steps(rng):
    assert STANDARD.fewest <= len(make_word_problem(rng).operations) <= STANDARD.most
