"""Train a process reward model from soft labels (section 5.3).

One row of the examples is a trajectory with the soft label of each step:

    trajectory_id  question_id  question              steps                                      labels
    t000000017     3f9a...      Weng earns $12 ...    [She earned 0.2 a minute., That is 10.]    [0.91, 0.64]

The result is a folder that `load_reward_model` reads: config.json, model.safetensors, the tokenizer, README.md. It
appears when it is complete: a training that is killed leaves nothing where a model is expected.
"""

import math
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from cpmi_dagster import settings
from cpmi_dagster.errors import ModelError, TrainingError
from cpmi_dagster.language_models import LoadedModel, load_language_model, weights_hash
from cpmi_dagster.prm.card import model_card
from cpmi_dagster.prm.examples import TrainingSet, training_set
from cpmi_dagster.prm.model import RewardModel
from cpmi_dagster.prm.objectives import objective
from cpmi_dagster.prm.publish import written_at_once
from cpmi_dagster.prm.trainer import CurvePoint, CurveRecorder, StepTrainer, training_arguments
from cpmi_dagster.quiet import isolated_randomness, quiet_transformers

Backbone = settings.LanguageModel | LoadedModel | Path | str


@dataclass(frozen=True)
class TrainedModel:
    """A trained reward model and how it came about.

    Args:
        path: the folder it was written to.
        weights_fingerprint: sha256 of its safetensors.
        train_steps: labelled steps in one epoch.
        seconds: wall time from tokenising to the written folder, without loading the backbone.
        curve: points of the learning curve (step, epoch, split, loss).
        backbone: identity of the model it started from.
        truncated: training and validation trajectories that lost steps to the token limit.
    """

    path: Path
    weights_fingerprint: str
    train_steps: int
    seconds: float
    curve: list[CurvePoint]
    backbone: str
    truncated: int


def train_reward_model(
    examples: pl.DataFrame,
    recipe: settings.Recipe,
    training: settings.Training,
    backbone: Backbone,
    output: Path,
    seed: int,
    progress: Callable[[int], None] | None = None,
    data_version: str = "",
) -> TrainedModel:
    """Train one recipe and write the model.

    Args:
        examples: trajectory_id, question_id, question, steps, labels (soft labels in [0, 1], one per step).
        backbone: the decoder to start from: settings, a loaded model (which is left as it is), a folder or hub id.
        output: folder to write; a model already there is replaced when the new one is complete.
        seed: of the head, the validation split and the order of the examples; on one CPU it fixes every weight.
        progress: called with the number of trajectories just trained on, counting each epoch.
        data_version: fingerprint of the soft labels, for the model card.

    Raises:
        ModelError: the backbone cannot be loaded.
        TrainingError: the examples cannot be trained on, or the loss stopped being finite.
    """
    with quiet_transformers(), isolated_randomness(seed):
        model, tokenizer, identity, on_cpu = _new_model(backbone)
        started = time.perf_counter()
        limit = min(training.max_tokens, model.config.context_length)
        data = training_set(examples, tokenizer, limit, training.validation_share, seed)
        curve = _fit(model, data, recipe, training, output.parent, seed, on_cpu, progress)
        with written_at_once(output) as folder:
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            card = model_card(recipe, training, identity, data_version, curve, output.name)
            (folder / "README.md").write_text(card, encoding="utf-8")
    seconds = time.perf_counter() - started
    return TrainedModel(output, weights_hash(output), data.train_steps, seconds, curve, identity, data.truncated)


def _new_model(backbone: Backbone) -> tuple[RewardModel, PreTrainedTokenizerBase, str, bool]:
    """Backbone with a new head, tokenizer, the backbone's identity, and whether it is to stay on the CPU."""
    decoder, loaded, on_cpu = _decoder(backbone)
    model = RewardModel.from_backbone(decoder)
    return model, loaded.tokenizer, loaded.identity, on_cpu


def _decoder(backbone: Backbone) -> tuple[PreTrainedModel, LoadedModel, bool]:
    if isinstance(backbone, LoadedModel):
        decoder = deepcopy(_without_head(backbone)).float()
        return decoder, backbone, backbone.device.type == "cpu"
    chosen = backbone if isinstance(backbone, settings.LanguageModel) else settings.LanguageModel(name=str(backbone))
    dtype = "float32" if chosen.dtype == "auto" else chosen.dtype
    loaded = load_language_model(chosen.name, chosen.revision, dtype, device="cpu")
    return _without_head(loaded), loaded, chosen.device == "cpu"


def _without_head(loaded: LoadedModel) -> PreTrainedModel:
    decoder = loaded.model.base_model
    if not isinstance(decoder, PreTrainedModel):
        raise ModelError(f"{loaded.identity} has no decoder that a reward head fits on; choose another models.backbone")
    return decoder


def _fit(
    model: RewardModel,
    data: TrainingSet,
    recipe: settings.Recipe,
    training: settings.Training,
    folder: Path,
    seed: int,
    on_cpu: bool,
    progress: Callable[[int], None] | None,
) -> list[CurvePoint]:
    """Train the model in place; the learning curve."""
    recorder = CurveRecorder(round(len(data.train) * training.epochs), progress)
    trainer = StepTrainer(
        model,
        training_arguments(training, seed, bool(data.validation), str(folder), on_cpu),
        objective(recipe.objective, training.pqm_margin),
        training.head_learning_rate,
        data.train,
        data.validation,
        [recorder],
    )
    trainer.train()
    for point in recorder.points:
        if not math.isfinite(point["loss"]):
            raise TrainingError(
                f"training recipe {recipe.name} gave the loss {point['loss']} at optimiser step {point['step']}; "
                "lower training.learning_rate or training.head_learning_rate"
            )
    return recorder.points
