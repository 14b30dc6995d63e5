"""Packed token trees, single sequences and transformers on the whole text give the same log-probabilities."""

import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scoring_examples import (
    KEY,
    NEGATIVES,
    TRAJECTORIES,
    assert_same_values,
    frame_of,
    negatives_of,
    random_model,
    scored,
)

from cpmi_dagster.contracts.tables import AnswerLogprobs, ControlLogprobs
from cpmi_dagster.scoring.logprobs import control_logprobs
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.trajectories.templates import render_question
from cpmi_dagster.tree_forward import next_tokens


@pytest.mark.parametrize("bos", [False, True])
def test_a_value_is_what_transformers_says_of_the_whole_text(bos):
    model, question, steps = random_model("llama", bos=bos), "Ana has 48 shells.", ["48 / 2 = 24", "48 + 24 = 72"]
    frame, negatives = frame_of([("t", "q", question, steps, "72")]), negatives_of({"t": ["24"]})
    paper, released = (scored(model, frame, negatives, templates=2, layout=name) for name in ("paper", "released"))
    surprisal = control_logprobs(frame, model, Scoring(templates=2))
    asked, numbered = (
        render_question(question, 1),
        [f"Step {number}: {step}\n\n" for number, step in enumerate(steps, 1)],
    )
    assert ControlLogprobs.is_valid(surprisal.logprobs) and surprisal.logprobs.height == 2 * len(steps)
    for found, step_index, rank, before, target in (
        (paper, 1, 1, f"{asked}{steps[0]}\n{steps[1]}\n", "The answer is: 24"),
        (released, 1, 0, asked.rstrip("\n") + "\n\n" + "".join(numbered), "72"),
        (surprisal, 0, 0, f"{asked}{steps[0]}\n", f"{steps[1]}\n"),
    ):
        ids = model.tokenizer(before + target, return_tensors="pt")["input_ids"]
        tokens = ids[0, -len(model.tokenizer.encode(target, add_special_tokens=False)) :]
        with torch.no_grad():
            logprobs = model.model(ids).logits[0, -len(tokens) - 1 : -1].log_softmax(-1)
        expected = logprobs[torch.arange(len(tokens)), tokens].sum().item()
        row = found.logprobs.filter(template=1, context="prefix", step_index=step_index, answer_rank=rank)
        assert row.select("logprob_sum", "token_count").rows() == [(pytest.approx(expected, abs=1e-4), len(tokens))]


@pytest.mark.parametrize(
    ("row_tokens", "slice_bytes"), [(16, next_tokens.SLICE_BYTES), (300, 4 * 400 * 3), (8192, next_tokens.SLICE_BYTES)]
)
def test_neither_packing_nor_order_nor_slices_of_the_vocabulary_change_a_value(row_tokens, slice_bytes, monkeypatch):
    model = random_model("qwen3")
    alone = [scored(model, TRAJECTORIES[row], row_tokens=1024).logprobs for row in range(TRAJECTORIES.height)]
    monkeypatch.setattr(next_tokens, "SLICE_BYTES", slice_bytes)
    together = scored(model, TRAJECTORIES.reverse(), NEGATIVES.reverse(), row_tokens=row_tokens)
    assert AnswerLogprobs.is_valid(together.logprobs) and together.rejected.is_empty()
    assert_same_values(together.logprobs, pl.concat(alone).sort(KEY))


texts = st.text(alphabet="1 2=\n", max_size=6)
answers = st.text(alphabet="12", min_size=1, max_size=3)
solutions = st.tuples(
    st.sampled_from(["q", "Q 1"]),
    st.lists(texts, min_size=1, max_size=4),
    answers,
    st.lists(answers, min_size=1, max_size=3),
)


@given(st.lists(solutions, min_size=1, max_size=3), st.sampled_from([16, 256, 4096]))
@settings(max_examples=15, deadline=None)
def test_trees_and_single_sequences_agree_on_any_text(drawn, row_tokens):
    """Few letters, so that steps repeat and answers begin with one another."""
    rows = [(f"t{number}", question, question, steps, gold) for number, (question, steps, gold, _) in enumerate(drawn)]
    negatives = negatives_of({f"t{number}": listed for number, (*_, listed) in enumerate(drawn)})
    tree, single = (
        scored(random_model("qwen3"), frame_of(rows), negatives, row_tokens=row_tokens, scorer=scorer).logprobs
        for scorer in ("tree", "reference")
    )
    assert_same_values(tree, single)
