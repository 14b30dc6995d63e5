"""Which contexts a conditioning compares, and which must be scored for it."""

import pytest

from cpmi_dagster.contracts.contexts import Context, contexts_of, contrast


@pytest.mark.parametrize(
    ("conditioning", "step", "with_step", "without_step"),
    [
        ("marginal", 0, ("step", 0), ("question", -1)),
        ("marginal", 2, ("step", 2), ("question", -1)),
        ("incremental", 0, ("prefix", 0), ("question", -1)),
        ("incremental", 2, ("prefix", 2), ("prefix", 1)),
        ("prefix", 2, ("prefix", 2), ("question", -1)),
        ("leave_one_out", 0, ("prefix", 2), ("all_but", 0)),
        ("leave_one_out", 2, ("prefix", 2), ("all_but", 2)),
    ],
)
def test_contrasts_are_those_of_the_method_table(conditioning, step, with_step, without_step):
    assert contrast(conditioning, step, last=2) == (with_step, without_step)


def test_steps_before_the_answer_follow_from_the_context():
    assert Context("question", -1).steps(3) == []
    assert Context("prefix", 1).steps(3) == [0, 1]
    assert Context("step", 1).steps(3) == [1]
    assert Context("all_but", 1).steps(3) == [0, 2]


@pytest.mark.parametrize(
    ("conditionings", "needed"),
    [
        (["marginal"], ["question-1", "step0", "step1"]),
        (["incremental"], ["question-1", "prefix0", "prefix1"]),
        (["prefix"], ["question-1", "prefix0", "prefix1"]),
        (["marginal", "incremental", "prefix"], ["question-1", "prefix0", "prefix1", "step0", "step1"]),
        (["leave_one_out"], ["prefix1", "all_but0", "all_but1"]),
    ],
)
def test_only_the_needed_contexts_are_asked_for(conditionings, needed):
    assert [f"{kind}{step}" for kind, step in contexts_of(conditionings, 2)] == needed
