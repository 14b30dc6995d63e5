"""ProcessBench, PRMBench and question-set rows."""

import random

import pytest
from hypothesis import given
from sample_problems import generators, problems

from cpmi_dagster.miniature.plans import Problem
from cpmi_dagster.miniature.prmbench_rows import MODIFIERS, prmbench_row
from cpmi_dagster.miniature.processbench_rows import processbench_row
from cpmi_dagster.miniature.question_rows import gsm8k_row, math_row, mmlu_stem_row


@given(problems, generators)
def test_a_processbench_label_is_minus_one_exactly_when_the_answer_is_right(
    problem: Problem, rng: random.Random
) -> None:
    for number in (0, 1):
        row = processbench_row("gsm8k", number, problem, rng)
        assert row["final_answer_correct"] == (row["label"] == -1) == (number == 1)
        assert (f"boxed{{{problem.answer}}}" in str(row["steps"]).replace("\\\\", "\\")) == (number == 1)


@pytest.mark.parametrize("classification", MODIFIERS)
@given(problem=problems, rng=generators)
def test_prmbench_error_steps_count_from_one_and_exist(
    classification: str, problem: Problem, rng: random.Random
) -> None:
    row = prmbench_row(classification, 0, problem, rng)
    steps, errors = row["modified_process"], row["error_steps"]
    assert isinstance(steps, list)
    assert isinstance(errors, list)
    assert steps != row["original_process"]
    assert all(1 <= number <= len(steps) for number in errors)
    assert bool(errors) == (classification != "multi_solutions")
    assert (row["modified_question"] != problem.question) == (classification == "missing_condition")


@given(problems, generators)
def test_choices_are_different_and_one_is_right(problem: Problem, rng: random.Random) -> None:
    row = mmlu_stem_row(problem, rng)
    choices = row["choices"]
    assert isinstance(choices, list)
    assert len(set(choices)) == 4
    assert choices[int(str(row["answer"]))] == problem.answer


@given(problems)
def test_references_end_in_the_gold_answer(problem: Problem) -> None:
    assert str(gsm8k_row(problem)["answer"]).endswith(f"\n#### {problem.answer}")
    assert str(math_row(problem)["solution"]).endswith(rf"$\boxed{{{problem.answer}}}$.")
