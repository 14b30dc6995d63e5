"""One training, from a backbone to a saved reward model, in the process it is called in.

Where several processes train together, each calls `fit` with the same job; the first one writes the model.

    checkpoints/checkpoint-40/   model.safetensors  optimizer.pt  scheduler.pt  rng_state.pth  trainer_state.json
    checkpoints/checkpoint-80/   written last: trainer_state.json, so a checkpoint without it is not whole

The state of a training is kept in `transformers`' own format and read as weights only; no code is loaded with it.
"""

import json
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
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
from cpmi_dagster.prm.objectives import objective
from cpmi_dagster.prm.settings import Head, Lora, Recipe, Training
from cpmi_dagster.prm.trainer import CurvePoint, StepTrainer, learning_curve, training_arguments

HEAD_LAYERS: dict[Head, int] = {"two_layer": 2, "linear": 1}
BEST_WEIGHTS = ".checkpoints"
"""Where the best weights are kept during a training without checkpoints."""


@dataclass(frozen=True)
class Job:
    """What is to be trained, as for `train_reward_model`; `training` and `seed` are those of the recipe."""

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
        seconds: wall time; of a training that resumed, since then.
        backbone: identity of the model it started from.
        truncated: training and validation trajectories that lost steps to the token limit.
        path: the folder it was written to.
        weights_fingerprint: sha256 of its safetensors.
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
    """The model before its first step; `adapters` if there are any, `dtype` that its backbone is saved in."""

    model: RewardModel
    tokenizer: PreTrainedTokenizerBase
    identity: str
    on_cpu: bool
    dtype: torch.dtype
    adapters: Any


def fit(job: Job, folder: Path, progress: Callable[[int], None]) -> TrainedModel:
    """Train, and write the model into a folder.

    If memory runs out, batches are halved and accumulated twice as often, so that an optimiser step stays what it is.

    Args:
        folder: an existing folder; weights, configuration and tokenizer are written there by the first process.
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

    with quiet_transformers(), _isolated_randomness():
        if environment_variable("WORLD_SIZE") not in ("", "1"):
            return attempt(whole)  # the other processes would wait for the one that tries again
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
        saves = job.checkpoints or folder / BEST_WEIGHTS
        arguments = training_arguments(training, job.seed, bool(data.validation), start.on_cpu, saves)
        trainer = StepTrainer(name, start.model, arguments, loss, training, data, progress)
        checkpoint = last_checkpoint(job.checkpoints)
        trainer.args.eval_on_start = bool(data.validation) and checkpoint is None
        trainer.train(resume_from_checkpoint=checkpoint)
        trainer.accelerator.wait_for_everyone()
        # every process takes part in putting together the weights that FSDP keeps in parts
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
        shutil.copymode(folder / "config.json", file)  # they come readable by their owner alone


def last_checkpoint(folder: Path | None) -> str | None:
    """The newest whole checkpoint in a folder; None if there is none."""
    states = [] if folder is None else list(folder.glob("checkpoint-*/trainer_state.json"))
    for state in sorted(states, key=lambda path: -int(path.parent.name.removeprefix("checkpoint-"))):
        try:
            json.loads(state.read_text(encoding="utf-8"))
        except ValueError:
            continue  # killed while it was written
        return str(state.parent)
    return None


@contextmanager
def _isolated_randomness() -> Iterator[None]:
    """Restore the states of every library's random generator after the block."""
    python_state, numpy_state = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)


def _start(job: Job) -> _Start:
    """The backbone with a new head. Weights that learn are float32: updates would be lost in half precision."""
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
