"""Heads on frozen backbones: what they read, what they learn, and that a saved model gives what its head gave."""

from copy import deepcopy
from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal
from pydantic import ValidationError
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression
from transformers import BertConfig, BertLMHeadModel

from cpmi_dagster.errors import ModelError, ScoringError, TrainingError
from cpmi_dagster.prm import load_reward_model, score_steps
from cpmi_dagster.prm.examples import validation_questions
from cpmi_dagster.prm.features import load_reward_head, score_features, step_features
from cpmi_dagster.prm.settings import Training
from cpmi_dagster.prm.training import train_reward_model
from cpmi_dagster.trajectories.templates import render_question, render_step


@pytest.fixture(scope="module")
def features(decoder, toy):
    """Of the toy corpus."""
    return step_features(decoder, toy.select("trajectory_id", "question", "steps"), 512)


@pytest.fixture
def train(decoder, toy, features, recipe, training, tmp_path):
    """`train(head=…, objective=…)`: a head on the frozen decoder."""

    def train(**changed):
        frozen = Training.model_validate({**dict(training), "backbone": "frozen", "epochs": 30})
        own = recipe.model_copy(update=changed)
        return train_reward_model(toy, own, frozen, decoder, tmp_path / "model", seed=0, features=features)

    return train


def test_a_feature_is_the_hidden_state_at_the_last_token_of_a_step(decoder, toy, features):
    alone = step_features(decoder, toy[:1].select("trajectory_id", "question", "steps"), 512)
    ends = []
    tokens = decoder.tokenizer(render_question(toy["question"][0]))["input_ids"]
    for step in toy["steps"][0]:
        tokens += decoder.tokenizer(render_step(step))["input_ids"]
        ends.append(len(tokens) - 1)
    with torch.inference_mode():
        states = decoder.model.base_model(torch.tensor([tokens])).last_hidden_state[0]
    for row, end in zip(alone["feature"], ends, strict=True):
        assert row.to_list() == pytest.approx(states[end].tolist(), abs=1e-5)
    assert features.height == toy["steps"].list.len().sum()


def test_a_solutions_features_do_not_depend_on_the_others(decoder, toy, features):
    solutions = toy.select("trajectory_id", "question", "steps")
    apart = pl.concat([step_features(decoder, solutions[start::3], 512) for start in range(3)])
    whole = apart.join(features, on=["trajectory_id", "step_index"], how="right").select(features.columns)
    assert_frame_equal(whole, features, abs_tol=1e-5)


@pytest.mark.parametrize("head", ["two_layer", "linear"])
def test_a_saved_model_scores_as_its_head_does(train, toy, features, head):
    trained = train(head=head)
    by_head = score_features(load_reward_head(trained.path), features)
    whole = score_steps(load_reward_model(trained.path), toy.select("trajectory_id", "question", "steps"), 512)
    assert_frame_equal(by_head, whole, abs_tol=1e-5)


def test_the_head_of_a_backbone_in_half_precision_is_not_rounded(decoder, toy, features, recipe, training, tmp_path):
    half = replace(decoder, model=deepcopy(decoder.model).bfloat16())
    frozen = Training.model_validate({**dict(training), "backbone": "frozen", "epochs": 2})
    trained = train_reward_model(toy, recipe, frozen, half, tmp_path / "model", seed=0, features=features)
    head, whole = load_reward_head(trained.path), load_reward_model(trained.path).model
    weights = head.hidden.weight
    assert whole.backbone.dtype == torch.bfloat16
    assert weights.dtype == torch.float32
    assert not weights.equal(weights.bfloat16().float())
    assert whole.head.hidden.weight.equal(weights)
    assert load_reward_model(trained.path, dtype="bfloat16").model.head.hidden.weight.equal(weights)


def test_a_backbone_that_reads_later_tokens_is_refused(decoder, toy, recipe, training, tmp_path):
    config = BertConfig(vocab_size=len(decoder.tokenizer), hidden_size=32, num_hidden_layers=1, num_attention_heads=2)
    encoder = replace(decoder, model=BertLMHeadModel(config).eval(), identity="bert")
    with pytest.raises(ModelError, match="bert reads later tokens at earlier ones"):
        step_features(encoder, toy.select("trajectory_id", "question", "steps"), 512)
    with pytest.raises(ModelError, match="bert reads later tokens at earlier ones"):
        train_reward_model(toy, recipe, training, encoder, tmp_path / "model", seed=0)


def test_a_backbone_whose_values_are_not_finite_is_called_that(decoder, toy, recipe, training, tmp_path):
    diverged = replace(decoder, model=deepcopy(decoder.model), identity="diverged")
    diverged.model.base_model.norm.weight.data.fill_(torch.nan)
    with pytest.raises(ModelError, match="diverged gives values that are not finite"):
        step_features(diverged, toy.select("trajectory_id", "question", "steps"), 512)
    with pytest.raises(ModelError, match="diverged gives values that are not finite"):
        train_reward_model(toy, recipe, training, diverged, tmp_path / "model", seed=0)


def test_where_no_step_fits_the_limit_is_named(decoder, toy, features, recipe, training, tmp_path):
    frozen = Training.model_validate({**dict(training), "backbone": "frozen", "max_tokens": 16})
    with pytest.raises(TrainingError, match="is left to train on within 16 tokens; raise"):
        train_reward_model(toy, recipe, frozen, decoder, tmp_path / "model", seed=0, features=features.clear())


def test_the_head_alone_learns(train, decoder):
    trained = train()
    model = load_reward_model(trained.path).model
    ours, theirs = model.backbone.state_dict(), decoder.model.base_model.state_dict()
    assert all(ours[name].equal(theirs[name]) for name in theirs)
    losses = [point["loss"] for point in trained.curve if point["split"] == "validation"]
    assert losses[-1] < losses[0]


def test_a_linear_head_comes_near_to_a_logistic_regression(train, toy, features):
    # another implementation on the same states, with the labels as weights of both classes
    labels = toy.select("trajectory_id", "labels").explode("labels")["labels"].to_numpy()
    x = features["feature"].list.to_array(64).to_numpy()
    both = LogisticRegression(C=10.0, max_iter=2000).fit(
        [*x, *x], [1] * len(x) + [0] * len(x), sample_weight=[*labels, *(1 - labels)]
    )
    ours = score_features(
        load_reward_head(train(head="linear", training={"epochs": 60, "validation_share": 0}).path), features
    )["probability"]
    theirs = both.predict_proba(x)[:, 1]
    assert spearmanr(ours, theirs).statistic > 0.9


def test_early_stopping_keeps_the_head_of_the_lowest_validation_loss(train, toy, features):
    own = {"head_learning_rate": 0.05, "validations": 30, "batch_size": 96, "early_stopping": 2}
    trained = train(training=own)
    losses = [point["loss"] for point in trained.curve if point["split"] == "validation"][1:]
    assert losses.index(min(losses)) == len(losses) - 3 < 27
    held_out = list(validation_questions(toy["question_id"], 0.2, 0))
    validation = toy.filter(pl.col("question_id").is_in(held_out))
    scored = score_features(load_reward_head(trained.path), features).join(validation, on="trajectory_id")
    labels = scored.select(pl.col("labels").list.get(pl.col("step_index"))).to_series().to_numpy()
    right = scored["probability"].to_numpy()
    loss = -(labels * np.log(right) + (1 - labels) * np.log(1 - right)).mean()
    assert loss == pytest.approx(min(losses), abs=1e-5)


def test_the_same_seed_gives_the_same_head(train):
    assert train().weights_fingerprint == train().weights_fingerprint


def test_steps_past_the_limit_have_no_feature(decoder, toy, features):
    cut = step_features(decoder, toy.select("trajectory_id", "question", "steps"), 512, max_tokens=75)
    assert 0 < cut.height < features.height
    assert cut.join(features, on=["trajectory_id", "step_index"], how="anti").is_empty()
    short = replace(decoder, context_length=75)
    assert step_features(short, toy.select("trajectory_id", "question", "steps"), 512, max_tokens=2400).equals(cut)
    with pytest.raises(ScoringError, match="trajectory_id"):
        step_features(replace(decoder, context_length=60), toy.select("trajectory_id", "question", "steps"), 512)


@pytest.mark.parametrize("other", [{"lora": {"rank": 4}}, {"accelerate": {"num_processes": 2}}])
def test_what_trains_a_backbone_is_refused_beside_frozen(other):
    with pytest.raises(ValidationError, match="backbone: frozen"):
        Training.model_validate({"backbone": "frozen", **other})


def test_a_folder_without_a_reward_model_is_refused(tmp_path, decoder):
    decoder.model.config.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="no reward model"):
        load_reward_head(tmp_path)


def test_step_indices_follow_each_other(features):
    for _, own in features.group_by("trajectory_id"):
        assert all(later == earlier + 1 for earlier, later in pairwise(own["step_index"]))
