"""Math-Shepherd rows: their form, their labels' noise, their order, the irregular ones."""

import random
from typing import get_args

import pytest
from hypothesis import given
from sample_problems import generators, problem_from, problems

from cpmi_dagster.miniature.shepherd import (
    Attempt,
    all_attempts,
    attempt,
    attempts,
    irregular_rows,
    shepherd_files,
    shepherd_row,
)
from cpmi_dagster.miniature.solutions import ErrorKind

PROBLEMS = [problem_from(seed) for seed in range(40)]


@pytest.fixture(scope="module")
def found() -> list[Attempt]:
    return all_attempts(PROBLEMS, too_hard=4, count=5, rng=random.Random(0))


@given(problems, generators)
def test_input_and_label_differ_in_their_marks_only_and_the_last_is_whether_the_answer_is_right(problem, rng):
    one = attempt(problem, 0.8, rng)
    assert one.labels[-1] == (one.solution.answer == problem.answer) == one.is_right
    row = shepherd_row(one, problem.question)
    lines = str(row["label"]).split("\n")
    assert [line[-1] == "+" for line in lines] == list(one.labels)
    assert "\n".join(line[:-1] + "ки" for line in lines) == row["input"]
    assert str(row["input"]).startswith(f"{problem.question} Step 1: ")
    assert str(row["input"]).endswith(f" The answer is: {one.solution.answer} ки")


@given(problems, generators)
def test_attempts_at_a_question_differ(problem, rng):
    assert len({one.solution.steps for one in attempts(problem, 4, 0.5, rng)}) == 4


def test_attempts_have_slips_and_noise_of_every_kind(found):
    kinds = {is_right: set() for is_right in (True, False)}
    for one in found:
        kinds[one.is_right] |= {step.kind for step in one.solution.written}
    assert kinds[True] == {None, "calculation", "operand", "operator", "consequence", "aside"}
    assert kinds[False] == {None, *get_args(ErrorKind)}
    pairs = {pair for one in found for pair in zip(one.labels, one.solution.correct, strict=True)}
    assert pairs == {(True, True), (True, False), (False, True), (False, False)}
    assert {frozenset(one.labels) for one in found} == {frozenset({True}), frozenset({False}), frozenset({True, False})}


def test_some_questions_are_too_hard_and_rows_stand_in_blocks(found):
    hopeless = [problem for problem in PROBLEMS if not any(any(one.labels) for one in found if one.problem is problem)]
    assert len(hopeless) >= 4
    blocks = [(one.problem.task, one.is_right) for one in found]
    assert blocks == sorted(blocks)


def test_truth_points_at_the_regular_rows(found):
    rows, truths = shepherd_files(found, random.Random(1))
    assert len(rows) == len(found) + len(irregular_rows())
    for one, truth in zip(found, truths, strict=True):
        assert truth["correct"] == list(one.solution.correct)
        assert truth["correct"] == [kind is None for kind in truth["kind"]]
        assert str(rows[int(str(truth["row_number"]))]["input"]).count("ки") == len(one.solution.steps)
