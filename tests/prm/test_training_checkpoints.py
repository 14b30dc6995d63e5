"""A killed training goes on from its last checkpoint, to the weights it would have had; the best weights are kept."""

from pathlib import Path

import polars as pl
import pytest
import torch
from pytest import approx

from cpmi_dagster.errors import TrainingError
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.prm import load_reward_model
from cpmi_dagster.prm.examples import training_set
from cpmi_dagster.prm.fitting import last_checkpoint
from cpmi_dagster.prm.inputs import pad_batch, pad_rows
from cpmi_dagster.prm.objectives import binary_cross_entropy
from cpmi_dagster.prm.settings import Lora, Recipe, Training
from cpmi_dagster.prm.training import TrainedModel, train_reward_model


class Killed(BaseException):
    """Nothing in the training may catch it."""


class KillAfter:
    """Progress that ends the process, as far as training can tell, once so many examples are done."""

    def __init__(self, examples: int) -> None:
        self.left = examples

    def __call__(self, count: int) -> None:
        self.left -= count
        if self.left <= 0:
            raise Killed


@pytest.mark.parametrize("lora", [None, Lora(rank=2, dropout=0.2)])
def test_a_killed_training_ends_with_the_weights_of_one_that_was_not(
    decoder: LoadedModel, recipe: Recipe, training: Training, toy: pl.DataFrame, tmp_path: Path, lora: Lora | None
) -> None:
    short = training.model_copy(update={"epochs": 2, "checkpoints": 4, "validations": 3, "lora": lora})
    whole = train_reward_model(toy, recipe, short, decoder, tmp_path / "whole", seed=0)

    saves = tmp_path / "saves"
    with pytest.raises(Killed):
        train_reward_model(toy, recipe, short, decoder, tmp_path / "m", 0, KillAfter(120), checkpoints=saves)
    assert not (tmp_path / "m").exists()
    assert last_checkpoint(saves) == str(saves / "checkpoint-15")

    told: list[int] = []
    resumed = train_reward_model(toy, recipe, short, decoder, tmp_path / "m", 0, told.append, checkpoints=saves)
    assert resumed.weights_fingerprint == whole.weights_fingerprint
    assert resumed.curve == whole.curve
    assert sum(told) == approx(2 * 76, abs=2)
    assert len(told) < 10
    assert {path.name for path in (tmp_path / "m").iterdir()} == {path.name for path in (tmp_path / "whole").iterdir()}


def test_a_checkpoint_that_was_cut_off_is_passed_over(tmp_path: Path) -> None:
    for number, text in ((9, "{}"), (10, "{}"), (12, '{"global'), (13, None)):
        folder = tmp_path / f"checkpoint-{number}"
        folder.mkdir()
        if text is not None:
            (folder / "trainer_state.json").write_text(text)
    assert last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-10")
    assert last_checkpoint(tmp_path / "checkpoint-13") is last_checkpoint(None) is None


def test_early_stopping_ends_the_training_and_keeps_the_best_weights(
    decoder: LoadedModel, recipe: Recipe, training: Training, toy: pl.DataFrame, tmp_path: Path
) -> None:
    wild = training.model_copy(update={"learning_rate": 0.05, "epochs": 6, "validations": 12, "early_stopping": 2})
    stopped = train_reward_model(toy, recipe, wild, decoder, tmp_path / "stopped", seed=0)
    losses = [point["loss"] for point in stopped.curve if point["split"] == "validation"]
    best = losses.index(min(losses))
    assert best == len(losses) - 3 < 12

    assert loss_of(stopped, toy) == approx(min(losses), abs=1e-4)


def test_a_killed_training_keeps_its_patience(
    decoder: LoadedModel, recipe: Recipe, training: Training, toy: pl.DataFrame, tmp_path: Path
) -> None:
    wild = training.model_copy(update={"learning_rate": 0.05, "epochs": 6, "validations": 12, "early_stopping": 3})
    whole = train_reward_model(toy, recipe, wild, decoder, tmp_path / "whole", seed=0)
    stopped_at = whole.curve[-1]["step"]
    saves = tmp_path / "saves"
    with pytest.raises(Killed):
        # between the last two validations, when most of the patience is gone
        train_reward_model(
            toy, recipe, wild, decoder, tmp_path / "m", 0, KillAfter(76 * stopped_at // 10 - 20), checkpoints=saves
        )
    assert last_checkpoint(saves) == str(saves / f"checkpoint-{stopped_at - 5}")
    resumed = train_reward_model(toy, recipe, wild, decoder, tmp_path / "m", 0, checkpoints=saves)
    assert resumed.curve == whole.curve
    assert resumed.weights_fingerprint == whole.weights_fingerprint


def loss_of(trained: TrainedModel, examples: pl.DataFrame) -> float:
    """Validation loss of the saved weights: the mean over batches of eight, by examples, as training takes it."""
    loaded = load_reward_model(trained.path)
    validation = training_set(examples, loaded.tokenizer, 128, 0.2, seed=0).validation
    by_length = sorted(validation, key=lambda example: len(example.encoded.token_ids))
    total = 0.0
    for batch in (by_length[start : start + 8] for start in range(0, len(by_length), 8)):
        inputs, mask = pad_batch([example.encoded for example in batch])
        labels, _ = pad_rows([example.labels for example in batch], torch.float32)
        with torch.no_grad():
            logits = loaded.model(**inputs).logits
        total += len(batch) * float(binary_cross_entropy(logits, labels, mask))
    return total / len(by_length)


def test_early_stopping_without_validation_is_a_contradiction() -> None:
    with pytest.raises(ValueError, match="raise `validation_share` above 0"):
        Training(early_stopping=2, validation_share=0)


def test_adapters_name_layers_that_exist(
    decoder: LoadedModel, recipe: Recipe, training: Training, toy: pl.DataFrame, tmp_path: Path
) -> None:
    wrong = training.model_copy(update={"lora": Lora(target_modules=("no_such_layer",))})
    with pytest.raises(TrainingError, match=r"training\.lora\.target_modules: .*no_such_layer"):
        train_reward_model(toy, recipe, wrong, decoder, tmp_path / "m", seed=0)
    assert list(tmp_path.iterdir()) == []
