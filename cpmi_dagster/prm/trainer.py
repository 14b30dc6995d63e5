"""A `transformers.Trainer` with losses over steps and a learning rate for the head; it prints nothing.

A loss takes step logits and soft labels (Eq. 5 and the objectives table):

    logits   [[ 2.0, -1.0,  0.0]]      one row per trajectory, padded
    labels   [[ 0.9,  0.2,  0.0]]      soft labels in [0, 1]
    mask     [[ yes,  yes,   no]]      which entries are steps
    bce = mean of 0.327 and 0.513 = 0.420

The learning curve has about a hundred training losses, and validation losses from before the first step:

    {"step": 0, "epoch": 0.0, "split": "validation", "loss": 0.694}
    {"step": 18, "epoch": 1.0, "split": "train", "loss": 0.641}
    {"step": 18, "epoch": 1.0, "split": "validation", "loss": 0.655}
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import Sampler
from transformers import PrinterCallback, Trainer, TrainingArguments

from cpmi_dagster.errors import TrainingError
from cpmi_dagster.models.memory import training_tokens
from cpmi_dagster.prm.inputs import LabelledSolution, TrainingSet
from cpmi_dagster.prm.model import RewardHead, RewardModel
from cpmi_dagster.prm.settings import Objective, Recipe, Training

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Logits, labels and mask, (trajectories, steps) -> a scalar."""
CORRECT_FROM = 0.5
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
        recipe: Recipe,
        model: RewardModel | RewardHead,
        arguments: TrainingArguments,
        training: Training,
        data: TrainingSet,
        progress: Callable[[int], None],
        collate: Callable[[Sequence[LabelledSolution]], dict[str, Tensor]],
    ) -> None:
        """Make a trainer.

        Args:
            arguments: made of `training` by `training_arguments`.
            progress: called with the number of examples just trained on, including those before a checkpoint.
            collate: from examples to a batch of the model's inputs, `step_mask` and `labels`.
        """
        self.recipe, self.head_learning_rate = recipe, training.head_learning_rate
        self.step_loss = objective(recipe.objective, training.pqm_margin)
        self.examples, self.progress, self.reported = round(len(data.train) * training.epochs), progress, 0
        self.lengths = [example.tokens for example in data.train]
        by_length: Any = sorted(data.validation, key=lambda example: example.tokens)
        train: Any = data.train
        super().__init__(model, arguments, collate, train_dataset=train, eval_dataset=by_length or None)
        self.remove_callback(PrinterCallback)
        self.most_tokens: int | None = None
        # processes that read different numbers of parts would wait for each other
        if isinstance(model, RewardModel) and arguments.world_size == 1:
            config, bytes_each = model.backbone.config, 2 if arguments.bf16 else 4
            self.most_tokens = training_tokens(config, bytes_each, arguments.device, training.gradient_checkpointing)

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """The mean loss of a batch; adds its gradient, part by part."""
        units = partial(loss_units, self.recipe.objective)
        parts, whole = split_batch(inputs, self.most_tokens), units(inputs["step_mask"]).sum().clamp(min=1)
        losses = []
        for part in parts:
            self._share = float(units(part["step_mask"]).sum() / whole)
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
        step = self.state.global_step
        for key in CURVE_SPLITS:
            if not math.isfinite(loss := logs.get(key, 0.0)):
                raise TrainingError(
                    f"training recipe {self.recipe.name} has a loss of {loss} at optimiser step {step}; lower "
                    "training.learning_rate or training.head_learning_rate"
                )
        done = round(self.examples * step / max(self.state.max_steps, 1))
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


def objective(name: Objective, margin: float = 4.0) -> Loss:
    """A loss by name; `margin` is zeta of PQM."""
    pqm = partial(process_q_ranking, margin=margin)
    losses: dict[Objective, Loss] = {"bce": binary_cross_entropy, "mse": squared_error, "pqm": pqm}
    return losses[name]


def loss_units(name: Objective, mask: Tensor) -> Tensor:
    """The units that a loss is the mean over, in each trajectory: its steps, or of PQM itself, if it has any."""
    return mask.any(dim=1) if name == "pqm" else mask.sum(dim=1)


def binary_cross_entropy(logits: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """Cross-entropy with soft labels, mean over the N steps of the batch (Eq. 5).

    Args:
        logits: (trajectories, steps).
        labels: (trajectories, steps), soft labels in [0, 1].
        mask: (trajectories, steps), boolean: which entries are steps.
    """
    return _mean_over_steps(binary_cross_entropy_with_logits(logits, labels, reduction="none"), mask)


def squared_error(logits: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """Squared difference between probability and soft label, mean over the steps of the batch; arguments as above."""
    return _mean_over_steps((logits.sigmoid() - labels).square(), mask)


def process_q_ranking(logits: Tensor, labels: Tensor, mask: Tensor, margin: float = 4.0) -> Tensor:
    """PQM: every correct step outranks the correct ones before it and, by a margin, all wrong ones.

    `L = (1/|I|) sum_{t in I} -log(e^{Q_t} / (sum_{q<=t, q in {0} u C} e^{Q_q} + sum_{w in W} e^{Q_w + margin}))`

    C are the steps of soft label >= 0.5, W the others, Q_0 = 0, and I = C, joined by 0 when W is not empty. Averaged
    per trajectory, then over the trajectories that have steps. Arguments as above.
    """
    start = torch.zeros_like(logits[:, :1])
    values = torch.cat([start, logits], dim=1)
    correct = torch.cat([torch.ones_like(mask[:, :1]), mask & (labels >= CORRECT_FROM)], dim=1)
    wrong = torch.cat([torch.zeros_like(mask[:, :1]), mask & (labels < CORRECT_FROM)], dim=1)

    anchors = correct.clone()
    anchors[:, 0] = wrong.any(dim=1)
    # the denominator of every t: correct steps up to it, and all wrong ones raised by the margin
    positions = torch.arange(values.shape[1], device=values.device)
    competes = (correct.unsqueeze(1) & (positions <= positions.unsqueeze(1))) | wrong.unsqueeze(1)
    raised = torch.where(wrong, values + margin, values).unsqueeze(1)
    losses = torch.where(competes, raised, torch.finfo(values.dtype).min).logsumexp(dim=2) - values
    counts = anchors.sum(dim=1)
    per_trajectory = torch.where(anchors, losses, 0).sum(dim=1) / counts.clamp(min=1)
    return per_trajectory.sum() / (counts > 0).sum().clamp(min=1)


def _mean_over_steps(losses: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, losses, 0).sum() / mask.sum().clamp(min=1)
