"""Packed token trees, one sequence at a time, and transformers on the whole string give the same log-probabilities."""

import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scoring_examples import frame_of, negatives_of

from cpmi_dagster.contracts.tables import AnswerLogprobs
from cpmi_dagster.scoring.logprobs import answer_logprobs
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.trajectories.templates import render_context, render_target

ALL = ("marginal", "incremental", "prefix", "leave_one_out")
KEY = AnswerLogprobs.primary_key()
TOLERANCE = 1e-4


def scored(model, trajectories, negatives, **values):
    """Log-probabilities under one template and all conditionings, unless `values` say otherwise."""
    settings = Scoring(**{"templates": 1, "conditionings": ALL, **values})
    result = answer_logprobs(trajectories, negatives, model, settings)
    assert result.rejected.is_empty()
    return result.logprobs


def assert_same(left, right):
    assert left[[*KEY, "token_count"]].equals(right[[*KEY, "token_count"]])
    assert (left["logprob_sum"] - right["logprob_sum"]).abs().max() < TOLERANCE


@pytest.mark.parametrize(
    ("architecture", "config"),
    [("llama", {}), ("gemma2", {"sliding_window": 512, "final_logit_softcapping": 5.0}), ("gpt2", {})],
)
def test_trees_and_single_sequences_agree(build_model, trajectories, negatives, architecture, config):
    model = build_model(architecture, **config)
    tree = scored(model, trajectories, negatives)
    assert_same(tree, scored(model, trajectories, negatives, scorer="reference"))


@pytest.mark.parametrize("bos", [False, True])
def test_a_value_is_what_transformers_says_of_the_whole_string(build_model, bos):
    model = build_model("llama", bos=bos)
    question, steps = "Ana has 48 shells.", ["48 / 2 = 24", "48 + 24 = 72"]
    logprobs = scored(model, frame_of([("t", "q", question, steps, "72")]), negatives_of({"t": ["24"]}), templates=2)
    before, target = render_context(question, steps, template=1), render_target("24")
    ids = model.tokenizer(before + target, return_tensors="pt")["input_ids"]
    count = len(model.tokenizer.encode(target, add_special_tokens=False))
    with torch.no_grad():
        loss = model.model(ids, labels=torch.where(torch.arange(ids.shape[1]) < ids.shape[1] - count, -100, ids)).loss
    row = logprobs.row(by_predicate=by_key(1, "prefix", 1, 1), named=True)
    assert row["token_count"] == count
    assert row["logprob_sum"] / count == pytest.approx(-loss.item(), abs=1e-5)


def by_key(template, context, step, rank):
    return (
        (pl.col("template") == template)
        & (pl.col("context") == context)
        & (pl.col("step_index") == step)
        & (pl.col("answer_rank") == rank)
    )


@pytest.mark.parametrize("row_tokens", [16, 300, 1024, 8192])
def test_packing_does_not_change_a_value(qwen3, trajectories, negatives, row_tokens):
    alone = [scored(qwen3, trajectories[row], negatives, row_tokens=1024) for row in range(trajectories.height)]
    together = scored(qwen3, trajectories, negatives, row_tokens=row_tokens)
    assert_same(together, pl.concat(alone).sort(KEY))


def test_the_order_of_trajectories_and_negatives_does_not_change_a_value(qwen3, trajectories, negatives):
    forward = scored(qwen3, trajectories, negatives)
    assert forward.equals(scored(qwen3, trajectories.reverse(), negatives.reverse()))


# few letters, so that steps repeat and answers begin with one another
texts = st.text(alphabet="1 2=\n", max_size=6)
answers = st.text(alphabet="12", min_size=1, max_size=3)
drawn_trajectories = st.lists(
    st.tuples(
        st.sampled_from(["q", "Q 1"]),
        st.lists(texts, min_size=1, max_size=4),
        answers,
        st.lists(answers, min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=3,
)


@given(drawn_trajectories, st.sampled_from([16, 256, 4096]))
@settings(max_examples=8, deadline=None)
def test_trees_and_single_sequences_agree_on_any_text(qwen3, drawn, row_tokens):
    trajectories = frame_of(
        [(f"t{number}", question, question, steps, gold) for number, (question, steps, gold, _) in enumerate(drawn)]
    )
    negatives = negatives_of({f"t{number}": listed for number, (*_, listed) in enumerate(drawn)})
    tree = scored(qwen3, trajectories, negatives, templates=1, row_tokens=row_tokens)
    assert_same(tree, scored(qwen3, trajectories, negatives, templates=1, scorer="reference"))
