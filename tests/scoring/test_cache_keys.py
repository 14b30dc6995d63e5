"""The keys are those of the answers, and texts alone decide their hashes."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scoring_examples import ALL_CONDITIONINGS, KEY, NEGATIVES, TRAJECTORIES, frame_of, negatives_of, random_model

from cpmi_dagster.contracts.contexts import Context
from cpmi_dagster.scoring.cache_keys import logprob_keys
from cpmi_dagster.scoring.logprobs import answer_logprobs, control_logprobs
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.scoring.tokenization import join_negatives, render_trajectories
from cpmi_dagster.trajectories.templates import render_question

STEPS = st.lists(st.sampled_from(["a", "b", "1 + 1 = 2", "a\n1", "é"]), min_size=1, max_size=4)
EVERYTHING = Scoring(templates=2, conditionings=ALL_CONDITIONINGS)


def keys_of(frame: pl.DataFrame, negatives: pl.DataFrame, *how) -> pl.DataFrame:
    rendered, _ = render_trajectories(join_negatives(frame, negatives), *how)
    return logprob_keys(rendered)


def step_keys(frame: pl.DataFrame, scoring: Scoring) -> pl.DataFrame:
    return keys_of(frame, NEGATIVES.clear(), scoring, False, True)


@pytest.mark.parametrize("with_negatives", [True, False])
@pytest.mark.parametrize("layout", ["paper", "released"])
def test_the_keys_are_the_rows_of_the_answers(with_negatives, layout):
    incomplete = frame_of([("t5", "q1", "Q?", ["a"], "1"), ("t6", "q1", "Q?", ["a"], None)])
    frame = pl.concat([TRAJECTORIES, incomplete if with_negatives else incomplete[1:]])
    scoring = EVERYTHING.model_copy(update={"layout": layout})
    negatives = NEGATIVES if with_negatives else NEGATIVES.clear()
    answers = answer_logprobs(frame, negatives, random_model("qwen3"), scoring, with_negatives=with_negatives).logprobs
    assert keys_of(frame, negatives, scoring, with_negatives).select(KEY).equals(answers.select(KEY))


def test_the_keys_of_steps_are_the_rows_of_their_answers():
    frame = TRAJECTORIES.filter(pl.col("trajectory_id") != "t4")
    answers = control_logprobs(frame, random_model("qwen3"), EVERYTHING).logprobs
    assert step_keys(frame, EVERYTHING).select(KEY).equals(answers.select(KEY))


@settings(max_examples=50, deadline=None)
@given(first=STEPS, second=STEPS)
def test_equal_texts_of_two_trajectories_have_equal_hashes_and_others_have_others(first, second):
    frame = frame_of([("t1", "q", "How many?", first, "2"), ("t2", "q", "How many?", second, "2")])
    rows = keys_of(frame, negatives_of({"t1": ["3"], "t2": ["3"]}), EVERYTHING)
    steps, prompts = {"t1": first, "t2": second}, {}
    for name, template, kind, step, _, prompt in rows.drop("answer", "work").iter_rows():
        texts = tuple(steps[name][index].strip() for index in Context(kind, step).steps(len(steps[name])))
        prompts.setdefault((template, texts), set()).add(prompt)
    assert all(len(hashes) == 1 for hashes in prompts.values())
    assert len(set.union(*prompts.values())) == len(prompts)


def test_the_work_of_a_row_is_its_answer_and_a_share_of_what_its_context_adds():
    frame = frame_of([("t1", "q", "How many?", ["ab", "cde"], "2")])
    one = Scoring(templates=1, conditionings=("marginal", "incremental"))
    question, ab, cde = len(render_question("How many?")), len("ab\n"), len("cde\n")
    rows, answers = (
        keys_of(frame, negatives_of({"t1": ["345"]}), one),
        len("The answer is: 2" + "The answer is: 345"),
    )
    # after nothing, each step alone, and both
    assert rows["work"].sum() == question + (ab + cde) + (ab + cde) + 5 * answers
    assert step_keys(frame, one)["work"].sum() == question + ab + cde
