"""Training learns what the labels say, is repeatable, prints nothing, and leaves a whole model or none."""

import logging
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import torch
from sklearn.metrics import roc_auc_score

from cpmi_dagster.errors import TrainingError
from cpmi_dagster.models.language_models import LoadedModel, weights_hash
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.prm import load_reward_model, score_steps, train_reward_model
from cpmi_dagster.prm.examples import training_set, validation_questions
from cpmi_dagster.prm.model import LoadedRewardModel, RewardModel
from cpmi_dagster.prm.objectives import objective
from cpmi_dagster.prm.settings import Lora, Objective, Recipe, Training
from cpmi_dagster.prm.trainer import StepTrainer, training_arguments
from cpmi_dagster.prm.training import TrainedModel, written_at_once

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[2]
BuildRewardModel = Callable[..., LoadedRewardModel]
BuildExamples = Callable[..., pl.DataFrame]


def auc_on_the_toy(folder: Path, examples: pl.DataFrame) -> float:
    """How well step probabilities rank right steps over wrong ones."""
    scored = score_steps(load_reward_model(folder), examples.drop("labels"), batch_tokens=4096)
    return float(roc_auc_score(examples["labels"].explode().to_numpy() > 0.5, scored["probability"].to_numpy()))


def test_wrong_steps_of_unseen_trajectories_are_ranked_below_right_ones(
    trained: TrainedModel, build_examples: BuildExamples
) -> None:
    assert auc_on_the_toy(trained.path, build_examples(40, seed=1)) > 0.9


@pytest.mark.parametrize("name", ["mse", "pqm"])
def test_the_other_objectives_learn_too(
    name: Objective,
    decoder: LoadedModel,
    training: Training,
    build_examples: BuildExamples,
    tmp_path: Path,
) -> None:
    recipe = Recipe(name="toy", reward_type="mc", objective=name)
    train_reward_model(build_examples(96), recipe, training, decoder, tmp_path / "toy", seed=0)
    assert auc_on_the_toy(tmp_path / "toy", build_examples(40, seed=1)) > 0.9


def test_adapters_learn_too_and_are_merged_into_the_layers_that_had_them(
    decoder: LoadedModel, recipe: Recipe, training: Training, build_examples: BuildExamples, tmp_path: Path
) -> None:
    lora = Lora(rank=2, alpha=8, target_modules=("q_proj", "up_proj"))
    with_adapters = training.model_copy(update={"lora": lora, "learning_rate": 2e-2, "epochs": 8})
    train_reward_model(build_examples(96), recipe, with_adapters, decoder, tmp_path / "toy", seed=0)
    assert auc_on_the_toy(tmp_path / "toy", build_examples(40, seed=1)) > 0.9

    before = decoder.model.base_model.state_dict()
    after = load_reward_model(tmp_path / "toy").model.backbone.state_dict()
    assert before.keys() == after.keys()
    for name, weights in before.items():
        change = after[name] - weights
        if name.split(".")[-2] in ("q_proj", "up_proj"):
            assert 1 <= torch.linalg.matrix_rank(change, rtol=1e-4) <= 2
        else:
            assert not change.any()


def test_gradient_checkpointing_changes_no_gradient(
    decoder: LoadedModel,
    recipe: Recipe,
    training: Training,
    build_examples: BuildExamples,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    short = training.model_copy(update={"epochs": 1})
    frugal = short.model_copy(update={"gradient_checkpointing": True})
    seen: list[bool] = []
    forward = RewardModel.forward
    monkeypatch.setattr(
        RewardModel,
        "forward",
        lambda model, *given, **named: (
            seen.append(model.backbone.is_activation_checkpointing),
            forward(model, *given, **named),
        )[1],
    )
    losses = [
        [point["loss"] for point in train_reward_model(build_examples(24), recipe, chosen, decoder, folder, 0).curve]
        for chosen, folder in ((short, tmp_path / "a"), (frugal, tmp_path / "b"))
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert set(seen[: len(seen) // 2]) == {False} and set(seen[len(seen) // 2 :]) == {True}


def test_a_recipe_changes_training_settings_and_draws(
    decoder: LoadedModel, recipe: Recipe, training: Training, build_examples: BuildExamples, tmp_path: Path
) -> None:
    short = training.model_copy(update={"epochs": 1})
    other = Recipe(name="other", reward_type="mc", seed=3, training={"epochs": 2})
    by_recipe = train_reward_model(build_examples(16), other, short, decoder, tmp_path / "a", seed=4)
    twice = training.model_copy(update={"epochs": 2})
    by_hand = train_reward_model(build_examples(16), recipe, twice, decoder, tmp_path / "b", seed=7)
    assert by_recipe.weights_fingerprint == by_hand.weights_fingerprint


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(
    trained: TrainedModel,
    decoder: LoadedModel,
    recipe: Recipe,
    training: Training,
    build_examples: BuildExamples,
    tmp_path: Path,
) -> None:
    again = train_reward_model(build_examples(96), recipe, training, decoder, tmp_path / "again", seed=0)
    short = training.model_copy(update={"epochs": 0.2})
    other = train_reward_model(build_examples(96), recipe, short, decoder, tmp_path / "other", seed=1)
    assert again.weights_fingerprint == trained.weights_fingerprint == weights_hash(trained.path)
    assert again.curve == trained.curve
    assert other.weights_fingerprint != trained.weights_fingerprint


def test_the_backbone_and_the_callers_random_numbers_are_left_alone(
    decoder: LoadedModel, recipe: Recipe, training: Training, build_examples: BuildExamples, tmp_path: Path
) -> None:
    before = {name: tensor.clone() for name, tensor in decoder.model.state_dict().items()}
    torch.manual_seed(5)
    random.seed(5)
    expected = torch.rand(1), random.random()
    torch.manual_seed(5)
    random.seed(5)
    train_reward_model(
        build_examples(8), recipe, training.model_copy(update={"epochs": 1}), decoder, tmp_path / "m", seed=0
    )
    assert (torch.rand(1), random.random()) == expected
    assert all(torch.equal(before[name], tensor) for name, tensor in decoder.model.state_dict().items())


def test_the_curve_has_training_losses_and_validation_losses_from_before_the_first_step(trained: TrainedModel) -> None:
    points = pl.DataFrame(trained.curve)
    validation = points.filter(split="validation")
    assert points.columns == ["step", "epoch", "split", "loss"]
    assert validation["epoch"].to_list() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert validation["loss"][-1] < validation["loss"][0]
    assert points.filter(split="train").height == points["step"].max()


def test_validation_questions_are_never_trained_on(decoder: LoadedModel, build_examples: BuildExamples) -> None:
    examples = build_examples(60)
    data = training_set(examples, decoder.tokenizer, 128, 0.2, seed=0)
    held_out = validation_questions(examples["question_id"], 0.2, seed=0)
    assert len(held_out) == 6
    assert len(data.validation) == examples.filter(pl.col("question_id").is_in(list(held_out))).height
    assert len(data.train) + len(data.validation) == examples.height
    assert data.train_steps == examples.filter(~pl.col("question_id").is_in(list(held_out)))["steps"].list.len().sum()


def test_a_validation_share_of_zero_or_a_single_question_holds_nothing_out() -> None:
    assert validation_questions(pl.Series(["a", "b"]), 0.0, seed=0) == set()
    assert validation_questions(pl.Series(["a", "a"]), 0.5, seed=0) == set()
    assert len(validation_questions(pl.Series(["a", "b"]), 0.99, seed=0)) == 1


def test_trajectories_past_the_token_limit_lose_their_last_steps_and_are_counted(
    decoder: LoadedModel, build_examples: BuildExamples
) -> None:
    tokenizer = decoder.tokenizer
    examples = build_examples(30)
    whole = training_set(examples, tokenizer, 128, 0.0, seed=0)
    cut = training_set(examples, tokenizer, 70, 0.0, seed=0)
    assert whole.truncated == 0
    assert 0 < cut.truncated <= 30
    assert cut.train_steps < whole.train_steps
    for example in cut.train:
        assert len(example.labels) == len(example.encoded.step_positions) > 0


def test_the_head_has_its_own_learning_rate_and_norms_do_not_decay(
    build_reward_model: BuildRewardModel, training: Training, tmp_path: Path
) -> None:
    model = build_reward_model().model
    training = training.model_copy(update={"head_learning_rate": 9e-3})
    arguments = training_arguments(training, 0, validate=False, on_cpu=True, saves=tmp_path)
    trainer = StepTrainer("toy", model, arguments, objective("bce"), training.head_learning_rate, [], [], [])
    groups = trainer.create_optimizer().param_groups
    found = {
        name: (group["lr"], group["weight_decay"])
        for group in groups
        for name, parameter in model.named_parameters()
        if any(parameter is member for member in group["params"])
    }
    assert len(found) == len(list(model.parameters()))
    assert found["head.hidden.weight"] == (training.head_learning_rate, training.weight_decay)
    assert found["head.output.bias"] == (training.head_learning_rate, 0.0)
    assert found["backbone.layers.0.mlp.up_proj.weight"] == (training.learning_rate, training.weight_decay)
    assert found["backbone.layers.0.self_attn.q_norm.weight"] == (training.learning_rate, 0.0)
    assert found["backbone.norm.weight"] == (training.learning_rate, 0.0)


def test_progress_counts_every_trajectory_of_every_epoch_and_nothing_is_printed(
    decoder: LoadedModel,
    recipe: Recipe,
    training: Training,
    build_examples: BuildExamples,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    counts: list[int] = []
    short = training.model_copy(update={"epochs": 2, "validation_share": 0.0, "batch_size": 4})
    with caplog.at_level(logging.WARNING):
        train_reward_model(build_examples(10), recipe, short, decoder, tmp_path / "m", 0, progress=counts.append)
    assert (sum(counts), len(counts)) == (20, 6)
    assert capfd.readouterr() == ("", "")
    assert not caplog.records
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_local_folder_can_be_the_backbone(
    decoder: LoadedModel, recipe: Recipe, training: Training, build_examples: BuildExamples, tmp_path: Path
) -> None:
    decoder.model.save_pretrained(tmp_path / "base")
    decoder.tokenizer.save_pretrained(tmp_path / "base")
    short = training.model_copy(update={"epochs": 0.2})
    settings = LanguageModel(name=str(tmp_path / "base"), device="cpu")
    by_settings = train_reward_model(build_examples(16), recipe, short, settings, tmp_path / "a", seed=0)
    by_path = train_reward_model(build_examples(16), recipe, short, tmp_path / "base", tmp_path / "b", seed=0)
    assert by_settings.weights_fingerprint == by_path.weights_fingerprint
    assert by_settings.backbone == f"base@{weights_hash(tmp_path / 'base')[:12]}"
    assert str(tmp_path) not in (tmp_path / "a" / "config.json").read_text()


def test_the_card_says_recipe_data_and_how_to_load(trained: TrainedModel) -> None:
    card = (trained.path / "README.md").read_text()
    assert "`mc`" in card and "`labels-1`" in card and "random:qwen3@0" in card
    assert f" to {trained.curve[-1]['loss']:.4f}" in card
    assert "from cpmi_dagster.prm import load_reward_model" in card


@pytest.mark.parametrize("labels", [[0.5], [0.5, 1.5], [0.5, float("nan")], [0.5, None], None])
def test_labels_that_do_not_fit_the_steps_name_the_trajectory(
    decoder: LoadedModel, labels: list[float | None] | None
) -> None:
    examples = pl.DataFrame(
        [("t7", "q", "How many ?", ["we add", "so five"], labels)],
        schema={
            "trajectory_id": pl.String,
            "question_id": pl.String,
            "question": pl.String,
            "steps": pl.List(pl.String),
            "labels": pl.List(pl.Float64),
        },
        orient="row",
    )
    with pytest.raises(TrainingError, match="trajectory t7"):
        training_set(examples, decoder.tokenizer, 128, 0.0, seed=0)


def test_a_missing_column_and_an_empty_set_are_named(decoder: LoadedModel, build_examples: BuildExamples) -> None:
    with pytest.raises(TrainingError, match="lack the column `labels`"):
        training_set(build_examples(2).drop("labels"), decoder.tokenizer, 128, 0.0, seed=0)
    with pytest.raises(TrainingError, match=r"raise training\.max_tokens"):
        training_set(build_examples(2), decoder.tokenizer, 16, 0.0, seed=0)


def test_a_diverged_training_says_so_and_leaves_nothing(
    decoder: LoadedModel, recipe: Recipe, training: Training, build_examples: BuildExamples, tmp_path: Path
) -> None:
    wild = training.model_copy(update={"learning_rate": 1e38, "head_learning_rate": 1e38, "warmup_ratio": 0.0})
    with pytest.raises(TrainingError, match=r"lower training\.learning_rate"):
        train_reward_model(build_examples(48), recipe, wild, decoder, tmp_path / "m", seed=0)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_replaced_when_the_new_one_is_complete_and_kept_when_it_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    with written_at_once(folder) as partial:
        (partial / "weights").write_text("first")
    with pytest.raises(RuntimeError), written_at_once(folder) as partial:
        (partial / "weights").write_text("half")
        raise RuntimeError
    assert (folder / "weights").read_text() == "first"
    with written_at_once(folder) as partial:
        (partial / "weights").write_text("second")
    assert (folder / "weights").read_text() == "second"
    assert list(tmp_path.iterdir()) == [folder]


TRAIN_FOREVER = """
import sys
from pathlib import Path
sys.path.insert(0, "tests/prm")
from conftest import random_decoder, toy_examples
from cpmi_dagster.prm import train_reward_model
from cpmi_dagster.prm.settings import Recipe, Training
training = Training(epochs=10_000, max_tokens=128, batch_size=8, gradient_accumulation=1, bf16=False)
started = lambda count: print("training", flush=True)
recipe = Recipe(name="m", reward_type="mc")
train_reward_model(toy_examples(8), recipe, training, random_decoder(), Path(sys.argv[1]) / "m", 0, progress=started)
"""


def test_a_killed_training_leaves_nothing_where_a_model_is_expected(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", TRAIN_FOREVER, str(tmp_path)], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "training\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not (tmp_path / "m").exists()
