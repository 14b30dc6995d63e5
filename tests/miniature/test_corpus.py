"""Training documents: kept apart from the world, and of the kinds that scoring meets."""

from itertools import islice

from hypothesis import given
from sample_problems import generators, problems

from cpmi_dagster.miniature.held_out import is_held_out
from cpmi_dagster.trajectories.templates import render_context, render_question
from scripts.miniature_models.corpus import (
    SHARES,
    Document,
    documents,
    full_solution,
    inline_answer,
    multiple_choice,
    recovered_solution,
    wrong_solution,
)


def test_the_stream_is_decided_by_its_seed():
    assert list(islice(documents(5), 20)) == list(islice(documents(5), 20))
    assert list(islice(documents(5), 20)) != list(islice(documents(6), 20))


def test_no_training_question_is_held_out():
    for document in islice(documents(7), 200):
        question = document.prompt.split("Problem:\n")[1].split("\nSolution")[0].split("\n(A)")[0]
        assert not is_held_out(question)


def test_shares_add_up():
    assert abs(sum(share for _kind, share in SHARES) - 1) < 1e-9


@given(problems, generators)
def test_a_full_document_is_the_labelers_context_and_the_answer(problem, rng):
    document = full_solution(problem, rng)
    steps = document.continuation.splitlines()[:-1]
    contexts = {render_context(problem.question, steps, template) for template in range(4)}
    assert document.prompt + "".join(f"{step}\n" for step in steps) in contexts
    assert document.continuation.endswith(f"\nThe answer is: {problem.answer}\n")


def last_line(document: Document) -> str:
    return document.continuation.splitlines()[-1]


@given(problems, generators)
def test_slips_that_are_noticed_leave_the_answer_right(problem, rng):
    for kind in (inline_answer, recovered_solution):
        assert last_line(kind(problem, rng)) == f"The answer is: {problem.answer}"


@given(problems, generators)
def test_early_answers_are_the_documents_own_after_every_prefix_and_one_step(problem, rng):
    for kind in (full_solution, recovered_solution, wrong_solution):
        document = kind(problem, rng)
        *steps, _last = document.continuation.splitlines(keepends=True)
        assert [early.steps for early in document.early[:-1]] == [tuple(steps[:count]) for count in range(len(steps))]
        assert document.early[-1].steps[0] in steps
        assert {f"The answer is: {early.answer}" for early in document.early} == {last_line(document)}


@given(problems, generators)
def test_wrong_documents_end_in_a_wrong_answer(problem, rng):
    assert last_line(wrong_solution(problem, rng)) != f"The answer is: {problem.answer}"


@given(problems, generators)
def test_multiple_choice_ends_in_the_letter_of_the_answer(problem, rng):
    document = multiple_choice(problem, rng)
    letter = last_line(document).removeprefix("The answer is: ")
    assert f"\n({letter}) {problem.answer}\n" in document.prompt
    assert any(render_question("", template)[:40] == document.prompt[:40] for template in range(4))
