"""What is asked is what is answered, and texts alone decide its hashes."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scoring_examples import ALL_CONDITIONINGS, KEY, NEGATIVES, TRAJECTORIES, frame_of, negatives_of, random_model

from cpmi_dagster.contracts.contexts import Context
from cpmi_dagster.contracts.seeded import text_hash
from cpmi_dagster.scoring.logprobs import answer_logprobs, control_logprobs
from cpmi_dagster.scoring.questions import answer_questions, step_questions, trajectory_questions
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.trajectories.templates import render_question, render_step, render_target

STEPS = st.lists(st.sampled_from(["a", "b", "1 + 1 = 2", "a\n1", "é"]), min_size=1, max_size=4)
EVERYTHING = Scoring(templates=2, conditionings=ALL_CONDITIONINGS)


@pytest.mark.parametrize("contrasted", [True, False])
@pytest.mark.parametrize("layout", ["paper", "released"])
def test_the_questions_are_the_rows_of_the_answers(contrasted, layout):
    incomplete = frame_of([("t5", "q1", "Q?", ["a"], "1"), ("t6", "q1", "Q?", [], "1")])
    frame = pl.concat([TRAJECTORIES, incomplete if contrasted else incomplete[1:]])
    scoring = EVERYTHING.model_copy(update={"layout": layout})
    negatives = NEGATIVES if contrasted else NEGATIVES.clear()
    answers = answer_logprobs(frame, negatives, random_model("qwen3"), scoring, contrasted=contrasted).logprobs
    assert answer_questions(frame, negatives, scoring, contrasted).select(KEY).equals(answers.select(KEY))


def test_the_questions_of_steps_are_the_rows_of_their_answers():
    frame = TRAJECTORIES.filter(pl.col("trajectory_id") != "t4")
    questions = step_questions(frame, EVERYTHING)
    assert questions.select(KEY).equals(control_logprobs(frame, random_model("qwen3"), EVERYTHING).logprobs.select(KEY))
    steps = [render_step(step) for step in ("48 / 2 = 24", "48 / 2 = 24", "Sum: 72.")]
    rows = questions.filter(trajectory_id="t1", template=1)
    assert rows["answer"].to_list() == [text_hash(step) for step in steps]
    asked = render_question(frame["question"][0], 1)
    assert rows["prompt"].to_list() == [text_hash(asked, *steps[:count]) for count in range(3)]


def test_a_prompt_is_the_question_and_the_steps_of_its_context_and_an_answer_its_target():
    frame = frame_of([("t", "q", "How many?", ["a ", "b"], "2")])
    rows = answer_questions(frame, negatives_of({"t": ["3"]}), EVERYTHING)
    row = rows.filter(context="prefix", step_index=1, template=1, answer_rank=1)
    prompt = text_hash(render_question("How many?", 1), render_step("a"), render_step("b"))
    assert row.select("prompt", "answer").rows() == [(prompt, text_hash(render_target("3")))]


@settings(max_examples=50, deadline=None)
@given(first=STEPS, second=STEPS)
def test_equal_texts_of_two_trajectories_have_equal_hashes_and_others_have_others(first, second):
    frame = frame_of([("t1", "q", "How many?", first, "2"), ("t2", "q", "How many?", second, "2")])
    rows = answer_questions(frame, negatives_of({"t1": ["3"], "t2": ["3"]}), EVERYTHING)
    steps, prompts = {"t1": first, "t2": second}, {}
    for name, template, kind, step, _, prompt, _ in rows.iter_rows():
        texts = tuple(steps[name][index].strip() for index in Context(kind, step).steps(len(steps[name])))
        prompts.setdefault((template, texts), set()).add(prompt)
    assert all(len(hashes) == 1 for hashes in prompts.values())
    assert len(set.union(*prompts.values())) == len(prompts)


def test_a_whole_trajectory_has_a_hash_of_all_its_texts_complete_or_not():
    good = ("q", "How many?", ["a", "b"], "2")
    rows = [
        ("same", *good), ("again", *good), ("joined", "q", "How many?", ["a\nb"], "2"),
        ("null", "q", "How many?", ["a", None], "2"), ("empty", "q", "How many?", ["a", ""], "2"),
        ("bare", "q", "How many?", [], "2"), ("gold", "q", "How many?", ["a", "b"], "3"), ("fewer", *good),
    ]  # fmt: skip
    negatives = negatives_of({name: ["3", "4"] for name, *_ in rows} | {"fewer": ["3"]})
    first, second, *others = trajectory_questions(frame_of(rows), negatives, Scoring())["whole"]
    assert first == second
    assert len({first, *others}) == len(others) + 1
    assert first not in trajectory_questions(frame_of(rows), negatives, Scoring(layout="released"))["whole"]
