"""What is asked is what is answered, and texts alone decide its hashes."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scoring_examples import frame_of, negatives_of

from cpmi_dagster.contracts.contexts import CONDITIONINGS, Context
from cpmi_dagster.contracts.seeded import text_hash
from cpmi_dagster.contracts.tables import AnswerLogprobs
from cpmi_dagster.scoring.logprobs import answer_logprobs, control_logprobs
from cpmi_dagster.scoring.questions import answer_questions, step_questions, trajectory_questions
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.trajectories.templates import render_question, render_step, render_target

KEY = AnswerLogprobs.primary_key()
TEXT = st.sampled_from(["a", "b", "1 + 1 = 2", "a\n1", "é"])
STEPS = st.lists(TEXT, min_size=1, max_size=4)
ALL_OF_IT = Scoring(templates=2, conditionings=tuple(CONDITIONINGS))


def questions_of(steps: list[str], question: str = "How many?", name: str = "t", scoring: Scoring = ALL_OF_IT):
    frame = frame_of([(name, "q", question, steps, "2")])
    return answer_questions(frame, negatives_of({name: ["3"]}), scoring)


@pytest.mark.parametrize("layout", ["paper", "released"])
@pytest.mark.parametrize("contrasted", [True, False])
def test_the_questions_are_the_rows_of_the_answers(qwen3, trajectories, negatives, contrasted, layout):
    incomplete = frame_of([("t5", "q1", "Q?", ["a"], "1"), ("t6", "q1", "Q?", [], "1")])
    frame = pl.concat([trajectories, incomplete if contrasted else incomplete[1:]])
    scoring = ALL_OF_IT.model_copy(update={"layout": layout})
    given_negatives = negatives if contrasted else negatives.clear()
    answers = answer_logprobs(frame, given_negatives, qwen3, scoring, contrasted=contrasted).logprobs
    assert answer_questions(frame, given_negatives, scoring, contrasted).select(KEY).equals(answers.select(KEY))


def test_the_questions_of_steps_are_the_rows_of_their_answers(qwen3, trajectories):
    named = {"t1": [(-1, "48 / 2 = 24"), (0, "48 / 2 = 24"), (1, "Sum: 72.")]}
    frame = trajectories.filter(pl.col("steps").list.eval(pl.element().str.strip_chars() != "").list.all())
    questions = step_questions(frame, ALL_OF_IT)
    assert questions.select(KEY).equals(control_logprobs(frame, qwen3, ALL_OF_IT).logprobs.select(KEY))
    (first, *_), steps = trajectories["question"], questions.filter(trajectory_id="t1", template=1)
    assert steps.select("step_index", "answer").rows() == [(i, text_hash(render_step(s))) for i, s in named["t1"]]
    before = [render_question(first, 1), *[render_step("48 / 2 = 24")] * 2]
    assert steps["prompt"].to_list() == [text_hash(*before[:count]) for count in (1, 2, 3)]


def test_a_prompt_is_the_question_and_the_steps_of_its_context_and_an_answer_its_target():
    row = questions_of(["a ", "b"]).row(
        by_predicate=(pl.col("context") == "prefix") & (pl.col("step_index") == 1) & (pl.col("template") == 1)
        & (pl.col("answer_rank") == 1),
        named=True,
    )  # fmt: skip
    assert row["prompt"] == text_hash(render_question("How many?", 1), render_step("a"), render_step("b"))
    assert row["answer"] == text_hash(render_target("3"))


@settings(max_examples=50, deadline=None)
@given(first=STEPS, second=STEPS)
def test_equal_texts_of_two_trajectories_have_equal_hashes_and_others_have_others(first, second):
    frame = frame_of([("t1", "q", "How many?", first, "2"), ("t2", "q", "How many?", second, "2")])
    rows = answer_questions(frame, negatives_of({"t1": ["3"], "t2": ["3"]}), ALL_OF_IT)
    steps, seen = {"t1": first, "t2": second}, {}
    for name, template, kind, step, _, prompt, _ in rows.iter_rows():
        texts = tuple(steps[name][at].strip() for at in Context(kind, step).steps(len(steps[name])))
        seen.setdefault((template, texts), set()).add(prompt)
    assert all(len(prompts) == 1 for prompts in seen.values())
    assert len(set.union(*seen.values())) == len(seen)


@settings(max_examples=50, deadline=None)
@given(steps=STEPS, place=st.integers(0, 3))
def test_a_changed_step_changes_the_prompts_of_the_contexts_that_hold_it_alone(steps, place):
    place %= len(steps)
    changed = [*steps[:place], f"{steps[place]} or not", *steps[place + 1 :]]
    both = questions_of(steps).join(questions_of(changed), on=KEY, suffix="_after")
    assert both["answer"].equals(both["answer_after"], check_names=False)
    for kind, step, before, after in both.select("context", "step_index", "prompt", "prompt_after").iter_rows():
        assert (before != after) == (place in Context(kind, step).steps(len(steps)))


def test_a_whole_trajectory_has_a_number_of_its_own_complete_or_not():
    good = ("q", "How many?", ["a", "b"], "2")
    rows = [
        ("same", *good), ("again", *good), ("joined", "q", "How many?", ["a\nb"], "2"),
        ("null", "q", "How many?", ["a", None], "2"), ("empty", "q", "How many?", ["a", ""], "2"),
        ("bare", "q", "How many?", [], "2"), ("gold", "q", "How many?", ["a", "b"], "3"), ("fewer", *good),
    ]  # fmt: skip
    listed = negatives_of({name: ["3", "4"] for name, *_ in rows} | {"fewer": ["3"]})
    found = trajectory_questions(frame_of(rows), listed, Scoring())
    assert found["trajectory_id"].to_list() == [name for name, *_ in rows]
    first, second, *others = found["whole"]
    assert first == second
    assert len({first, *others}) == len(others) + 1
    assert first not in trajectory_questions(frame_of(rows), listed, Scoring(layout="released"))["whole"]
