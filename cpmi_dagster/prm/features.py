"""Heads on a frozen backbone: hidden states at the ends of steps are computed once, and every head learns from them.

in   trajectory_id  question       steps
     t000000017     What is ...    [First, ..., Then ...]
out  trajectory_id  step_index  feature
     t000000017     0           [0.31, -1.20, …]     (hidden size)
     t000000017     1           [0.28, 0.44, …]
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count, islice
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import polars as pl
import torch
from safetensors import safe_open
from torch import Tensor
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoConfig, get_linear_schedule_with_warmup

from cpmi_dagster.errors import ModelError
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.models.safe_loading import DATA_ONLY, reading_model
from cpmi_dagster.prm.examples import LabelledSolution, TrainingSet
from cpmi_dagster.prm.inputs import encode_solutions, pad_rows
from cpmi_dagster.prm.model import RewardHead, RewardModelConfig, decoder_of
from cpmi_dagster.prm.objectives import Loss
from cpmi_dagster.prm.scoring import StepReader, probabilities, read_steps
from cpmi_dagster.prm.settings import Training
from cpmi_dagster.prm.trainer import CURVE_SPACING, CurvePoint, check_loss

STATES = "hidden states"
"""Key in `LoadedModel.remembered` of the decoder and of what is known about reading it."""
SMALLEST_DEVIATION = 1e-6
LARGEST_GRADIENT = 1.0
"""Norm that gradients are clipped to, as `transformers` does by default."""


def step_features(
    model: LoadedModel,
    solutions: pl.DataFrame,
    batch_tokens: int,
    max_tokens: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> pl.DataFrame:
    """The last hidden state of a model's decoder at the last token of every step.

    Args:
        solutions: as for `scoring.score_steps`.
        batch_tokens: most tokens read at once, padding included.
        max_tokens: whole steps beyond this or the model's context are dropped, as in training; if None, a longer
            solution is an error.
        progress: called with the number of solutions just read.

    Returns:
        The other columns of `solutions`, `step_index` and `feature`, a list of float32.

    Raises:
        ModelError: the model has no decoder, or the decoder is not causal.
        ScoringError: a solution is longer than the model's context, or a state is not finite.
    """
    if STATES not in model.remembered:
        model.remembered[STATES] = decoder_of(model), {}
    decoder, remembered = model.remembered[STATES]
    limit = None if max_tokens is None else min(max_tokens, model.context_length)
    encode = partial(encode_solutions, model.tokenizer, max_tokens=limit)
    reader = StepReader(decoder, encode, model.identity, model.context_length, remembered=remembered)
    return read_steps(reader, solutions, "feature", Tensor.float, batch_tokens, progress)


def states_of(examples: pl.DataFrame, features: pl.DataFrame) -> list[Tensor]:
    """Hidden states of each example, (steps that fit, hidden size)."""
    wanted = features.join(examples, on="trajectory_id", how="semi").sort("trajectory_id", "step_index")
    states, counts = _states(wanted), wanted.group_by("trajectory_id", maintain_order=True).len()
    known = dict(zip(counts["trajectory_id"], states.split(counts["len"].to_list()), strict=True))
    return [known.get(name, states[:0]) for name in examples["trajectory_id"]]


def train_head(
    head: RewardHead,
    data: TrainingSet,
    recipe: str,
    loss: Loss,
    training: Training,
    seed: int,
    progress: Callable[[int], None],
) -> list[CurvePoint]:
    """Train a head in place on hidden states, as `trainer.StepTrainer` trains a model on tokens.

    States are standardised, so that one learning rate fits all backbones; at the end, the standardisation is folded
    into the first layer.

    Args:
        data: hidden states, from `states_of`.
        recipe: name of the recipe, for errors.
        progress: called with the number of examples just trained on.

    Returns:
        The learning curve.

    Raises:
        TrainingError: a loss is not finite.
    """
    states, device = torch.cat([example.encoded for example in data.train]), head.output.weight.device
    mean, deviation = states.mean(0), states.std(0, correction=0).clamp_min(SMALLEST_DEVIATION)
    updates = math.ceil(len(data.train) / training.batch_size / training.gradient_accumulation)
    steps = math.ceil(training.epochs * updates)
    curve: list[CurvePoint] = []

    def loss_of(batch: Sequence[LabelledSolution]) -> Tensor:
        inputs = pad_sequence([(example.encoded - mean) / deviation for example in batch], batch_first=True)
        labels, is_step = pad_rows([example.labels for example in batch], torch.float32)
        return loss(head(inputs.to(device)), labels.to(device), is_step.to(device))

    @torch.no_grad()
    def validation_loss() -> float:
        batches = _batches(data.validation, training.batch_size)
        return sum(len(batch) * loss_of(batch).item() for batch in batches) / len(data.validation)

    def note(step: int, split: str, value: float) -> None:
        check_loss(recipe, step, value)
        curve.append({"step": step, "epoch": step / updates, "split": split, "loss": value})

    groups = [
        {"params": [each for each in head.parameters() if (each.ndim > 1) == decays], "weight_decay": decay}
        for decays, decay in ((True, training.weight_decay), (False, 0.0))
    ]
    optimizer = torch.optim.AdamW(groups, lr=training.head_learning_rate, fused=True)
    schedule = get_linear_schedule_with_warmup(optimizer, math.ceil(steps * training.warmup_ratio), steps)
    losses: list[float] = []
    if data.validation:
        note(0, "validation", validation_loss())
    for step, batches in enumerate(islice(_updates(data.train, training, seed), steps), start=1):
        mean_loss = torch.stack([loss_of(batch) for batch in batches]).mean()
        optimizer.zero_grad()
        mean_loss.backward()
        clip_grad_norm_(head.parameters(), LARGEST_GRADIENT)
        optimizer.step()
        schedule.step()
        progress(sum(map(len, batches)))
        losses.append(mean_loss.item())
        if step % math.ceil(steps * CURVE_SPACING) == 0:
            note(step, "train", fmean(losses))
            losses.clear()
        if data.validation and (step % math.ceil(steps / training.validations) == 0 or step == steps):
            note(step, "validation", validation_loss())
    with torch.no_grad():
        first = head.output if head.is_linear else head.hidden
        first.weight.div_(deviation.to(device))
        first.bias.sub_(first.weight @ mean.to(device))
    return curve


def _updates(examples: Sequence[Any], training: Training, seed: int) -> Iterator[list[list[Any]]]:
    """The batches of each optimiser step, epoch after epoch."""
    for epoch in count():
        rng = np.random.default_rng((seed, epoch))
        batches = _batches([examples[index] for index in rng.permutation(len(examples))], training.batch_size)
        whole = len(examples) // training.batch_size
        batches[:whole] = [batches[index] for index in rng.permutation(whole)]
        yield from _batches(batches, training.gradient_accumulation)


def _batches(items: list[Any], size: int) -> list[list[Any]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def load_reward_head(folder: Path) -> RewardHead:
    """Load the head of a trained reward model without its backbone.

    Raises:
        ModelError: the folder holds no reward model.
    """
    with reading_model(f"the reward model in {folder}"):
        config = AutoConfig.from_pretrained(folder, **DATA_ONLY)
        if not isinstance(config, RewardModelConfig):
            raise ModelError(f"{folder} holds no reward model as training writes it")
        head = RewardHead(config)  # float32, as saved
        weights: dict[str, Tensor] = {}
        for file in sorted(folder.glob("*.safetensors")):
            with safe_open(file, framework="pt") as stored:
                names = [name for name in stored.keys() if name.startswith("head.")]  # noqa: SIM118
                weights |= {name.removeprefix("head."): stored.get_tensor(name) for name in names}
        head.load_state_dict(weights)
    return head.eval()


@torch.inference_mode()
def score_features(head: RewardHead, features: pl.DataFrame) -> pl.DataFrame:
    """The probability that each step is right: rows of `step_features`, with `probability` for `feature`."""
    states = _states(features) if features.height else torch.empty(0, head.output.in_features)
    return features.drop("feature").with_columns(probability=pl.Series(probabilities(head(states)).numpy()))


def _states(features: pl.DataFrame) -> Tensor:
    """The hidden states of a frame, (rows, hidden size)."""
    width = len(features["feature"][0]) if features.height else 0
    return torch.tensor(features["feature"].explode().to_numpy()).reshape(features.height, width)
