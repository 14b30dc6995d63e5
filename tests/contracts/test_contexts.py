"""Which contexts a conditioning compares, and which must be scored for it."""

import pytest

from cpmi_dagster.contracts.contexts import Context, contexts_of, contrast


@pytest.mark.parametrize(
    ("conditioning", "step", "with_step", "without_step"),
    [
        ("marginal", 2, ("step", 2), ("question", -1)),
        ("incremental", 0, ("prefix", 0), ("question", -1)),
        ("incremental", 2, ("prefix", 2), ("prefix", 1)),
        ("prefix", 2, ("prefix", 2), ("question", -1)),
        ("leave_one_out", 0, ("prefix", 2), ("all_but", 0)),
    ],
)
def test_contrasts_are_those_of_the_method_table(conditioning, step, with_step, without_step):
    assert contrast(conditioning, step, last=2) == (with_step, without_step)
    assert set(contexts_of([conditioning], 3)) == {
        context for index in range(3) for context in contrast(conditioning, index, last=2)
    }


def test_steps_before_the_answer_follow_from_the_context():
    contexts = [Context("question", -1), Context("prefix", 1), Context("step", 1), Context("all_but", 1)]
    assert [context.steps(3) for context in contexts] == [[], [0, 1], [1], [0, 2]]
