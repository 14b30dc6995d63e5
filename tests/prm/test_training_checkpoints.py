"""A killed training goes on from its last checkpoint, to the weights it would have had; the best weights are kept."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

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
from cpmi_dagster.prm.trainer import StepTrainer
from cpmi_dagster.prm.training import TrainedModel, train_reward_model

pytestmark = pytest.mark.slow


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

    reported: list[int] = []
    resumed = train_reward_model(toy, recipe, short, decoder, tmp_path / "m", 0, reported.append, checkpoints=saves)
    assert resumed.weights_fingerprint == whole.weights_fingerprint
    assert resumed.curve == whole.curve
    assert sum(reported) == approx(2 * 76, abs=2)
    assert len(reported) < 10
    assert {path.name for path in (tmp_path / "m").iterdir()} == {path.name for path in (tmp_path / "whole").iterdir()}


def test_a_checkpoint_that_was_cut_off_is_passed_over(tmp_path: Path) -> None:
    for number, text in ((9, "{}"), (10, "{}"), (12, '{"global'), (13, None)):
        folder = tmp_path / f"checkpoint-{number}"
        folder.mkdir()
        if text is not None:
            (folder / "trainer_state.json").write_text(text)
    assert last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-10")
    assert last_checkpoint(tmp_path / "checkpoint-13") is last_checkpoint(None) is None


class ScriptedValidation:
    """Stands in for what training says of the validation set: the loss of each validation, five steps apart.

    `weights` holds the model as it was at each of them.
    """

    def __init__(self, losses: Sequence[float], monkeypatch: pytest.MonkeyPatch) -> None:
        self.losses = losses
        self.weights: dict[int, dict[str, torch.Tensor]] = {}
        monkeypatch.setattr(StepTrainer, "evaluation_loop", self.said_by(StepTrainer.evaluation_loop))

    def said_by(self, evaluation_loop: Callable[..., Any]) -> Callable[..., Any]:
        """The trainer's own validation with another loss."""

        def scripted(trainer: StepTrainer, *args: Any, **kwargs: Any) -> Any:
            output = evaluation_loop(trainer, *args, **kwargs)
            number = trainer.state.global_step // 5
            self.weights[number] = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
            return output._replace(metrics={**output.metrics, "eval_loss": self.losses[number]})

        return scripted


LATER_BETTER = [0.7, *(0.6 - 0.01 * number for number in range(12))]


@pytest.mark.parametrize(
    ("losses", "last", "best"),
    [
        ([0.7, 0.5, 0.6, 0.6], 3, 1),
        ([0.7, 0.5, 0.6, 0.4, 0.45, 0.3, 0.35, 0.35], 7, 5),
        ([0.7, 0.5, 0.5, 0.5], 3, 1),
        ([0.3, 0.5, 0.4, 0.45, 0.45], 4, 2),
        ([*LATER_BETTER[:-1], 0.9], 12, 11),
        (LATER_BETTER, 12, 12),
    ],
    ids=["at once", "later", "a loss as good is not better", "the start does not count", "all but the last", "never"],
)
def test_early_stopping_ends_the_training_and_keeps_the_best_weights(
    decoder: LoadedModel,
    recipe: Recipe,
    training: Training,
    toy: pl.DataFrame,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    losses: list[float],
    last: int,
    best: int,
) -> None:
    said = ScriptedValidation(losses, monkeypatch)
    patient = training.model_copy(update={"epochs": 6, "validations": 12, "early_stopping": 2})
    stopped = train_reward_model(toy, recipe, patient, decoder, tmp_path / "stopped", seed=0)
    assert validation_losses(stopped) == losses[: last + 1]

    kept = load_reward_model(stopped.path).model.state_dict()
    assert max(said.weights) == last
    assert all(torch.equal(kept[name], tensor) for name, tensor in said.weights[best].items())


def test_early_stopping_goes_by_the_losses_of_the_validation_set(
    decoder: LoadedModel, recipe: Recipe, training: Training, toy: pl.DataFrame, tmp_path: Path
) -> None:
    wild = training.model_copy(update={"learning_rate": 0.05, "epochs": 6, "validations": 12, "early_stopping": 2})
    stopped = train_reward_model(toy, recipe, wild, decoder, tmp_path / "stopped", seed=0)
    losses = validation_losses(stopped)[1:]
    # how these losses go is the processor's business
    without_better = [number - losses.index(min(losses[: number + 1])) for number in range(len(losses))]
    assert all(count < 2 for count in without_better[:-1])
    assert without_better[-1] == 2 or len(losses) == 12
    assert loss_of(stopped, toy) == approx(min(losses), abs=1e-4)


def test_a_killed_training_keeps_its_patience(
    decoder: LoadedModel,
    recipe: Recipe,
    training: Training,
    toy: pl.DataFrame,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ScriptedValidation([0.7, 0.6, 0.5, 0.55, 0.55, 0.55, *LATER_BETTER[6:]], monkeypatch)
    patient = training.model_copy(update={"epochs": 6, "validations": 12, "early_stopping": 3})
    whole = train_reward_model(toy, recipe, patient, decoder, tmp_path / "whole", seed=0)
    assert whole.curve[-1]["step"] == 25
    saves = tmp_path / "saves"
    with pytest.raises(Killed):
        # between the last two validations, when most of the patience is gone
        train_reward_model(
            toy, recipe, patient, decoder, tmp_path / "m", 0, KillAfter(76 * 25 // 10 - 20), checkpoints=saves
        )
    assert last_checkpoint(saves) == str(saves / "checkpoint-20")
    resumed = train_reward_model(toy, recipe, patient, decoder, tmp_path / "m", 0, checkpoints=saves)
    assert resumed.curve == whole.curve
    assert resumed.weights_fingerprint == whole.weights_fingerprint


def validation_losses(trained: TrainedModel) -> list[float]:
    """What each validation said, that at the start first."""
    return [point["loss"] for point in trained.curve if point["split"] == "validation"]


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
