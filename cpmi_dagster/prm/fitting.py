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

from cpmi_dagster.errors import ModelError, TrainingError, first_line
from cpmi_dagster.models.attention import check_causal
from cpmi_dagster.models.language_models import LoadedModel, load_language_model
from cpmi_dagster.models.safe_loading import quiet_transformers
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.prm.examples import training_set
from cpmi_dagster.prm.features import HeadOnStates
from cpmi_dagster.prm.model import RewardModel
from cpmi_dagster.prm.objectives import objective
from cpmi_dagster.prm.settings import DEFAULT_HEAD, Head, Lora, Objective, Training
from cpmi_dagster.prm.trainer import CurvePoint, ProgressReporter, StepTrainer, learning_curve, training_arguments

HEAD_LAYERS: dict[Head, int] = {"two_layer": 2, "linear": 1}
BEST_WEIGHTS = ".checkpoints"
"""Where the best weights are kept during a training without checkpoints."""

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
    head: Head = DEFAULT_HEAD
    features: pl.DataFrame | None = None


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
    training = job.training
    with quiet_transformers(), _isolated_randomness(job.seed):
        start = _start(job)
        limit = min(training.max_tokens, start.model.config.context_length)
        share, is_frozen = training.validation_share, job.features is not None
        data = training_set(job.examples, start.tokenizer, limit, share, job.seed, job.features)
        callbacks: list[TrainerCallback] = [ProgressReporter(round(len(data.train) * training.epochs), progress)]
        if training.early_stopping is not None and data.validation:
            callbacks.append(EarlyStoppingCallback(training.early_stopping))
        # a head is trained sooner than a checkpoint of it would pay
        checkpoints = None if is_frozen else job.checkpoints
        arguments = training_arguments(
            training if checkpoints else training.model_copy(update={"checkpoints": 0}),
            job.seed,
            validate=bool(data.validation),
            on_cpu=start.on_cpu,
            saves=checkpoints or folder / BEST_WEIGHTS,
        )
        loss = objective(job.objective, training.pqm_margin)
        rate = training.head_learning_rate
        learner = start.model
        if is_frozen:
            learner = HeadOnStates(start.model.head, [example.encoded for example in data.train])
        trainer = StepTrainer(job.name, learner, arguments, loss, rate, data.train, data.validation, callbacks)
        checkpoint = last_checkpoint(checkpoints)
        trainer.args.eval_on_start = bool(data.validation) and checkpoint is None
        trainer.train(resume_from_checkpoint=checkpoint)
        trainer.accelerator.wait_for_everyone()
        # every process takes part in putting together the weights that FSDP keeps in parts
        whole = trainer.accelerator.get_state_dict(trainer.model_wrapped) if trainer.is_fsdp_enabled else None
        if trainer.is_world_process_zero():
            shutil.rmtree(folder / BEST_WEIGHTS, ignore_errors=True)
            saved = start
            if isinstance(learner, HeadOnStates):
                learner.cpu().folded()
            if whole is not None:
                saved = _start(job)
                saved.model.load_state_dict(whole)
            if saved.adapters is not None:
                saved.adapters.merge_and_unload()
            saved.model.backbone.to(saved.dtype)
            saved.model.save_pretrained(folder)
            saved.tokenizer.save_pretrained(folder)
            for file in folder.glob("*.safetensors"):
                shutil.copymode(folder / "config.json", file)  # they come readable by their owner alone
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
    if isinstance(job.backbone, LoadedModel):
        loaded, on_cpu = job.backbone, job.backbone.device.type == "cpu"
    else:
        chosen = job.backbone if isinstance(job.backbone, LanguageModel) else LanguageModel(name=str(job.backbone))
        loaded = load_language_model(chosen.name, chosen.revision, chosen.dtype, device="cpu")
        on_cpu = chosen.device == "cpu"
    decoder = loaded.model.base_model
    if not isinstance(decoder, PreTrainedModel):
        raise ModelError(f"{loaded.identity} has no decoder that a reward head fits on; choose another models.backbone")
    check_causal(decoder, loaded.identity)
    if loaded is job.backbone:
        decoder = deepcopy(decoder)
    dtype, lora = decoder.dtype, job.training.lora
    keeps_weights = lora or job.features is not None
    model = RewardModel.from_backbone(decoder if keeps_weights else decoder.float(), head_layers=HEAD_LAYERS[job.head])
    model.head.float()
    adapters = add_adapters(model, lora) if lora else None
    return _Start(model, loaded.tokenizer, loaded.identity, on_cpu, dtype, adapters)


def add_adapters(model: RewardModel, lora: Lora) -> Any:
    """Put low-rank adapters on the backbone's linear layers, in place, and freeze its weights; the head stays as it is.

    Returns:
        peft's `LoraModel`; its `merge_and_unload` turns the backbone back into one without adapters.

    Raises:
        TrainingError: peft is not installed, or the backbone has no layer of those names.
    """
    try:
        from peft import LoraConfig
        from peft.tuners.lora import LoraModel
    except ImportError as error:
        raise TrainingError("training.lora needs peft; install it with `pip install cpmi-dagster[lora]`") from error
    modules = lora.target_modules if isinstance(lora.target_modules, str) else list(lora.target_modules)
    config = LoraConfig(r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=modules)  # pyright: ignore[reportArgumentType]
    try:
        adapters = LoraModel(model.backbone, config, "default")
    except ValueError as error:
        raise TrainingError(f"training.lora.target_modules: {first_line(error)}") from error
    for parameter in adapters.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()  # small updates would be lost in half precision
    return adapters
