"""What the labeler reads for step surprisal: steps scored as answers are."""

import polars as pl
import pytest
import torch

from cpmi_dagster.contracts.contexts import QUESTION, Context
from cpmi_dagster.contracts.tables import AnswerLogprobs, ControlLogprobs, HardNegatives
from cpmi_dagster.scoring.logprobs import answer_logprobs, control_logprobs
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.trajectories.templates import render_question, render_step

POOL = pl.DataFrame(
    {
        "trajectory_id": ["t1", "t2", "t3", "t4"],
        "question": ["How many?", "How many?", "How far?", "How much?"],
        "steps": [["a", "b", "c"], ["d"], ["e", "f"], ["g", "h", "i", "j"]],
        "gold_answer": ["1", "1", "1", "4"],
    }
)
SCORING = Scoring(templates=2, conditionings=("marginal",))


def test_a_steps_surprisal_is_that_of_transformers_on_the_whole_text(qwen3):
    rows = control_logprobs(POOL, qwen3, SCORING).logprobs
    rows = rows.filter(trajectory_id="t4", template=1, context="prefix")
    before = "".join([render_question("How much?", 1), *map(render_step, ["g", "h"])])
    target = render_step("i")
    start = qwen3.tokenizer(before, add_special_tokens=False)["input_ids"]
    step = qwen3.tokenizer(target, add_special_tokens=False)["input_ids"]
    with torch.inference_mode():
        logits = qwen3.model(input_ids=torch.tensor([start + step])).logits[0].log_softmax(-1)
    expected = sum(float(logits[len(start) + place - 1, token]) for place, token in enumerate(step))
    row = rows.row(by_predicate=pl.col("step_index") == 1, named=True)
    assert (row["logprob_sum"], row["token_count"]) == (pytest.approx(expected, abs=1e-4), len(step))


def test_trees_and_single_sequences_agree_and_every_step_is_there_once(qwen3):
    tree, single = (
        control_logprobs(POOL, qwen3, SCORING.model_copy(update={"scorer": scorer})).logprobs
        for scorer in ("tree", "reference")
    )
    ControlLogprobs.validate(tree)
    assert tree.height == 2 * POOL["steps"].list.len().sum()
    keys = ControlLogprobs.primary_key()
    assert tree.select(keys).equals(single.select(keys))
    assert (tree["logprob_sum"] - single["logprob_sum"]).abs().max() < 1e-4


def test_only_the_steps_that_are_wanted_are_scored(qwen3):
    wanted = {"t1": frozenset({(1, QUESTION, 0), (1, Context("prefix", 1), 0)}), "t4": frozenset({(0, QUESTION, 0)})}
    rows = answer_logprobs(POOL, HardNegatives.create_empty(), qwen3, SCORING, wanted=wanted, of_steps=True).logprobs
    assert rows.select("trajectory_id", "template", "context", "step_index").rows() == [
        ("t1", 1, "question", -1),
        ("t1", 1, "prefix", 1),
        ("t4", 0, "question", -1),
    ]
    every = control_logprobs(POOL, qwen3, SCORING).logprobs
    both = rows.join(every, on=AnswerLogprobs.primary_key(), suffix="_of_all")
    assert (both["logprob_sum"] - both["logprob_sum_of_all"]).abs().max() < 1e-4
