"""A `transformers.Trainer` with step losses and two learning rates; it prints nothing.

Batches hold solutions of similar length, since padding costs as much as text: (210, 205), (90, 87), (143, 140).

The learning curve is a list of points, about a hundred for the training loss; validation starts before the first step:

    {"step": 0, "epoch": 0.0, "split": "validation", "loss": 0.694}
    {"step": 18, "epoch": 1.0, "split": "train", "loss": 0.641}
    {"step": 18, "epoch": 1.0, "split": "validation", "loss": 0.655}
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Sampler
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from cpmi_dagster.errors import TrainingError
from cpmi_dagster.prm.examples import LabelledSolution
from cpmi_dagster.prm.inputs import pad_batch, pad_rows
from cpmi_dagster.prm.objectives import Loss
from cpmi_dagster.prm.settings import Training

CurvePoint = dict[str, Any]
CURVE_SPLITS = {"loss": "train", "eval_loss": "validation"}
CURVE_SPACING = 0.01
ALL_STEPS = 0.999
"""As a share of all steps; `transformers` reads 1 as one step."""
SORTED_TOGETHER = 50


class SimilarLengthSampler(Sampler[int]):
    """Indices of training examples: random, but each run of `batch_size` indices has similar lengths.

    Random chunks of 50 batches are sorted by length and cut into batches, whose order is random again. The order
    depends on seed and epoch alone, so a training that resumes in the middle of an epoch sees the same batches.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int = 0) -> None:
        """Tokens of each example, examples of one batch, and the seed of the order."""
        self.lengths = lengths
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Which epoch comes next, from 0."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Number of examples."""
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        """One epoch."""
        rng = np.random.default_rng((self.seed, self.epoch))
        order = rng.permutation(len(self.lengths)).tolist()
        chunk = SORTED_TOGETHER * self.batch_size
        by_length = [
            index
            for start in range(0, len(order), chunk)
            for index in sorted(order[start : start + chunk], key=lambda index: self.lengths[index])
        ]
        batches = [by_length[start : start + self.batch_size] for start in range(0, len(order), self.batch_size)]
        whole = [batch for batch in batches if len(batch) == self.batch_size]
        shuffled = [whole[index] for index in rng.permutation(len(whole))]
        return (index for batch in [*shuffled, *batches[len(whole) :]] for index in batch)


class StepTrainer(Trainer):
    """Minimises a loss over step logits, with a learning rate of its own for the head."""

    loss_is_scaled_for_ga = False

    def __init__(
        self,
        name: str,
        model: nn.Module,
        arguments: TrainingArguments,
        loss: Loss,
        head_learning_rate: float,
        train: Sequence[LabelledSolution],
        validation: Sequence[LabelledSolution],
        callbacks: list[TrainerCallback],
    ) -> None:
        """Args as for `Trainer`, and the recipe's name; `loss` as made by `objectives.objective`.

        There is no validation if its sequence is empty.
        """
        by_length = sorted(validation, key=lambda example: len(example.encoded.token_ids))
        super().__init__(
            model,  # pyright: ignore[reportArgumentType]
            arguments,
            data_collator=collate,
            train_dataset=train,  # pyright: ignore[reportArgumentType]
            eval_dataset=by_length or None,  # pyright: ignore[reportArgumentType]
            callbacks=callbacks,
        )
        self.train_lengths = [len(example.encoded.token_ids) for example in train]
        self.name = name
        self._started = time.perf_counter()
        self.loss = loss
        self.head_learning_rate = head_learning_rate
        self.remove_callback(PrinterCallback)

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """Mean loss of one batch as `collate` makes it."""
        inputs = dict(inputs)
        labels, step_mask = inputs.pop("labels"), inputs.pop("step_mask")
        outputs = model(**inputs)
        loss = self.loss(outputs.logits, labels, step_mask)
        return (loss, outputs) if return_outputs else loss

    @property
    def seconds(self) -> float:
        """Wall time of training so far, with that before the checkpoint it resumed from."""
        return max((entry.get("seconds", 0.0) for entry in self.state.log_history), default=0.0)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Keep the time with every loss: a checkpoint holds the log.

        Raises:
            TrainingError: a loss is not finite.
        """
        for name in CURVE_SPLITS:
            if not math.isfinite(logs.get(name, 0.0)):
                raise TrainingError(
                    f"training recipe {self.name} has a loss of {logs[name]} at optimiser step "
                    f"{self.state.global_step}; lower training.learning_rate or training.head_learning_rate"
                )
        now = time.perf_counter()
        super().log({**logs, "seconds": self.seconds + now - self._started}, start_time)
        self._started = now

    def _get_train_sampler(self, train_dataset: Any = None) -> SimilarLengthSampler:
        return SimilarLengthSampler(self.train_lengths, self.args.train_batch_size, self.args.seed)

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """AdamW with weight decay on matrices only and the head's own learning rate."""
        if self.optimizer is None:
            trained: Any = self.model if model is None else model
            decayed = set(self.get_decay_parameter_names(trained))
            groups: dict[tuple[bool, bool], dict[str, Any]] = {}
            for name, parameter in trained.named_parameters():
                if parameter.requires_grad:
                    is_head, decays = "backbone" not in name.split("."), name in decayed
                    settings = {
                        "lr": self.head_learning_rate if is_head else self.args.learning_rate,
                        "weight_decay": self.args.weight_decay if decays else 0.0,
                    }
                    group = groups.setdefault((is_head, decays), {"params": [], **settings})
                    group["params"].append(parameter)
            optimizer_class, options = self.get_optimizer_cls_and_kwargs(self.args, trained)
            self.optimizer = optimizer_class(list(groups.values()), **options)
        return self.optimizer


class ProgressReporter(TrainerCallback):
    """Reports how many examples have been trained on; those before the checkpoint that training resumes from count.

    Args:
        examples: examples a whole training goes through, all epochs together.
    """

    def __init__(self, examples: int, progress: Callable[[int], None]) -> None:
        self._examples = examples
        self._progress = progress
        self._reported = 0

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Report the examples of the optimiser step that has ended."""
        done = round(self._examples * state.global_step / max(state.max_steps, 1))
        self._progress(done - self._reported)
        self._reported = done


def learning_curve(log_history: Sequence[dict[str, Any]]) -> list[CurvePoint]:
    """The losses in a trainer's log, which a checkpoint keeps: step, epoch, split, loss."""
    return [
        {"step": entry["step"], "epoch": float(entry["epoch"]), "split": split, "loss": float(entry[key])}
        for entry in log_history
        for key, split in CURVE_SPLITS.items()
        if key in entry
    ]


def training_arguments(training: Training, seed: int, validate: bool, on_cpu: bool, saves: Path) -> TrainingArguments:
    """The profile's training settings in `transformers`' terms: nothing printed or reported.

    Args:
        on_cpu: train on the CPU even where there is an accelerator.
        saves: folder for what is saved on the way.
    """
    cuda = torch.cuda.is_available() and not on_cpu
    keep_best = validate and training.early_stopping is not None
    # the best weights can only be kept if each validation is saved
    spacing = 1 / (training.validations if keep_best else max(training.checkpoints, 1))
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
        # set even where there is only a CPU: processes on CPUs communicate only then
        use_cpu=on_cpu or not torch.accelerator.is_available(),
        remove_unused_columns=False,
        label_names=["labels"],
        prediction_loss_only=True,
        dataloader_pin_memory=cuda,
        eval_strategy="steps" if validate else "no",
        eval_steps=min(1 / training.validations, ALL_STEPS),
        save_strategy="steps" if training.checkpoints or keep_best else "no",
        save_steps=min(spacing, ALL_STEPS),
        save_total_limit=2 if keep_best else 1,
        restore_callback_states_from_checkpoint=True,
        load_best_model_at_end=keep_best,
        metric_for_best_model="eval_loss" if keep_best else None,
        greater_is_better=False if keep_best else None,
        logging_strategy="steps",
        logging_steps=CURVE_SPACING,
        logging_nan_inf_filter=False,
        report_to="none",
        disable_tqdm=True,
        log_level="error",
    )
    if arguments.world_size == 1:
        # private in transformers 5.23: with more, the trainer would wrap the model in `DataParallel`
        arguments._n_gpu = min(1, arguments.n_gpu)
    return arguments


def collate(examples: Sequence[LabelledSolution]) -> dict[str, Tensor]:
    """Examples -> one padded batch: the model's inputs, `step_mask` and `labels`."""
    inputs, step_mask = pad_batch([example.encoded for example in examples])
    labels, _ = pad_rows([example.labels for example in examples], torch.float32)
    return {**inputs, "step_mask": step_mask, "labels": labels}
