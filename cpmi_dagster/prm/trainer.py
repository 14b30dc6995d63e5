"""A `transformers.Trainer` with step losses and a learning rate for the head; it prints nothing.

The learning curve has about a hundred training losses, and validation losses from before the first step:

    {"step": 0, "epoch": 0.0, "split": "validation", "loss": 0.694}
    {"step": 18, "epoch": 1.0, "split": "train", "loss": 0.641}
    {"step": 18, "epoch": 1.0, "split": "validation", "loss": 0.655}
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Sampler
from transformers import PrinterCallback, Trainer, TrainingArguments

from cpmi_dagster.errors import TrainingError
from cpmi_dagster.models.memory import training_tokens
from cpmi_dagster.prm.examples import LabelledSolution, TrainingSet
from cpmi_dagster.prm.inputs import pad_batch, pad_rows
from cpmi_dagster.prm.model import RewardHead, RewardModel
from cpmi_dagster.prm.objectives import Loss
from cpmi_dagster.prm.settings import Training

CurvePoint = dict[str, Any]
CURVE_SPLITS = {"loss": "train", "eval_loss": "validation"}
CURVE_SPACING = 0.01
ALL_STEPS = 0.999
"""Share of all steps; `transformers` reads 1 as one step."""
SORTED_TOGETHER = 50


class SimilarLengthSampler(Sampler[int]):
    """Indices of training examples in batches of similar length, since padding costs as much as text.

    Random chunks of 50 batches are sorted by length and cut into batches in random order, which depends on seed and
    epoch only, so a resumed training sees the same batches.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int = 0) -> None:
        self.lengths, self.batch_size, self.seed, self.epoch = np.array(lengths, int), batch_size, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Set the next epoch, counted from 0."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        rng = np.random.default_rng((self.seed, self.epoch))
        order, chunks = rng.permutation(len(self)), np.arange(len(self)) // (SORTED_TOGETHER * self.batch_size)
        order = order[np.lexsort((self.lengths[order], chunks))]
        whole = len(self) // self.batch_size
        batches, rest = np.split(order, [whole * self.batch_size])
        shuffled = batches.reshape(whole, self.batch_size)[rng.permutation(whole)]
        return iter([*shuffled.ravel().tolist(), *rest.tolist()])


class StepTrainer(Trainer):
    """Minimises a loss over step logits, of a model that reads tokens or a head that reads hidden states.

    The head has its own learning rate. A batch of tokens whose activations do not fit the memory is read in parts, with
    the same gradient.
    """

    loss_is_scaled_for_ga = False
    _share = 1.0
    """Of the part that is read, in the loss of its batch."""

    def __init__(
        self,
        recipe: str,
        model: RewardModel | RewardHead,
        arguments: TrainingArguments,
        loss: Loss,
        training: Training,
        data: TrainingSet,
        progress: Callable[[int], None],
        units: Callable[[Tensor], Tensor],
        collate: Callable[[Sequence[LabelledSolution]], dict[str, Tensor]],
    ) -> None:
        """Make a trainer.

        Args:
            recipe: name of the recipe, for errors.
            units: see `loss_units`.
            collate: from examples to a batch of the model's inputs, `step_mask` and `labels`.
            arguments: made of `training` by `training_arguments`.
            progress: called with the number of examples just trained on, including those before a checkpoint.
        """
        self.recipe, self.step_loss, self.head_learning_rate = recipe, loss, training.head_learning_rate
        self.examples, self.progress, self.reported = round(len(data.train) * training.epochs), progress, 0
        self.lengths = [example.tokens for example in data.train]
        by_length: Any = sorted(data.validation, key=lambda example: example.tokens)
        train: Any = data.train
        super().__init__(model, arguments, collate, train_dataset=train, eval_dataset=by_length or None)
        self.remove_callback(PrinterCallback)
        self.units, self.most_tokens = units, None
        # processes that read different numbers of parts would wait for each other
        if isinstance(model, RewardModel) and arguments.world_size == 1:
            config, bytes_each = model.backbone.config, 2 if arguments.bf16 else 4
            self.most_tokens = training_tokens(config, bytes_each, arguments.device, training.gradient_checkpointing)

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """The mean loss of a batch; adds its gradient, part by part."""
        parts, whole = split_batch(inputs, self.most_tokens), self.units(inputs["step_mask"]).sum().clamp(min=1)
        losses = []
        for part in parts:
            self._share = float(self.units(part["step_mask"]).sum() / whole)
            losses.append(super().training_step(model, part, num_items_in_batch))
        self._share = 1.0
        return torch.stack(losses).sum()

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Mean loss of a batch."""
        read = {name: tensor for name, tensor in inputs.items() if name not in ("labels", "step_mask")}
        outputs = model(**read)
        logits = outputs if isinstance(outputs, Tensor) else outputs.logits
        loss = self.step_loss(logits, inputs["labels"], inputs["step_mask"]) * self._share
        return (loss, outputs) if return_outputs else loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Report progress with every loss.

        Raises:
            TrainingError: a loss is not finite.
        """
        for key in CURVE_SPLITS:
            if not math.isfinite(loss := logs.get(key, 0.0)):
                raise TrainingError(
                    f"training recipe {self.recipe} has a loss of {loss} at optimiser step {self.state.global_step}; "
                    "lower training.learning_rate or training.head_learning_rate"
                )
        done = round(self.examples * self.state.global_step / max(self.state.max_steps, 1))
        if done > self.reported:
            self.progress(done - self.reported)
            self.reported = done
        super().log(logs, start_time)

    def _get_train_sampler(self, train_dataset: Any = None) -> SimilarLengthSampler:
        return SimilarLengthSampler(self.lengths, self.args.train_batch_size, self.args.seed)

    def create_optimizer(self, model: Any = None) -> Any:
        """AdamW of `transformers`, with weight decay on matrices only, and a learning rate for the head."""
        if self.optimizer is None:
            trained: Any = model or self.model
            named, optimizer = trained.named_parameters(), super().create_optimizer(model)
            of_head = {id(parameter) for name, parameter in named if "backbone" not in name.split(".")}
            for group in list(optimizer.param_groups):
                head = [parameter for parameter in group["params"] if id(parameter) in of_head]
                group["params"] = [parameter for parameter in group["params"] if id(parameter) not in of_head]
                optimizer.add_param_group({**group, "params": head, "lr": self.head_learning_rate})
        return self.optimizer


def learning_curve(log_history: Sequence[dict[str, Any]]) -> list[CurvePoint]:
    """The losses in a trainer's log, which a checkpoint keeps: step, epoch, split, loss."""
    return [
        {"step": entry["step"], "epoch": float(entry["epoch"]), "split": split, "loss": float(entry[key])}
        for entry in log_history
        for key, split in CURVE_SPLITS.items()
        if key in entry
    ]


def training_arguments(training: Training, seed: int, validate: bool, on_cpu: bool, saves: Path) -> TrainingArguments:
    """Convert training settings to arguments of `transformers`; nothing is printed or reported.

    Args:
        on_cpu: train on the CPU even if there is an accelerator.
        saves: folder of checkpoints.
    """
    cuda = torch.cuda.is_available() and not on_cpu
    arguments = TrainingArguments(
        output_dir=str(saves),
        learning_rate=training.learning_rate,
        num_train_epochs=training.epochs,
        per_device_train_batch_size=training.batch_size,
        per_device_eval_batch_size=training.batch_size,
        gradient_accumulation_steps=training.gradient_accumulation,
        warmup_steps=training.warmup_ratio,
        weight_decay=training.weight_decay,
        bf16=training.bf16 and cuda and torch.cuda.is_bf16_supported(),
        activation_checkpointing=training.gradient_checkpointing,
        seed=seed,
        # processes on CPUs communicate only if it is set
        use_cpu=on_cpu or not torch.accelerator.is_available(),
        remove_unused_columns=False,
        label_names=["labels"],
        prediction_loss_only=True,
        dataloader_pin_memory=cuda,
        eval_strategy="steps" if validate else "no",
        eval_steps=min(1 / training.validations, ALL_STEPS),
        save_strategy="steps" if training.checkpoints else "no",
        save_steps=min(1 / max(training.checkpoints, 1), ALL_STEPS),
        save_total_limit=1,
        restore_callback_states_from_checkpoint=True,
        logging_strategy="steps",
        logging_steps=CURVE_SPACING,
        logging_nan_inf_filter=False,
        disable_tqdm=True,
        log_level="error",
    )
    if arguments.world_size == 1:
        # private in transformers 5.23: with more, the trainer would wrap the model in `DataParallel`
        arguments._n_gpu = min(1, arguments.n_gpu)
    return arguments


def collate(examples: Sequence[LabelledSolution]) -> dict[str, Tensor]:
    """Pad examples to a batch of the model's inputs, `step_mask` and `labels`."""
    inputs, step_mask = pad_batch([example.encoded for example in examples])
    labels, _ = pad_rows([example.labels for example in examples], torch.float32)
    return {**inputs, "step_mask": step_mask, "labels": labels}


def split_batch(batch: Mapping[str, Tensor], most_tokens: int | None) -> list[dict[str, Tensor]]:
    """Parts of a batch of `collate` of at most so many tokens with padding, or of one solution; None splits nothing."""
    if most_tokens is None:
        return [dict(batch)]
    tokens, steps = (batch[name].sum(dim=1).tolist() for name in ("attention_mask", "step_mask"))
    bounds, longest = [0], 0
    for row, count in enumerate(tokens):
        longest = max(longest, count)
        if row > bounds[-1] and longest * (row + 1 - bounds[-1]) > most_tokens:
            bounds.append(row)
            longest = count
    parts = []
    for first, end in pairwise([*bounds, len(tokens)]):
        longest, most_steps = max(tokens[first:end]), max(1, *steps[first:end])
        widths = {name: longest if name in ("input_ids", "attention_mask") else most_steps for name in batch}
        parts.append({name: each[first:end, : widths[name]] for name, each in batch.items()})
    return parts
