"""Injected errors against their truth labels."""

import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sample_problems import generators, problems

from cpmi_dagster.miniature.plans import Earlier, Operation, Problem
from cpmi_dagster.miniature.quantities import UndefinedResult, whole
from cpmi_dagster.miniature.slips import (
    SLIP_KINDS,
    Aside,
    ImpossibleSlip,
    Slip,
    draw_slip,
    draw_solution,
    make_mistake,
    solve_with_slips,
)
from cpmi_dagster.miniature.solutions import ASIDES, Solution, solve

SHELLS = Problem(
    "GSM8K",
    "Word problem",
    1,
    "48 shells, 12 more, 5 jars, 3 rows of 4 shells beside?",
    (
        Operation(whole(48), "+", whole(12), ("@work.",)),
        Operation(Earlier(0), "/", whole(5), ("@work.",)),
        Operation(whole(3), "*", whole(4), ("@work.",)),
        Operation(Earlier(1), "+", Earlier(2), ("@work.",)),
    ),
)


@given(problems, generators)
def test_the_answer_is_wrong_and_so_are_steps_from_the_first_error_on(problem, rng):
    mistake = make_mistake(problem, rng)
    assert mistake.answer != problem.answer
    assert not mistake.correct[-1]
    assert all(mistake.correct[: mistake.first_error])
    assert not mistake.correct[mistake.first_error]


@given(problems, generators, st.sampled_from(SLIP_KINDS), st.data())
def test_a_slip_is_where_it_was_put(problem, rng, kind, data):
    index = data.draw(st.integers(0, len(problem.operations) - 1))
    try:
        solution = solve_with_slips(problem, [draw_slip(problem, kind, index, rng)])
    except (ImpossibleSlip, UndefinedResult):
        assume(False)
        return
    if kind == "dropped":
        assert solution.first_error >= index
        assert len(solution.steps) == len(problem.operations) - 1
    else:
        assert solution.first_error == index
    assert solution.steps[:index] == solve(problem).steps[:index]


@given(problems, generators, st.booleans())
def test_an_answer_is_right_exactly_when_the_last_step_is_sound(problem, rng, is_right):
    solution = draw_solution(problem, rng, is_right)
    assert (solution.answer == problem.answer) == solution.written[-1].is_sound == is_right


@given(problems, generators, st.booleans())
def test_operations_left_are_those_of_the_plan(problem, rng, is_right):
    left = [step.operations_left for step in draw_solution(problem, rng, is_right).written]
    assert left[-1] == 0
    assert all(0 <= count <= len(problem.operations) for count in left)
    assert [step.operations_left for step in solve(problem).written] == list(range(len(problem.operations)))[::-1]


def kinds(solution: Solution) -> list[str | None]:
    return [step.kind for step in solution.written]


def test_a_wrong_result_is_carried_on():
    solution = solve_with_slips(SHELLS, [Slip(0, SHELLS.operations[0], "calculation", result=whole(65))])
    assert solution.steps == (
        "48+12=<<48+12=65>>65.",
        "65/5=<<65/5=13>>13.",
        "3*4=<<3*4=12>>12.",
        "13+12=<<13+12=25>>25.",
    )
    assert kinds(solution) == ["calculation", "consequence", None, "consequence"]
    assert solution.answer == "25"


def test_a_dropped_step_makes_the_next_that_needs_it_wrong():
    solution = solve_with_slips(SHELLS, [Slip(1, None, "dropped")])
    assert solution.steps[1:] == ("3*4=<<3*4=12>>12.", "60+12=<<60+12=72>>72.")
    assert kinds(solution) == [None, None, "dropped"]


def test_a_slip_that_is_noticed_is_set_right_and_worked_on_from():
    slip = Slip(0, SHELLS.operations[0], "calculation", result=whole(65), noticed_after=1)
    solution = solve_with_slips(SHELLS, [slip])
    assert solution.steps[:4] == (
        "48+12=<<48+12=65>>65.",
        "65/5=<<65/5=13>>13.",
        "Check: 48+12=<<48+12=60>>60, not 65.",
        "60/5=<<60/5=12>>12.",
    )
    assert kinds(solution) == ["calculation", "consequence", None, None, None, None]
    assert [step.is_sound for step in solution.written] == [False, False, True, True, True, True]
    assert solution.answer == SHELLS.answer


def test_noticing_a_slip_undoes_a_later_one_that_stands_on_it():
    slips = [
        Slip(0, SHELLS.operations[0], "calculation", result=whole(65), noticed_after=1),
        Slip(1, SHELLS.operations[1], "calculation", result=whole(14)),
    ]
    assert solve_with_slips(SHELLS, slips).answer == SHELLS.answer


def test_a_wrong_aside_leaves_the_answer_right():
    aside = Aside(1, Operation(whole(12), "*", whole(5), ASIDES["GSM8K"]), result=whole(70))
    solution = solve_with_slips(SHELLS, asides=[aside])
    assert solution.steps[1] == "By the way, 12*5=<<12*5=70>>70."
    assert kinds(solution) == [None, "aside", None, None, None]
    assert all(step.is_sound for step in solution.written)
    assert solution.answer == SHELLS.answer


def test_the_last_step_cannot_be_dropped():
    with pytest.raises(ImpossibleSlip):
        draw_slip(SHELLS, "dropped", 3, random.Random(0))
