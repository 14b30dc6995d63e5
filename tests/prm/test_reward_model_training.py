"""Training learns what the labels say, is repeatable, prints nothing, and leaves a whole model or none."""

import logging
import random

import polars as pl
import pytest
import torch
from sklearn.metrics import roc_auc_score

from cpmi_dagster.errors import TrainingError
from cpmi_dagster.models.language_models import weights_hash
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.prm import load_reward_model, score_steps
from cpmi_dagster.prm.examples import TrainingSet, training_set, validation_questions
from cpmi_dagster.prm.model import RewardModel
from cpmi_dagster.prm.objectives import objective
from cpmi_dagster.prm.settings import Lora, Recipe
from cpmi_dagster.prm.trainer import StepTrainer, training_arguments

pytestmark = pytest.mark.slow


def auc(path, examples):
    """How well step probabilities rank right steps over wrong ones."""
    scored = score_steps(load_reward_model(path), examples.drop("labels"), batch_tokens=4096)
    return float(roc_auc_score(examples["labels"].explode().to_numpy() > 0.5, scored["probability"].to_numpy()))


def test_wrong_steps_of_unseen_trajectories_are_ranked_below_right_ones(trained, build_examples):
    assert auc(trained.path, build_examples(40, seed=1)) > 0.9


@pytest.mark.parametrize("name", ["mse", "pqm"])
def test_the_other_objectives_learn_too(name, train, build_examples):
    model = train("toy", recipe=Recipe(name="toy", reward_type="mc", objective=name))
    assert auc(model.path, build_examples(40, seed=1)) > 0.9


def test_adapters_learn_too_and_are_merged_into_the_layers_that_had_them(train, decoder, build_examples):
    lora = Lora(rank=2, alpha=8, target_modules=("q_proj", "up_proj"))
    model = train("toy", lora=lora, learning_rate=2e-2, epochs=8)
    assert auc(model.path, build_examples(40, seed=1)) > 0.9
    before = decoder.model.base_model.state_dict()
    after = load_reward_model(model.path).model.backbone.state_dict()
    assert before.keys() == after.keys()
    for name, weights in before.items():
        rank = torch.linalg.matrix_rank(after[name] - weights, rtol=1e-4) if weights.ndim == 2 else 0
        is_adapted = name.split(".")[-2] in ("q_proj", "up_proj")
        assert 1 <= rank <= 2 if is_adapted else torch.equal(after[name], weights)


def test_gradient_checkpointing_changes_no_gradient(train, monkeypatch):
    seen, forward = [], RewardModel.forward

    def watched(model, *given, **named):
        seen.append(model.backbone.is_activation_checkpointing)
        return forward(model, *given, **named)

    monkeypatch.setattr(RewardModel, "forward", watched)
    plain, frugal = (train(str(each), 24, epochs=1, gradient_checkpointing=each).curve for each in (False, True))
    assert [point["loss"] for point in plain] == pytest.approx([point["loss"] for point in frugal], rel=1e-4)
    assert seen == [False] * (len(seen) // 2) + [True] * (len(seen) // 2)


def test_batches_that_do_not_fit_are_halved_and_accumulated(train, monkeypatch):
    forward = RewardModel.forward

    def limited(model, input_ids, **named):
        if model.training and len(input_ids) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return forward(model, input_ids, **named)

    plain = train("plain", 16, epochs=1)
    monkeypatch.setattr(RewardModel, "forward", limited)
    halved = train("halved", 16, epochs=1)
    assert [point["step"] for point in halved.curve] == [point["step"] for point in plain.curve]
    assert halved.curve[-1]["loss"] == pytest.approx(plain.curve[-1]["loss"], rel=0.1)


def test_a_recipe_changes_training_settings_and_draws(train):
    other = Recipe(name="other", reward_type="mc", seed=3, training={"epochs": 2})
    by_recipe = train("a", 16, seed=4, recipe=other, epochs=1)
    assert by_recipe.weights_fingerprint == train("b", 16, seed=7, epochs=2).weights_fingerprint


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(trained, train):
    again, other = train("again"), train("other", seed=1, epochs=0.2)
    assert again.weights_fingerprint == trained.weights_fingerprint == weights_hash(trained.path)
    assert again.curve == trained.curve
    assert other.weights_fingerprint != trained.weights_fingerprint


def test_the_backbone_and_the_callers_random_numbers_are_left_alone(train, decoder):
    before = {name: tensor.clone() for name, tensor in decoder.model.state_dict().items()}
    draws = []
    for work in (lambda: None, lambda: train("m", 8, epochs=1)):
        torch.manual_seed(5)
        random.seed(5)
        work()
        draws.append((torch.rand(1), random.random()))
    assert draws[0] == draws[1]
    assert all(torch.equal(before[name], tensor) for name, tensor in decoder.model.state_dict().items())


def test_the_curve_has_training_losses_and_validation_losses_from_before_the_first_step(trained):
    points = pl.DataFrame(trained.curve)
    validation = points.filter(split="validation")
    assert points.columns == ["step", "epoch", "split", "loss"]
    assert validation["epoch"].to_list() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert validation["loss"][-1] < validation["loss"][0]
    assert points.filter(split="train").height == points["step"].max()


def test_validation_questions_are_never_trained_on(decoder, build_examples):
    examples = build_examples(60)
    data = training_set(examples, decoder.tokenizer, 128, 0.2, seed=0)
    held_out = validation_questions(examples["question_id"], 0.2, seed=0)
    kept = examples.filter(~pl.col("question_id").is_in(list(held_out)))
    assert len(held_out) == 6
    assert (len(data.train), len(data.validation)) == (kept.height, examples.height - kept.height)
    assert data.train_steps == kept["steps"].list.len().sum()


@pytest.mark.parametrize(("ids", "share", "count"), [("ab", 0.0, 0), ("aa", 0.5, 0), ("ab", 0.99, 1)])
def test_some_questions_are_left_to_train_on(ids, share, count):
    assert len(validation_questions(pl.Series(list(ids)), share, seed=0)) == count


def test_trajectories_past_the_token_limit_lose_their_last_steps_and_are_counted(decoder, build_examples):
    whole, cut = (training_set(build_examples(30), decoder.tokenizer, limit, 0.0, seed=0) for limit in (128, 70))
    assert whole.truncated == 0 < cut.truncated <= 30
    assert cut.train_steps < whole.train_steps
    assert all(len(example.labels) == len(example.encoded.step_positions) > 0 for example in cut.train)


def test_the_head_has_its_own_learning_rate_and_norms_do_not_decay(build_reward_model, training, tmp_path):
    model, training = build_reward_model().model, training.model_copy(update={"head_learning_rate": 9e-3})
    arguments = training_arguments(training, 0, validate=False, on_cpu=True, saves=tmp_path)
    empty = TrainingSet([], [], 0)
    trainer = StepTrainer("toy", model, arguments, objective("bce"), training, empty, lambda count: None)
    groups = trainer.create_optimizer().param_groups
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found = {names[id(each)]: (group["lr"], group["weight_decay"]) for group in groups for each in group["params"]}
    assert len(found) == len(names)
    rate, decay = training.learning_rate, training.weight_decay
    assert (found["head.hidden.weight"], found["head.output.bias"]) == ((9e-3, decay), (9e-3, 0.0))
    assert found["backbone.layers.0.mlp.up_proj.weight"] == (rate, decay)
    assert found["backbone.layers.0.self_attn.q_norm.weight"] == found["backbone.norm.weight"] == (rate, 0.0)


def test_progress_counts_every_trajectory_of_every_epoch_and_nothing_is_printed(train, tmp_path, capfd, caplog):
    counts = []
    with caplog.at_level(logging.WARNING):
        train("m", 10, progress=counts.append, epochs=2, validation_share=0.0, batch_size=4)
    assert (sum(counts), len(counts)) == (20, 6)
    assert capfd.readouterr() == ("", "") and not caplog.records
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_local_folder_can_be_the_backbone(train, decoder, tmp_path):
    base = tmp_path / "base"
    decoder.model.save_pretrained(base)
    decoder.tokenizer.save_pretrained(base)
    by_settings = train("a", 16, backbone=LanguageModel(name=str(base), device="cpu"), epochs=0.2)
    assert by_settings.weights_fingerprint == train("b", 16, backbone=base, epochs=0.2).weights_fingerprint
    assert by_settings.backbone == f"base@{weights_hash(base)[:12]}"
    assert str(tmp_path) not in (by_settings.path / "config.json").read_text()


def test_the_card_says_recipe_data_and_how_to_load(trained):
    card = (trained.path / "README.md").read_text()
    for words in ("`mc`", "`labels-1`", "random:qwen3@0", "from cpmi_dagster.prm import load_reward_model"):
        assert words in card
    assert f" to {trained.curve[-1]['loss']:.4f}" in card


@pytest.mark.parametrize("labels", [[0.5], [0.5, 1.5], [0.5, float("nan")], [0.5, None], None])
def test_labels_that_do_not_fit_the_steps_name_the_trajectory(decoder, labels):
    row = {"trajectory_id": "t7", "question_id": "q", "question": "How many ?", "steps": ["we add", "so five"]}
    examples = pl.DataFrame([{**row, "labels": labels}], schema_overrides={"labels": pl.List(pl.Float64)})
    with pytest.raises(TrainingError, match="trajectory t7"):
        training_set(examples, decoder.tokenizer, 128, 0.0, seed=0)


def test_a_missing_column_and_an_empty_set_are_named(decoder, build_examples):
    with pytest.raises(TrainingError, match="`labels`"):
        training_set(build_examples(2).drop("labels"), decoder.tokenizer, 128, 0.0, seed=0)
    with pytest.raises(TrainingError, match=r"training\.max_tokens"):
        training_set(build_examples(2), decoder.tokenizer, 16, 0.0, seed=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning_rate": 1e38, "head_learning_rate": 1e38, "warmup_ratio": 0.0}, r"training\.learning_rate"),
        ({"lora": Lora(target_modules=("no_such_layer",))}, r"training\.lora\.target_modules: .*no_such_layer"),
    ],
)
def test_a_training_that_fails_names_the_setting_and_leaves_nothing(train, tmp_path, changes, message):
    with pytest.raises(TrainingError, match=message):
        train("m", 48, **changes)
    assert list(tmp_path.iterdir()) == []
