"""ProcessBench, PRMBench and question-set rows."""

import random

import pytest
from hypothesis import example, given
from sample_problems import generators, problem_from, problems

from cpmi_dagster.miniature.question_rows import gsm8k_row, math_row, mmlu_stem_row
from cpmi_dagster.miniature.step_benchmarks import MODIFIERS, prmbench_row, processbench_row


@given(problems, generators)
def test_every_second_processbench_row_has_a_wrong_step(problem, rng):
    for number in (0, 1):
        row = processbench_row("gsm8k", number, problem, rng)
        assert (row["label"] == -1) == (number == 1)
        assert row["steps"][-1].endswith(f"The answer is: {problem.answer}") == row["final_answer_correct"]
        assert row["final_answer_correct"] or number == 0


@pytest.mark.parametrize("classification", MODIFIERS)
@given(problem=problems, rng=generators)
@example(problem=problem_from(279), rng=random.Random(151))  # its first remark would end in 3/16
def test_prmbench_error_steps_count_from_one_and_exist(classification, problem, rng):
    row = prmbench_row(classification, 0, problem, rng)
    steps, errors = row["modified_process"], row["error_steps"]
    assert (steps != row["original_process"]) or classification == "missing_condition"
    assert all(1 <= number <= len(steps) for number in errors)
    assert bool(errors) == (classification != "multi_solutions")
    assert (row["modified_question"] != problem.question) == (classification == "missing_condition")


@given(problems, generators)
def test_choices_are_different_and_one_is_right(problem, rng):
    row = mmlu_stem_row(problem, rng)
    assert len(set(row["choices"])) == 4
    assert row["choices"][row["answer"]] == problem.answer


@given(problems)
def test_references_end_in_the_gold_answer(problem):
    assert str(gsm8k_row(problem)["answer"]).endswith(f"\n#### {problem.answer}")
    assert str(math_row(problem)["solution"]).endswith(rf"$\boxed{{{problem.answer}}}$.")
