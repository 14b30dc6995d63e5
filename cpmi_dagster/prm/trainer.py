"""A `transformers.Trainer` that knows step losses, two learning rates and nothing else: it writes and prints nothing.

The learning curve it keeps is a list of points, about a hundred for the training loss and one per epoch for validation:

    {"step": 18, "epoch": 1.0, "split": "train", "loss": 0.641}
    {"step": 18, "epoch": 1.0, "split": "validation", "loss": 0.655}
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from cpmi_dagster import settings
from cpmi_dagster.prm.batching import SimilarLengthSampler
from cpmi_dagster.prm.examples import LabelledSolution
from cpmi_dagster.prm.inputs import EncodedSolution, pad_batch, pad_rows
from cpmi_dagster.prm.model import RewardModel
from cpmi_dagster.prm.objectives import Loss

CurvePoint = dict[str, Any]
CURVE_SPLITS = {"loss": "train", "eval_loss": "validation"}
CURVE_SPACING = 0.01


class StepTrainer(Trainer):
    """Minimises a loss over step logits, with a learning rate of its own for the head."""

    loss_is_scaled_for_ga = False

    def __init__(
        self,
        model: RewardModel,
        arguments: TrainingArguments,
        loss: Loss,
        head_learning_rate: float,
        train: Sequence[LabelledSolution],
        validation: Sequence[LabelledSolution],
        callbacks: list[TrainerCallback],
    ) -> None:
        """Args as for `Trainer`; `loss` as made by `objectives.objective`; no validation if its sequence is empty."""
        by_length = sorted(validation, key=lambda example: len(example.encoded.token_ids))
        super().__init__(
            model,
            arguments,
            data_collator=collate,
            train_dataset=[_as_features(example) for example in train],  # pyright: ignore[reportArgumentType]
            eval_dataset=[_as_features(example) for example in by_length] or None,  # pyright: ignore[reportArgumentType]
            callbacks=callbacks,
        )
        self.train_lengths = [len(example.encoded.token_ids) for example in train]
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

    def _get_train_sampler(self, train_dataset: Any = None) -> SimilarLengthSampler:
        return SimilarLengthSampler(self.train_lengths, self.args.train_batch_size)

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """AdamW with weight decay on matrices only and the head's own learning rate."""
        if self.optimizer is None:
            trained: Any = self.model if model is None else model
            optimizer_class, options = self.get_optimizer_cls_and_kwargs(self.args, trained)
            self.optimizer = optimizer_class(self._parameter_groups(trained), **options)
        return self.optimizer

    def _parameter_groups(self, model: torch.nn.Module) -> list[dict[str, Any]]:
        decayed = set(self.get_decay_parameter_names(model))
        groups: dict[tuple[bool, bool], list[torch.nn.Parameter]] = {}
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                groups.setdefault((_is_head(name), name in decayed), []).append(parameter)
        return [
            {
                "params": parameters,
                "lr": self.head_learning_rate if head else self.args.learning_rate,
                "weight_decay": self.args.weight_decay if decay else 0.0,
            }
            for (head, decay), parameters in groups.items()
        ]


class CurveRecorder(TrainerCallback):
    """Keeps the learning curve, and reports how many examples have been trained on.

    Args:
        examples: examples a whole training goes through, all epochs together.
        progress: called with the number of examples just finished.
    """

    def __init__(self, examples: int, progress: Callable[[int], None] | None = None) -> None:
        self.points: list[CurvePoint] = []
        self._examples = examples
        self._progress = progress
        self._reported = 0

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add a point for each loss in the log."""
        for key, split in CURVE_SPLITS.items():
            if key in (logs or {}):
                loss = float((logs or {})[key])
                self.points.append(
                    {"step": state.global_step, "epoch": state.epoch or 0.0, "split": split, "loss": loss}
                )

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Report the examples of the optimiser step that has ended."""
        done = round(self._examples * state.global_step / max(state.max_steps, 1))
        if self._progress is not None:
            self._progress(done - self._reported)
        self._reported = done


def training_arguments(
    training: settings.Training, seed: int, validate: bool, folder: str, on_cpu: bool
) -> TrainingArguments:
    """The profile's training settings in `transformers`' terms: one device, nothing saved, printed or reported.

    Args:
        folder: an existing folder; nothing is written there.
        on_cpu: train on the CPU even where there is an accelerator.
    """
    cuda = torch.cuda.is_available() and not on_cpu
    arguments = TrainingArguments(
        output_dir=folder,
        learning_rate=training.learning_rate,
        num_train_epochs=training.epochs,
        per_device_train_batch_size=training.batch_size,
        per_device_eval_batch_size=training.batch_size,
        gradient_accumulation_steps=training.gradient_accumulation,
        warmup_steps=training.warmup_ratio,
        weight_decay=training.weight_decay,
        bf16=training.bf16 and cuda and torch.cuda.is_bf16_supported(),
        seed=seed,
        use_cpu=on_cpu,
        remove_unused_columns=False,
        label_names=["labels"],
        prediction_loss_only=True,
        dataloader_pin_memory=cuda,
        eval_strategy="epoch" if validate else "no",
        save_strategy="no",
        logging_strategy="steps",
        logging_steps=CURVE_SPACING,
        logging_nan_inf_filter=False,
        report_to="none",
        disable_tqdm=True,
        log_level="error",
    )
    arguments._n_gpu = min(1, arguments.n_gpu)
    return arguments


def collate(features: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
    """Examples -> one padded batch: the model's inputs, `step_mask` and `labels`."""
    inputs, step_mask = pad_batch([EncodedSolution(f["input_ids"], f["step_positions"]) for f in features])
    labels, _ = pad_rows([f["labels"] for f in features], torch.float32)
    return {**inputs, "step_mask": step_mask, "labels": labels}


def _as_features(example: LabelledSolution) -> dict[str, Any]:
    encoded = example.encoded
    return {"input_ids": encoded.token_ids, "step_positions": encoded.step_positions, "labels": example.labels}


def _is_head(name: str) -> bool:
    return "backbone" not in name.split(".")
