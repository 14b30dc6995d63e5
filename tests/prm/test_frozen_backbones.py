"""Heads on frozen backbones: what they read, what they learn, and that a saved model gives what its head gave."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from polars.testing import assert_frame_equal
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression
from toy_models import RECIPE, random_decoder, toy_examples
from transformers import BertConfig, BertLMHeadModel

from cpmi_dagster.errors import ModelError
from cpmi_dagster.prm import load_reward_model, score_steps
from cpmi_dagster.prm.model import load_reward_head
from cpmi_dagster.prm.scoring import score_features, step_features
from cpmi_dagster.tree_forward import tree_reader

TOY = toy_examples(96)
SOLUTIONS = TOY.select("trajectory_id", "question", "steps")
LINEAR = RECIPE.model_copy(update={"head": "linear"})


@pytest.fixture(scope="module")
def features():
    """Of the toy corpus."""
    return step_features(random_decoder(), SOLUTIONS, 512)


@pytest.fixture
def train_frozen(train, features):
    """As `train`, of a head on the frozen decoder."""
    return lambda name, **options: train(name, **{"backbone": "frozen", "features": features, "epochs": 20, **options})


def test_a_backbone_is_tried_once_however_many_chunks_it_reads(monkeypatch):
    tried, choose = [], tree_reader.choose_reader
    monkeypatch.setattr(tree_reader, "choose_reader", lambda *given: tried.append(given) or choose(*given))
    for model in (replace(random_decoder()), replace(random_decoder("bloom"))):
        tried.clear()
        for part in SOLUTIONS.iter_slices(32):
            step_features(model, part, 512)
        assert len(tried) == 1


@pytest.mark.parametrize("recipe", [RECIPE, LINEAR])
def test_the_head_alone_learns_and_a_saved_model_scores_as_its_head_does(train_frozen, features, recipe):
    trained = train_frozen("model", recipe=recipe)
    losses = [point["loss"] for point in trained.curve if point["split"] == "validation"]
    assert losses[-1] < losses[0]
    loaded, decoder = load_reward_model(trained.path), random_decoder().model.base_model.state_dict()
    assert all(loaded.model.backbone.state_dict()[name].equal(weights) for name, weights in decoder.items())
    assert_frame_equal(
        score_features(load_reward_head(trained.path), features), score_steps(loaded, SOLUTIONS, 512), abs_tol=1e-5
    )
    assert train_frozen("again", recipe=recipe).weights_fingerprint == trained.weights_fingerprint


def test_a_linear_head_comes_near_to_a_logistic_regression(train_frozen, features):
    # another implementation on the same states, with the labels as weights of both classes
    labels = TOY["labels"].explode().to_numpy()
    x = features["feature"].list.to_array(64).to_numpy()
    both = LogisticRegression(C=10.0, max_iter=2000).fit(
        [*x, *x], [1] * len(x) + [0] * len(x), sample_weight=[*labels, *(1 - labels)]
    )
    trained = train_frozen("model", recipe=LINEAR, epochs=60, validation_share=0)
    ours = score_features(load_reward_head(trained.path), features)["probability"]
    assert spearmanr(ours, both.predict_proba(x)[:, 1]).statistic > 0.9


def test_a_backbone_that_reads_later_tokens_or_gives_values_that_are_not_finite_is_refused():
    decoder = random_decoder()
    config = BertConfig(vocab_size=len(decoder.tokenizer), hidden_size=32, num_hidden_layers=1, num_attention_heads=2)
    encoder = replace(decoder, model=BertLMHeadModel(config).eval(), identity="bert")
    diverged = replace(decoder, model=deepcopy(decoder.model), identity="diverged")
    diverged.model.base_model.norm.weight.data.fill_(torch.nan)
    for model, words in (
        (encoder, "bert reads later tokens at earlier ones"),
        (diverged, "diverged gives values that are not finite"),
    ):
        with pytest.raises(ModelError, match=words):
            step_features(model, SOLUTIONS, 512)
