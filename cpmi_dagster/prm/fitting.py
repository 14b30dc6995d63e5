"""One training, from a backbone to a saved reward model, in the process it is called in.

Where several processes train together, each calls `fit` with the same job; the first one writes the model.

    checkpoints/checkpoint-40/   model.safetensors  optimizer.pt  scheduler.pt  rng_state.pth  trainer_state.json
    checkpoints/checkpoint-80/   written last: trainer_state.json, so a checkpoint without it is not whole

The state of a training is kept in `transformers`' own format and read as weights only; no code is loaded with it.
"""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from transformers import (
    EarlyStoppingCallback,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainerCallback,
    set_seed,
)

from cpmi_dagster.errors import ModelError
from cpmi_dagster.models.language_models import LoadedModel, load_language_model
from cpmi_dagster.models.safe_loading import quiet_transformers
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.prm.examples import TrainingSet, training_set
from cpmi_dagster.prm.lora import add_adapters
from cpmi_dagster.prm.model import RewardModel
from cpmi_dagster.prm.objectives import objective
from cpmi_dagster.prm.settings import PAPERS_HEAD, Head, Objective, Training
from cpmi_dagster.prm.trainer import CurvePoint, ProgressReporter, StepTrainer, learning_curve, training_arguments

HEAD_LAYERS: dict[Head, int] = {"two_layer": 2, "linear": 1}
UNKEPT = ".checkpoints"
"""Where the best weights wait for the end of a training that nobody keeps checkpoints of."""

Backbone = LanguageModel | LoadedModel | Path | str


@dataclass(frozen=True)
class Job:
    """What is to be trained; as for `train_reward_model`, with the recipe's settings and seed."""

    examples: pl.DataFrame
    name: str
    objective: Objective
    training: Training
    backbone: Backbone
    seed: int
    checkpoints: Path | None = None
    head: Head = PAPERS_HEAD


@dataclass(frozen=True)
class Fitted:
    """What came of a training besides the weights.

    Attributes:
        curve: points of the learning curve (step, epoch, split, loss).
        train_steps: labelled steps in one epoch.
        seconds: wall time of training, with the time before the checkpoint it resumed from.
        backbone: identity of the model it started from.
        truncated: training and validation trajectories that lost steps to the token limit.
    """

    curve: list[CurvePoint]
    train_steps: int
    seconds: float
    backbone: str
    truncated: int


@dataclass(frozen=True)
class _Start:
    """The model before its first step; `adapters` where there are any, `dtype` that its weights are saved in."""

    model: RewardModel
    tokenizer: PreTrainedTokenizerBase
    identity: str
    on_cpu: bool
    dtype: torch.dtype
    adapters: Any


def fit(job: Job, folder: Path, progress: Callable[[int], None]) -> Fitted:
    """Train, and write the model into a folder.

    Args:
        folder: an existing folder; weights, configuration and tokenizer are written there by the first process.
        progress: called with the number of trajectories just trained on.

    Raises:
        ModelError: the backbone cannot be loaded.
        TrainingError: the examples cannot be trained on, or the loss stopped being finite.
    """
    with quiet_transformers(), _isolated_randomness(job.seed):
        start = _start(job)
        limit = min(job.training.max_tokens, start.model.config.context_length)
        data = training_set(job.examples, start.tokenizer, limit, job.training.validation_share, job.seed)
        trainer = _trainer(job, start, data, folder, progress)
        checkpoint = last_checkpoint(job.checkpoints)
        trainer.args.eval_on_start = bool(data.validation) and checkpoint is None
        trainer.train(resume_from_checkpoint=checkpoint)
        trainer.accelerator.wait_for_everyone()
        if trainer.is_world_process_zero():
            shutil.rmtree(folder / UNKEPT, ignore_errors=True)
        _save(trainer, start, job, folder)
    return Fitted(
        learning_curve(trainer.state.log_history), data.train_steps, trainer.seconds, start.identity, data.truncated
    )


def last_checkpoint(folder: Path | None) -> str | None:
    """The newest whole checkpoint in a folder; None where there is none."""
    found = [] if folder is None else list(folder.glob("checkpoint-*/trainer_state.json"))
    for state in sorted(found, key=lambda path: -int(path.parent.name.removeprefix("checkpoint-"))):
        try:
            json.loads(state.read_text(encoding="utf-8"))
        except ValueError:
            continue  # killed while it was written
        return str(state.parent)
    return None


@contextmanager
def _isolated_randomness(seed: int) -> Iterator[None]:
    """Seed every library's generator within the block; afterwards their states are restored."""
    python_state, numpy_state = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        try:
            set_seed(seed)
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)


def _start(job: Job) -> _Start:
    """The backbone with a new head. Weights that learn are float32: updates would be lost in half precision."""
    decoder, loaded, on_cpu = _decoder(job.backbone)
    dtype = decoder.dtype
    decoder = decoder if job.training.lora else decoder.float()
    model = RewardModel.from_backbone(decoder, head_layers=HEAD_LAYERS[job.head])
    model.head.float()
    adapters = add_adapters(model, job.training.lora) if job.training.lora else None
    return _Start(model, loaded.tokenizer, loaded.identity, on_cpu, dtype, adapters)


def _decoder(backbone: Backbone) -> tuple[PreTrainedModel, LoadedModel, bool]:
    """The decoder, the model it is of, and whether it is to stay on the CPU."""
    if isinstance(backbone, LoadedModel):
        return deepcopy(_without_head(backbone)), backbone, backbone.device.type == "cpu"
    chosen = backbone if isinstance(backbone, LanguageModel) else LanguageModel(name=str(backbone))
    loaded = load_language_model(chosen.name, chosen.revision, chosen.dtype, device="cpu")
    return _without_head(loaded), loaded, chosen.device == "cpu"


def _without_head(loaded: LoadedModel) -> PreTrainedModel:
    decoder = loaded.model.base_model
    if not isinstance(decoder, PreTrainedModel):
        raise ModelError(f"{loaded.identity} has no decoder that a reward head fits on; choose another models.backbone")
    return decoder


def _trainer(job: Job, start: _Start, data: TrainingSet, folder: Path, progress: Callable[[int], None]) -> StepTrainer:
    training = job.training
    callbacks: list[TrainerCallback] = [ProgressReporter(round(len(data.train) * training.epochs), progress)]
    if training.early_stopping is not None and data.validation:
        callbacks.append(EarlyStoppingCallback(training.early_stopping))
    arguments = training_arguments(
        training if job.checkpoints else training.model_copy(update={"checkpoints": 0}),
        job.seed,
        validate=bool(data.validation),
        on_cpu=start.on_cpu,
        saves=job.checkpoints or folder / UNKEPT,
    )
    return StepTrainer(
        job.name,
        start.model,
        arguments,
        objective(job.objective, training.pqm_margin),
        training.head_learning_rate,
        data.train,
        data.validation,
        callbacks,
    )


def _save(trainer: StepTrainer, start: _Start, job: Job, folder: Path) -> None:
    """Adapters merged, in the backbone's precision; every process takes part, the first one writes."""
    whole = trainer.whole_weights()
    if not trainer.is_world_process_zero():
        return
    if whole is not None:
        start = _start(job)
        start.model.load_state_dict(whole)
    if start.adapters is not None:
        start.adapters.merge_and_unload()
    start.model.to(start.dtype)  # pyright: ignore[reportCallIssue, reportArgumentType]
    start.model.save_pretrained(folder)
    start.tokenizer.save_pretrained(folder)
    for weights in folder.glob("*.safetensors"):
        shutil.copymode(folder / "config.json", weights)  # they come readable by their owner alone
