"""What the labeler reads for controls: steps scored as answers are, and parts exchanged between questions."""

import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scoring_examples import negatives_of

from cpmi_dagster.contracts.contexts import SCORED_CONTROLS
from cpmi_dagster.contracts.tables import AnswerLogprobs, ControlLogprobs
from cpmi_dagster.scoring.controls import control_logprobs, with_other_gold, with_other_steps
from cpmi_dagster.scoring.logprobs import answer_logprobs
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.trajectories.templates import render_question, render_step

POOL = pl.DataFrame(
    {
        "trajectory_id": ["t1", "t2", "t3", "t4"],
        "question_id": ["q1", "q1", "q2", "q3"],
        "question": ["How many?", "How many?", "How far?", "How much?"],
        "steps": [["a", "b", "c"], ["d"], ["e", "f"], ["g", "h", "i", "j"]],
        "gold_answer": ["1", "1", "1", "4"],
    }
)
NEGATIVES = negatives_of({"t1": ["2", "3"], "t2": ["2"], "t3": ["5"], "t4": ["6"]})
BY_CONTROL = {
    "other_step": NEGATIVES,
    "question_negatives": negatives_of({name: ["7"] for name in POOL["trajectory_id"]}),
}
SCORING = Scoring(templates=2, conditionings=("marginal",))


def controls_of(model, names=SCORED_CONTROLS, trajectories=POOL, scorer="tree"):
    scoring = SCORING.model_copy(update={"scorer": scorer})
    return control_logprobs(trajectories, POOL, BY_CONTROL, model, scoring, names, seed=0)


def test_a_steps_surprisal_is_that_of_transformers_on_the_whole_text(qwen3):
    rows = controls_of(qwen3, ["step_surprisal"]).logprobs.filter(trajectory_id="t4", template=1, context="prefix")
    before = "".join([render_question("How much?", 1), *map(render_step, ["g", "h"])])
    target = render_step("i")
    start = qwen3.tokenizer(before, add_special_tokens=False)["input_ids"]
    step = qwen3.tokenizer(target, add_special_tokens=False)["input_ids"]
    with torch.inference_mode():
        logits = qwen3.model(input_ids=torch.tensor([start + step])).logits[0].log_softmax(-1)
    expected = sum(float(logits[len(start) + place - 1, token]) for place, token in enumerate(step))
    row = rows.row(by_predicate=pl.col("step_index") == 1, named=True)
    assert (row["logprob_sum"], row["token_count"]) == (pytest.approx(expected, abs=1e-4), len(step))


def test_a_verdict_is_that_of_transformers_on_the_question_that_a_judge_is_asked(qwen3):
    rows = controls_of(qwen3, ["judge_token"]).logprobs.filter(trajectory_id="t4", context="prefix", step_index=1)
    asked = "Check the solution of a math problem, step by step.\n\nProblem:\nHow much?\nSolution:\ng\nh\n"
    start = qwen3.tokenizer(asked, add_special_tokens=False)["input_ids"]
    for rank, verdict in enumerate(("correct", "incorrect")):
        said = f"Is the last step correct or incorrect? It is {verdict}"
        target = qwen3.tokenizer(said, add_special_tokens=False)["input_ids"]
        with torch.inference_mode():
            logits = qwen3.model(input_ids=torch.tensor([start + target])).logits[0].log_softmax(-1)
        expected = sum(float(logits[len(start) + place - 1, token]) for place, token in enumerate(target))
        assert rows.filter(answer_rank=rank)["logprob_sum"].item() == pytest.approx(expected, abs=1e-4)


def test_draws_after_the_cue_are_expected_under_the_models_own_and_a_uniform_distribution(qwen3):
    rows = controls_of(qwen3, ["answer_distribution"]).logprobs
    sums = rows.filter(trajectory_id="t4", template=1, context="prefix", step_index=1).sort("answer_rank")
    text = "".join([render_question("How much?", 1), *map(render_step, ["g", "h"]), "The answer is: "])
    with torch.inference_mode():
        logits = qwen3.model(**qwen3.tokenizer(text, add_special_tokens=False, return_tensors="pt")).logits[0, -1]
    cue, own, uniform = sums["logprob_sum"]
    assert own - cue == pytest.approx(-torch.distributions.Categorical(logits=logits).entropy().item(), abs=1e-4)
    assert uniform - cue == pytest.approx(logits.log_softmax(-1).mean().item(), abs=1e-4)


def test_trees_and_single_sequences_agree_on_every_control(qwen3):
    tree, single = (controls_of(qwen3, scorer=scorer).logprobs for scorer in ("tree", "reference"))
    keys = ControlLogprobs.primary_key()
    assert tree.select(keys).equals(single.select(keys))
    assert (tree["logprob_sum"] - single["logprob_sum"]).abs().max() < 1e-4


def test_every_control_has_its_rows_and_nothing_else(qwen3):
    made = controls_of(qwen3)
    ControlLogprobs.validate(made.logprobs)
    counts = dict(made.logprobs.group_by("control").len().iter_rows())
    steps = POOL["steps"].list.len().sum()
    contexts = steps + POOL.height
    of_answers = {"other_gold": contexts, "other_step": 2 * contexts + 4, "question_negatives": 2 * contexts}
    by_template = {name: 2 * count for name, count in {"step_surprisal": steps, **of_answers}.items()}
    drawn = 3 * 2 * contexts  # before an answer, and two draws
    # correct and incorrect, in one wording
    assert counts == {**by_template, "judge_token": 2 * contexts, "answer_distribution": drawn}
    assert made.notes == []


def test_answers_with_other_negatives_are_scored_as_all_answers_are(qwen3):
    made = controls_of(qwen3, ["question_negatives"]).logprobs.drop("control")
    answers = answer_logprobs(POOL, BY_CONTROL["question_negatives"], qwen3, SCORING).logprobs
    keys = AnswerLogprobs.primary_key()
    assert made.select(keys).equals(answers.select(keys))
    assert (made["logprob_sum"] - answers["logprob_sum"]).abs().max() < 1e-4


def test_the_other_gold_answer_has_another_text_and_no_trajectory_takes_its_own():
    exchanged = with_other_gold(POOL, POOL, seed=3)
    assert exchanged["gold_answer"].to_list() == ["4", "4", "4", "1"]


def test_other_steps_are_of_another_question_and_as_many(qwen3):
    exchanged = with_other_steps(POOL, POOL, seed=0)
    owner = {step: question for question, steps in POOL["question_id", "steps"].iter_rows() for step in steps}
    for question, own, other in zip(POOL["question_id"], POOL["steps"], exchanged["steps"], strict=True):
        assert len(own) == len(other)
        assert {owner[step] for step in other} and question not in {owner[step] for step in other}


@settings(deadline=None)
@given(st.permutations(range(POOL.height)), st.integers(0, 5))
def test_what_is_exchanged_does_not_depend_on_the_order_of_rows(order, seed):
    for exchange in (with_other_gold, with_other_steps):
        straight, shuffled = (exchange(POOL, pool, seed) for pool in (POOL, POOL[list(order)]))
        assert straight.equals(shuffled)


def test_a_shard_of_one_question_has_no_other_one_and_says_so(qwen3):
    alone = POOL.filter(question_id="q1")
    made = control_logprobs(alone, alone, BY_CONTROL, qwen3, SCORING, ["other_gold", "other_step"], seed=0)
    assert made.logprobs.is_empty()
    assert "t1 has no `other_gold`: its shard has no other question to take one from" in made.notes
