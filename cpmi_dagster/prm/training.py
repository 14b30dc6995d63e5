"""Train a process reward model from soft labels (section 5.3).

One row of the examples is a trajectory with the soft label of each step:

    trajectory_id  question_id  question              steps                                      labels
    t000000017     3f9a...      Weng earns $12 ...    [She earned 0.2 a minute., That is 10.]    [0.91, 0.64]

The result is a folder for `load_reward_model`: config.json, safetensors, tokenizer, README.md and the hashes of these
files. It appears when it is complete; a killed training resumes from its last checkpoint, which is in `transformers`'
format and is loaded as weights only, never as code:

    checkpoints/checkpoint-40/   model.safetensors  optimizer.pt  scheduler.pt  rng_state.pth  trainer_state.json
    checkpoints/checkpoint-80/   trainer_state.json is written last: a checkpoint without it is not complete
"""

import json
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from accelerate.utils.memory import clear_device_cache, find_executable_batch_size
from transformers import PreTrainedTokenizerBase, set_seed

from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.files.whole_files import replace_folder
from cpmi_dagster.models.language_models import LoadedModel, load_language_model
from cpmi_dagster.models.model_files import weights_hash, write_digests
from cpmi_dagster.models.safe_loading import quiet_transformers
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.prm.card import model_card
from cpmi_dagster.prm.inputs import StateScale, collate, training_set
from cpmi_dagster.prm.launch import Job, TrainedModel, launch, train_launched
from cpmi_dagster.prm.model import RewardModel, add_adapters, decoder_of
from cpmi_dagster.prm.scoring import states_of
from cpmi_dagster.prm.settings import Head, Recipe, Training
from cpmi_dagster.prm.trainer import StepTrainer, learning_curve, training_arguments
from cpmi_dagster.tree_forward.row_readers import check_token_ids

HEAD_LAYERS: dict[Head, int] = {"two_layer": 2, "linear": 1}
NO_CHECKPOINTS = ".checkpoints"
"""Folder that a trainer makes, though nothing is saved in it."""


def train_reward_model(
    examples: pl.DataFrame,
    recipe: Recipe,
    training: Training,
    backbone: LanguageModel | LoadedModel | Path | str,
    output: Path,
    seed: int,
    progress: Callable[[int], None] | None = None,
    data_version: str = "",
    checkpoints: Path | None = None,
    gpu: str | None = None,
    features: pl.DataFrame | None = None,
) -> TrainedModel:
    """Train one recipe and write the model.

    Args:
        examples: trajectory_id, question_id, question, steps, labels (soft labels in [0, 1], one per step).
        recipe: objective, seed, and changes of `training`.
        backbone: the decoder to start from: settings, a loaded model (which is copied), a folder or hub id.
        output: the model folder; a model in it is replaced once the new one is complete.
        seed: seed of the head, the validation split and the order of examples; on one CPU it fixes every weight.
        progress: called with the number of trajectories just trained on, counting each epoch.
        data_version: hash of the soft labels, for the model card.
        checkpoints: folder of checkpoints to resume from, for these examples and settings only; the caller removes
            it. If None, no checkpoints are saved.
        gpu: the GPU to train on, if it is not the first and `training.accelerate` names none.
        features: trajectory_id, step_index, feature: hidden states of the steps; only the head is trained.

    Raises:
        ModelError: the backbone cannot be loaded.
        TrainingError: the examples cannot be trained on, the loss stopped being finite, or a process failed.
    """
    changed = recipe.trained_with(training)
    if not isinstance(backbone, LanguageModel | LoadedModel):
        backbone = LanguageModel(name=str(backbone))
    job = Job(examples, recipe, changed, backbone, seed + recipe.seed, checkpoints, features)
    configuration = changed.accelerate or ({"gpu_ids": gpu} if gpu and features is None else None)
    with replace_folder(output) as folder:
        advance = progress or (lambda count: None)
        trained = launch(job, configuration, folder, advance) if configuration else fit(job, folder, advance)
        card = model_card(recipe, changed, trained, data_version, output.name)
        (folder / "README.md").write_text(card, encoding="utf-8")
        write_digests(folder)
    return replace(trained, path=output, weights_fingerprint=weights_hash(output))


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
        if job.features is not None:
            changed |= {"checkpoints": 0, "bf16": False}  # a head is trained in minutes, and in full precision
        elif job.checkpoints is None:
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
    scale, on_cpu = None if states is None else StateScale.of(data.train), start.on_cpu
    if scale is None:
        largest = (max(example.encoded.token_ids) for example in (*data.train, *data.validation))
        check_token_ids(start.model.backbone, start.identity, largest)
        learner, batched = start.model, collate
    else:
        learner, batched, on_cpu = start.model.head, scale.collate, on_cpu or not torch.cuda.is_available()
    saves = job.checkpoints or folder / NO_CHECKPOINTS
    arguments = training_arguments(training, job.seed, bool(data.validation), on_cpu, saves)
    trainer = StepTrainer(job.recipe, learner, arguments, training, data, progress, batched)
    checkpoint = last_checkpoint(job.checkpoints)
    trainer.args.eval_on_start = bool(data.validation) and checkpoint is None
    trainer.train(resume_from_checkpoint=checkpoint)
    trainer.accelerator.wait_for_everyone()
    # all processes take part in gathering the weights that FSDP shards
    weights = trainer.accelerator.get_state_dict(trainer.model_wrapped) if trainer.is_fsdp_enabled else None
    curve = learning_curve(trainer.state.log_history)
    if trainer.is_world_process_zero():
        shutil.rmtree(folder / NO_CHECKPOINTS, ignore_errors=True)
        if weights is not None:
            start = _start(job)
            start.model.load_state_dict(weights)
        if scale is not None:
            start.model.head.standardise(*scale)
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


if __name__ == "__main__":
    train_launched(Path(sys.argv[1]), fit)
