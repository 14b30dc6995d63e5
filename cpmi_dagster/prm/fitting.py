"""Train a reward model from a backbone, in this process; several processes call `fit` with the same job.

    checkpoints/checkpoint-40/   model.safetensors  optimizer.pt  scheduler.pt  rng_state.pth  trainer_state.json
    checkpoints/checkpoint-80/   trainer_state.json is written last: a checkpoint without it is not complete

Checkpoints are in `transformers`' format and are loaded as weights only, never as code.
"""

import json
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from accelerate.utils.memory import clear_device_cache, find_executable_batch_size
from transformers import PreTrainedTokenizerBase, set_seed

from cpmi_dagster.errors import TrainingError, first_line
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.models.language_models import LoadedModel, load_language_model
from cpmi_dagster.models.safe_loading import quiet_transformers
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.prm.examples import training_set
from cpmi_dagster.prm.features import states_of, train_head
from cpmi_dagster.prm.model import RewardModel, decoder_of
from cpmi_dagster.prm.objectives import loss_units, objective
from cpmi_dagster.prm.settings import Head, Lora, Recipe, Training
from cpmi_dagster.prm.trainer import CurvePoint, StepTrainer, learning_curve, training_arguments
from cpmi_dagster.tree_forward.row_readers import check_token_ids

HEAD_LAYERS: dict[Head, int] = {"two_layer": 2, "linear": 1}
BEST_WEIGHTS = ".checkpoints"
"""Folder of the best weights during a training without checkpoints."""


@dataclass(frozen=True)
class Job:
    """Arguments of `train_reward_model`, with `training` and `seed` of the recipe."""

    examples: pl.DataFrame
    recipe: Recipe
    training: Training
    backbone: LanguageModel | LoadedModel
    seed: int
    checkpoints: Path | None = None
    features: pl.DataFrame | None = None


@dataclass(frozen=True)
class TrainedModel:
    """A trained reward model.

    Attributes:
        curve: points of the learning curve (step, epoch, split, loss).
        train_steps: labelled steps in one epoch.
        seconds: wall time, since the last resumption.
        backbone: identity of the backbone.
        truncated: number of trajectories that lost steps to the token limit.
        path: the model folder.
        weights_fingerprint: sha256 of the safetensors.
    """

    curve: list[CurvePoint]
    train_steps: int
    seconds: float
    backbone: str
    truncated: int
    path: Path = Path()
    weights_fingerprint: str = ""


@dataclass(frozen=True)
class _Start:
    """The model before its first step; `dtype` is that of the saved backbone."""

    model: RewardModel
    tokenizer: PreTrainedTokenizerBase
    identity: str
    on_cpu: bool
    dtype: torch.dtype
    adapters: Any


def fit(job: Job, folder: Path, progress: Callable[[int], None]) -> TrainedModel:
    """Train, and write the model into a folder.

    If memory runs out, batches are halved and accumulated twice as often, which keeps the size of an update.

    Args:
        folder: an existing folder, into which the first process writes weights, configuration and tokenizer.
        progress: called with the number of trajectories just trained on.

    Raises:
        ModelError: the backbone cannot be loaded.
        TrainingError: the examples cannot be trained on, or the loss stopped being finite.
    """
    whole = job.training.batch_size
    sizes = (whole >> halvings for halvings in range(whole.bit_length()))

    def attempt(batch_size: int) -> TrainedModel:
        if batch_size < whole:
            clear_device_cache(garbage_collection=True)  # of the attempt before
        set_seed(job.seed)
        accumulation = job.training.gradient_accumulation * (whole // batch_size)
        changed = {"batch_size": batch_size, "gradient_accumulation": accumulation}
        if job.checkpoints is None:
            changed["checkpoints"] = 0
        return _fit(job, job.training.model_copy(update=changed), folder, progress)

    with quiet_transformers(), _isolate_randomness():
        if environment_variable("WORLD_SIZE") not in ("", "1"):
            return attempt(whole)  # other processes would wait for the one that tries again
        return find_executable_batch_size(attempt, next(sizes), lambda: next(sizes, 0))()


def _fit(job: Job, training: Training, folder: Path, progress: Callable[[int], None]) -> TrainedModel:
    start, started = _start(job), time.perf_counter()
    limit = min(training.max_tokens, start.model.config.context_length)
    states = None if job.features is None else states_of(job.examples, job.features)
    data = training_set(job.examples, start.tokenizer, limit, training.validation_share, job.seed, states)
    loss, name = objective(job.recipe.objective, training.pqm_margin), job.recipe.name
    if states is not None:
        start.model.head.to("cuda" if torch.cuda.is_available() and not start.on_cpu else "cpu")
        curve = train_head(start.model.head, data, name, loss, training, job.seed, progress)
        _save(start, folder)
    else:
        largest = (max(example.encoded.token_ids) for example in (*data.train, *data.validation))
        check_token_ids(start.model.backbone, start.identity, largest)
        saves = job.checkpoints or folder / BEST_WEIGHTS
        arguments = training_arguments(training, job.seed, bool(data.validation), start.on_cpu, saves)
        units = partial(loss_units, job.recipe.objective)
        trainer = StepTrainer(name, start.model, arguments, loss, training, data, progress, units)
        checkpoint = last_checkpoint(job.checkpoints)
        trainer.args.eval_on_start = bool(data.validation) and checkpoint is None
        trainer.train(resume_from_checkpoint=checkpoint)
        trainer.accelerator.wait_for_everyone()
        # all processes take part in gathering the weights that FSDP shards
        weights = trainer.accelerator.get_state_dict(trainer.model_wrapped) if trainer.is_fsdp_enabled else None
        curve = learning_curve(trainer.state.log_history)
        if trainer.is_world_process_zero():
            shutil.rmtree(folder / BEST_WEIGHTS, ignore_errors=True)
            if weights is not None:
                start = _start(job)
                start.model.load_state_dict(weights)
            _save(start, folder)
    return TrainedModel(curve, data.train_steps, time.perf_counter() - started, start.identity, data.truncated)


def _save(trained: _Start, folder: Path) -> None:
    if trained.adapters is not None:
        trained.adapters.merge_and_unload()
    trained.model.backbone.to(trained.dtype)
    trained.model.cpu().save_pretrained(folder)
    trained.tokenizer.save_pretrained(folder)
    for file in folder.glob("*.safetensors"):
        shutil.copymode(folder / "config.json", file)  # safetensors writes files that only their owner reads


def last_checkpoint(folder: Path | None) -> str | None:
    """The newest complete checkpoint in a folder, or None."""
    states = [] if folder is None else list(folder.glob("checkpoint-*/trainer_state.json"))
    for state in sorted(states, key=lambda path: -int(path.parent.name.removeprefix("checkpoint-"))):
        try:
            json.loads(state.read_text(encoding="utf-8"))
        except ValueError:
            continue  # killed while it was written
        return str(state.parent)
    return None


@contextmanager
def _isolate_randomness() -> Iterator[None]:
    """Restore the states of every library's random generator after the block."""
    python_state, numpy_state = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)


def _start(job: Job) -> _Start:
    """The backbone with a new head; weights that learn are float32, since half precision would lose updates."""
    if isinstance(job.backbone, LoadedModel):
        loaded, on_cpu = job.backbone, job.backbone.device.type == "cpu"
    else:
        loaded = load_language_model(job.backbone.name, job.backbone.revision, job.backbone.dtype, device="cpu")
        on_cpu = job.backbone.device == "cpu"
    decoder = decoder_of(loaded)
    if loaded is job.backbone:
        decoder = deepcopy(decoder)
    dtype, lora = decoder.dtype, job.training.lora
    learns = lora is None and job.features is None
    model = RewardModel.from_backbone(decoder.float() if learns else decoder, HEAD_LAYERS[job.recipe.head])
    model.head.float()
    adapters = add_adapters(model, lora) if lora else None
    return _Start(model, loaded.tokenizer, loaded.identity, on_cpu, dtype, adapters)


def add_adapters(model: RewardModel, lora: Lora) -> Any:
    """Put low-rank adapters on linear layers of the backbone, in place, and freeze its weights.

    Returns:
        peft's `LoraModel`, whose `merge_and_unload` merges the adapters into the backbone.

    Raises:
        TrainingError: peft is not installed, or the backbone has no layer of these names.
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
            parameter.data = parameter.data.float()  # half precision would lose small updates
    return adapters
