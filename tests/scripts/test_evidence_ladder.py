"""The ladder's table: the primary question first, pairs over the same steps, a rung against itself no different."""

import pytest

from scripts.evidence_ladder import answers, rung_of

pytestmark = pytest.mark.whole_run


@pytest.fixture
def rung(finished):
    return rung_of(finished)


def test_every_question_that_a_home_can_answer_has_a_row(rung):
    questions = [answer.question for answer in answers([rung, rung._replace(name="larger")])]
    assert questions[0] == "(a) CPMI (incremental), best free label"
    assert {question[:3] for question in questions} == {"(a)", "(b)", "(c)", "(d)"}
    assert len(questions) == len(set(questions))


def test_two_homes_with_the_same_labels_do_not_differ(rung):
    found = {answer.question: answer for answer in answers([rung, rung._replace(name="larger")])}
    apart = found[f"(c) larger, {rung.name}"].apart
    assert (apart.value, apart.low, apart.high, apart.p_value) == (0, 0, 0, 1)


def test_the_best_free_label_is_the_best_of_a_home(rung):
    first = next(answers([rung]))
    assert first.apart.value == pytest.approx(first.ours.value - first.other.value)
    assert first.ours.n == first.other.n
