"""Every way of reading token trees gives the reference scorer's values, and a model gets one that it obeys."""

from copy import deepcopy
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scoring_examples import random_model
from torch.nn.attention.flex_attention import create_block_mask
from tree_examples import random_trees

from cpmi_dagster.errors import ModelError
from cpmi_dagster.reading import Reader, next_tokens
from cpmi_dagster.reading.blocked import blocks_of
from cpmi_dagster.reading.flex import BLOCK, block_kinds, block_mask, padded_length
from cpmi_dagster.reading.packing import lay_out, whole
from cpmi_dagster.reading.probe import READERS
from cpmi_dagster.reading.row_reader import RowReader, ancestor_mask
from cpmi_dagster.scoring.logprobs import answer_logprobs
from cpmi_dagster.scoring.scorers import labeler_reader
from cpmi_dagster.scoring.settings import Scoring


def reader_of(model, reader="auto"):
    """How a model reads trees."""
    return labeler_reader(model, Scoring(reader=reader)).rows_by


SCORING = Scoring(templates=1, conditionings=("marginal", "incremental", "prefix", "leave_one_out"), row_tokens=256)


@pytest.mark.parametrize(
    ("architecture", "config"),
    [("qwen2", {}), ("qwen3", {}), ("llama", {"bos": True}), ("mistral", {"sliding_window": None}), ("gemma", {})],
)
def test_every_reader_agrees_with_the_reference_scorer(build_model, trajectories, negatives, architecture, config):
    model = build_model(architecture, **config)
    reference = SCORING.model_copy(update={"scorer": "reference"})
    expected = answer_logprobs(trajectories, negatives, model, reference).logprobs
    for reader in READERS:
        scoring = SCORING.model_copy(update={"reader": reader})
        found = answer_logprobs(trajectories, negatives, model, scoring).logprobs
        assert reader_of(model, reader).name == reader
        assert (found["logprob_sum"] - expected["logprob_sum"]).abs().max() < 1e-4


@pytest.mark.parametrize(
    ("architecture", "config", "name"),
    [
        ("qwen3", {}, "blocked"),
        (
            "gemma2",
            {"sliding_window": 2048, "final_logit_softcapping": 5.0, "attn_logit_softcapping": None},
            "blocked",
        ),
        ("gemma2", {"sliding_window": 2048, "attn_logit_softcapping": 0.5}, "masked"),
    ],
)
def test_a_model_gets_the_first_reader_it_obeys(build_model, trajectories, negatives, architecture, config, name):
    model = build_model(architecture, **config)
    reader = reader_of(model)
    assert reader.name == name
    trees, single = (
        answer_logprobs(trajectories, negatives, model, Scoring(templates=1, scorer=scorer)).logprobs["logprob_sum"]
        for scorer in ("tree", "reference")
    )
    assert (trees - single).abs().max() < 1e-4


def test_a_reader_that_a_model_does_not_obey_is_refused_with_the_difference(qwen3, build_model):
    bloom = build_model("bloom", n_layer=2, n_head=4)
    with pytest.raises(ModelError, match=r"blocked: .*masked: .*--scorer reference"):
        reader_of(bloom)


def test_generation_keeps_its_own_attention(build_model):
    model = build_model("llama")
    before = model.model.config._attn_implementation
    reader_of(model)
    assert model.model.config._attn_implementation == before


@given(random_trees(), random_trees())
@settings(max_examples=30, deadline=None)
def test_blocks_show_each_node_exactly_its_ancestors(left, right):
    row = lay_out(whole(*[left, right] * 4))
    seen = torch.zeros(len(row), len(row), dtype=torch.bool)
    for start, stop, keys, added in blocks_of(row.end, torch.device("cpu"), torch.float32):
        seen[start:stop, keys] = added == 0
    assert torch.equal(seen, ancestor_mask(torch.from_numpy(row.end)))


@given(random_trees(), st.integers(1, 12))
@settings(max_examples=20, deadline=None)
def test_the_block_mask_is_that_of_all_pairs(tree, copies):
    row = lay_out(whole(*[tree] * copies))
    size = padded_length(len(row))
    mask = block_mask(row.end, size, torch.device("cpu"))
    pairs = create_block_mask(mask.mask_mod, None, None, size, size, device="cpu", BLOCK_SIZE=BLOCK)
    assert torch.equal(mask.to_dense(), pairs.to_dense())
    assert torch.equal(mask.kv_num_blocks + mask.full_kv_num_blocks, pairs.kv_num_blocks + pairs.full_kv_num_blocks)
    allowed = mask.mask_mod(None, None, *torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij"))
    nodes = len(row)
    assert torch.equal(allowed[:nodes, :nodes], ancestor_mask(torch.from_numpy(row.end)))
    assert not allowed[:nodes, nodes:].any()


def test_a_long_prompt_is_seen_in_full_by_the_blocks_behind_it():
    end = np.full(4 * BLOCK, 4 * BLOCK)
    some, full = block_kinds(end)
    assert np.array_equal(some, np.eye(4, dtype=bool))
    assert np.array_equal(full, np.tri(4, k=-1, dtype=bool))


@given(st.integers(1, 40_000))
def test_rows_are_padded_to_few_lengths_and_by_little(tokens):
    size = padded_length(tokens)
    assert size % BLOCK == 0
    assert tokens <= size < tokens + max(BLOCK, tokens / 8)


def test_a_reader_is_tried_out_once_a_model(monkeypatch):
    model = random_model("qwen2", num_hidden_layers=1)
    first = reader_of(model)
    monkeypatch.setattr("cpmi_dagster.reading.probe.READERS", {})
    assert reader_of(model) is first


@pytest.fixture
def fails(monkeypatch):
    """`fails(error)`: the reader `blocked` raises this error."""

    def install(error):
        def read(row, size):
            raise error

        monkeypatch.setitem(READERS, "blocked", lambda model: RowReader("blocked", model, None, read))

    return install


def test_no_memory_for_the_small_tree_is_not_taken_for_disobedience(qwen3, fails):
    fails(torch.OutOfMemoryError("CUDA out of memory."))
    with pytest.raises(torch.OutOfMemoryError):
        reader_of(replace(qwen3))


def test_a_reader_that_fails_is_told_before_the_next_is_tried(qwen3, fails, caplog):
    fails(ValueError("no kernel for this card\nand more"))
    with caplog.at_level("WARNING"):
        assert reader_of(replace(qwen3)).name == "masked"
    assert "with the reader `blocked`: no kernel for this card" in caplog.text


def test_a_small_slice_of_the_vocabulary_at_a_time_changes_no_value(qwen3, trajectories, negatives, monkeypatch):
    expected = answer_logprobs(trajectories, negatives, qwen3, SCORING).logprobs
    monkeypatch.setattr(next_tokens, "SLICE_BYTES", 4 * 400 * 3)
    found = answer_logprobs(trajectories, negatives, qwen3, SCORING).logprobs
    assert (found["logprob_sum"] - expected["logprob_sum"]).abs().max() < 1e-4


def test_reader_names_are_those_of_the_settings():
    assert set(get_args(Reader)) == {"auto", *READERS}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("reader", list(READERS))
def test_every_reader_agrees_on_a_gpu(trajectories, negatives, reader):
    model = random_model("qwen3", num_key_value_heads=1, head_dim=64)
    expected = answer_logprobs(trajectories, negatives, model, Scoring()).logprobs
    for dtype, tolerance in ((torch.float32, 1e-3), (torch.bfloat16, 0.05)):
        there = replace(model, model=deepcopy(model.model).to("cuda", dtype))
        found = answer_logprobs(trajectories, negatives, there, Scoring(reader=reader)).logprobs
        difference = (found["logprob_sum"] - expected["logprob_sum"]).abs() / found["token_count"]
        assert difference.max() < tolerance
