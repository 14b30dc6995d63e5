"""A model reads token trees by a reader that gives its own values, or is refused."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from scoring_examples import TRAJECTORIES, assert_same_values, random_model, scored

from cpmi_dagster.errors import ModelError
from cpmi_dagster.scoring.scorers import labeler_reader
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.tree_forward.probe import READERS, check_full_attention

GEMMA2 = {"sliding_window": 2048, "attn_logit_softcapping": None}


@pytest.mark.parametrize(
    ("architecture", "config", "refused"),
    [
        ("qwen3", {}, None),
        ("llama", {"bos": True}, None),
        ("gemma", {}, None),
        ("gpt2", {}, None),
        ("gemma2", {**GEMMA2, "final_logit_softcapping": 5.0}, None),
        ("gemma2", {**GEMMA2, "attn_logit_softcapping": 0.5}, "blocked"),
    ],
)
def test_every_reader_gives_the_values_of_the_reference_scorer_or_is_refused(architecture, config, refused):
    model = random_model(architecture, **config)
    attention = model.model.config._attn_implementation
    expected = scored(model, scorer="reference").logprobs
    for reader in READERS:
        if reader == refused:
            with pytest.raises(ModelError, match="--scorer reference"):
                scored(model, reader=reader)
        else:
            assert_same_values(scored(model, reader=reader, row_tokens=256).logprobs, expected)
    assert labeler_reader(model, Scoring()).rows_by.name == ("masked" if refused == "blocked" else "blocked")
    # generation reads by the model's own attention
    assert model.model.config._attn_implementation == attention


def test_a_model_that_obeys_no_reader_is_refused_with_the_differences():
    with pytest.raises(ModelError, match=r"blocked: .*masked: .*--scorer reference"):
        scored(random_model("bloom", n_layer=2, n_head=4))


@pytest.mark.parametrize(
    ("architecture", "config", "obstacle"),
    [
        ("mistral", {"sliding_window": 99}, "`sliding_attention` that see 99 tokens of a branch of 100"),
        ("qwen3", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}, "`sliding_attention`"),
        ("mamba", {"state_size": 4}, "`linear_attention`"),
    ],
)
def test_layers_that_do_not_see_a_whole_branch_are_named(architecture, config, obstacle):
    model = random_model(architecture, **config).model
    with pytest.raises(ModelError, match="--scorer reference") as refusal:
        check_full_attention(model, longest=100)
    assert obstacle in str(refusal.value)


def test_the_reference_scorer_reads_what_trees_cannot():
    model = random_model("mistral", sliding_window=16)
    with pytest.raises(ModelError, match="sliding_attention"):
        scored(model)
    result = scored(model, TRAJECTORIES[:1], scorer="reference")
    assert result.logprobs.height and result.rejected.is_empty()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("reader", list(READERS))
def test_every_reader_agrees_on_a_gpu(reader):
    model = random_model("qwen3", num_key_value_heads=1, head_dim=64)
    expected = scored(model).logprobs
    for dtype, tolerance in ((torch.float32, 1e-3), (torch.bfloat16, 0.05)):
        there = replace(model, model=deepcopy(model.model).to("cuda", dtype))
        assert_same_values(scored(there, reader=reader).logprobs, expected, tolerance)
