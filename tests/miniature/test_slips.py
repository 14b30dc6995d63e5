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
    ImpossibleSlip,
    Slip,
    SlipKind,
    draw_slip,
    make_mistake,
    solve_with_slip,
)
from cpmi_dagster.miniature.solutions import solve

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
def test_the_answer_is_wrong_exactly_when_a_step_is(problem: Problem, rng: random.Random) -> None:
    mistake = make_mistake(problem, rng)
    assert mistake.answer != problem.answer
    assert False in mistake.correct
    assert not mistake.correct[-1]
    assert len(mistake.steps) == len(mistake.correct)


@given(problems, generators)
def test_every_step_before_the_first_error_is_right(problem: Problem, rng: random.Random) -> None:
    mistake = make_mistake(problem, rng)
    assert all(mistake.correct[: mistake.first_error])
    assert not mistake.correct[mistake.first_error]


@given(problems, generators, st.sampled_from(SLIP_KINDS), st.data())
def test_a_slip_is_where_it_was_put(problem: Problem, rng: random.Random, kind: SlipKind, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(problem.operations) - 1))
    try:
        solution = solve_with_slip(problem, draw_slip(problem, kind, index, rng))
    except (ImpossibleSlip, UndefinedResult):
        assume(False)
        return
    if kind == "dropped":
        assert solution.first_error >= index
        assert len(solution.steps) == len(problem.operations) - 1
    else:
        assert solution.first_error == index
    assert solution.steps[:index] == solve(problem).steps[:index]


def test_a_wrong_result_is_carried_on() -> None:
    solution = solve_with_slip(SHELLS, Slip(0, SHELLS.operations[0], result=whole(65)))
    assert solution.steps == (
        "48+12=<<48+12=65>>65.",
        "65/5=<<65/5=13>>13.",
        "3*4=<<3*4=12>>12.",
        "13+12=<<13+12=25>>25.",
    )
    assert solution.correct == (False, False, True, False)
    assert solution.answer == "25"


def test_a_dropped_step_makes_the_next_that_needs_it_wrong() -> None:
    solution = solve_with_slip(SHELLS, Slip(1, operation=None))
    assert solution.steps[1:] == ("3*4=<<3*4=12>>12.", "60+12=<<60+12=72>>72.")
    assert solution.correct == (True, True, False)


def test_the_last_step_cannot_be_dropped() -> None:
    with pytest.raises(ImpossibleSlip):
        draw_slip(SHELLS, "dropped", 3, random.Random(0))
