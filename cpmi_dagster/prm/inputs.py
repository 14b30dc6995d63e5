"""What reward models read and learn from: tokens of solutions, or hidden states that were read before.

The input is template 0 with the question, then the steps. Each piece is tokenised alone, so no token spans a boundary
and the ends of steps follow from token counts. What the tokenizer puts before every text, such as BOS, stands once at
the start.

    piece       BOS   <template 0 with the question>\n   She earned 0.2 a minute.\n   That is 0.2 * 50 = 10.\n
    token ids   [1]   [313, 22, ..., 198]                [88, 402, ..., 198]          [51, 7, ..., 198]
    positions                                                               74                       90

Training and validation examples are split by question: validation questions are never trained on.

    question_id   3f9a  3f9a  77c1  b20e  b20e
    split         train train valid train train
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from cpmi_dagster.errors import TrainingError
from cpmi_dagster.models.tokens import piece_ids, start_ids
from cpmi_dagster.prm.settings import Training
from cpmi_dagster.trajectories.templates import render_question, render_step

COLUMNS = ("trajectory_id", "question_id", "question", "steps", "labels")
SMALLEST_DEVIATION = 1e-6


@dataclass(frozen=True)
class EncodedSolution:
    """Token ids of a question and its steps.

    Args:
        token_ids: BOS (if any), question, steps.
        step_positions: index in `token_ids` of the last token of each step.
        dropped_steps: number of steps at the end that did not fit.
    """

    token_ids: list[int]
    step_positions: list[int]
    dropped_steps: int = 0


Encoder = Callable[[PreTrainedTokenizerBase, Sequence[str], Sequence[Sequence[str]]], list[EncodedSolution]]
"""Tokenizer, questions, steps of each solution -> one encoding per solution, in order."""


def encode_solutions(
    tokenizer: PreTrainedTokenizerBase,
    questions: Sequence[str],
    solutions: Sequence[Sequence[str]],
    max_tokens: int | None = None,
) -> list[EncodedSolution]:
    """Tokenise solutions, each with its question.

    Args:
        max_tokens: whole steps beyond this are dropped and counted; None keeps all.

    Returns:
        One encoding per solution, in order. A step without tokens ends at the last token of the piece before it.
    """
    prompts = [render_question(question) for question in questions]
    rendered = [[render_step(step) for step in steps] for steps in solutions]
    ids = piece_ids(tokenizer, chain(prompts, *rendered))
    start = start_ids(tokenizer)
    encoded = []
    for prompt, steps in zip(prompts, rendered, strict=True):
        token_ids, positions = [*start, *ids[prompt]], []
        for step in steps:
            if max_tokens is not None and len(token_ids) + len(ids[step]) > max_tokens:
                break
            token_ids += ids[step]
            positions.append(len(token_ids) - 1)
        encoded.append(EncodedSolution(token_ids, positions, len(steps) - len(positions)))
    return encoded


@dataclass(frozen=True)
class LabelledSolution:
    """An example: what is read of a solution, and the soft labels of the steps that fit.

    Args:
        encoded: an `EncodedSolution`, or hidden states (steps, hidden size) for a head on a frozen backbone.
    """

    encoded: Any
    labels: list[float]

    @property
    def tokens(self) -> int:
        """Length, by which examples share batches; 0 of hidden states, which are batched at random."""
        return len(getattr(self.encoded, "token_ids", ()))


@dataclass(frozen=True)
class TrainingSet:
    """Examples of both splits.

    Args:
        validation: examples of other questions; may be empty.
        truncated: number of trajectories that lost steps to the token limit; without any step, they are in no split.
    """

    train: list[LabelledSolution]
    validation: list[LabelledSolution]
    truncated: int

    @property
    def train_steps(self) -> int:
        """Labelled steps in one epoch."""
        return sum(len(example.labels) for example in self.train)


def training_set(
    examples: pl.DataFrame,
    tokenizer: PreTrainedTokenizerBase,
    max_tokens: int,
    validation_share: float,
    seed: int,
    states: Sequence[Tensor] | None = None,
) -> TrainingSet:
    """Check, tokenise and split the examples.

    Args:
        examples: trajectory_id, question_id, question, steps, labels.
        max_tokens: whole steps past this many tokens are dropped.
        validation_share: share of the questions held out for validation.
        states: hidden states of each example (steps that fit, hidden size), to learn from instead of tokens.

    Raises:
        TrainingError: a column is missing, labels do not fit their steps, or nothing is left to train on.
    """
    if missing := [column for column in COLUMNS if column not in examples.columns]:
        raise TrainingError(f"the training examples lack the column `{missing[0]}`; they need {', '.join(COLUMNS)}")
    labels, is_valid = pl.col("labels"), pl.element().is_between(0, 1) & pl.element().is_not_nan()
    fits = (labels.list.len() == pl.col("steps").list.len()) & labels.list.eval(is_valid.fill_null(False)).list.all()
    if not (wrong := examples.filter(labels.is_null() | ~fits)).is_empty():
        first = wrong.row(0, named=True)
        raise TrainingError(
            f"trajectory {first['trajectory_id']} has {len(first['steps'])} steps and the labels {first['labels']}; "
            "every step needs one soft label in [0, 1]"
        )
    if states is None:
        encoded = encode_solutions(tokenizer, examples["question"].to_list(), examples["steps"].to_list(), max_tokens)
        counts = [len(solution.step_positions) for solution in encoded]
    else:
        encoded, counts = states, [len(each) for each in states]
    held_out = validation_questions(examples["question_id"], validation_share, seed)
    train: list[LabelledSolution] = []
    validation: list[LabelledSolution] = []
    for solution, labels, count, question in zip(
        encoded, examples["labels"].to_list(), counts, examples["question_id"], strict=True
    ):
        if count:
            (validation if question in held_out else train).append(LabelledSolution(solution, labels[:count]))
    if not train:
        raise TrainingError(
            f"no step of {examples.height} trajectories is left to train on within {max_tokens} tokens; "
            "raise training.max_tokens or give more trajectories"
        )
    steps = examples["steps"].list.len()
    return TrainingSet(train, validation, sum(kept < whole for kept, whole in zip(counts, steps, strict=True)))


def validation_questions(question_ids: pl.Series, share: float, seed: int) -> set[str]:
    """The questions held out for validation: `share` of the distinct ones, at least one and never all."""
    distinct = question_ids.unique().sort().to_list()
    if share == 0 or len(distinct) < 2:
        return set()
    count = min(max(round(share * len(distinct)), 1), len(distinct) - 1)
    chosen = np.random.default_rng(seed).permutation(len(distinct))[:count]
    return {distinct[index] for index in chosen}


def trainings(examples: pl.DataFrame, training: Training, seed: int) -> int:
    """Number of trajectories read in training over all epochs, including those without a step that fits."""
    held_out = validation_questions(examples["question_id"], training.validation_share, seed)
    kept = examples.filter(~pl.col("question_id").is_in(list(held_out)))
    return round(kept.height * training.epochs)


class StateScale(NamedTuple):
    """Mean and standard deviation of hidden states, (hidden size): standardised, one learning rate fits all backbones.

    At the end of a training, `RewardHead.standardise` has the head read states as they are.
    """

    mean: Tensor
    deviation: Tensor

    @classmethod
    def of(cls, examples: Sequence[LabelledSolution]) -> "StateScale":
        """The scale of all steps of some examples."""
        states = torch.cat([example.encoded for example in examples])
        return cls(states.mean(0), states.std(0, correction=0).clamp_min(SMALLEST_DEVIATION))

    def collate(self, examples: Sequence[LabelledSolution]) -> dict[str, Tensor]:
        """Pad standardised states to a batch of a head's input, `step_mask` and `labels`."""
        states = [(example.encoded - self.mean) / self.deviation for example in examples]
        return {"states": pad_sequence(states, batch_first=True), **_pad_labels(examples)}


def collate(examples: Sequence[LabelledSolution]) -> dict[str, Tensor]:
    """Pad examples on the right, with token id 0, to a batch.

    Returns:
        The model's inputs (`input_ids` and `attention_mask`, (solutions, tokens); `step_positions`, (solutions,
        steps)), `labels` and `step_mask`, (solutions, steps), which is true for steps.
    """
    token_ids, attention_mask = pad_rows([example.encoded.token_ids for example in examples], torch.long)
    positions, _ = pad_rows([example.encoded.step_positions for example in examples], torch.long)
    inputs = {"input_ids": token_ids, "attention_mask": attention_mask.long(), "step_positions": positions}
    return {**inputs, **_pad_labels(examples)}


def _pad_labels(examples: Sequence[LabelledSolution]) -> dict[str, Tensor]:
    labels, step_mask = pad_rows([example.labels for example in examples], torch.float32)
    return {"step_mask": step_mask, "labels": labels}


def pad_rows(rows: Sequence[Sequence[float]], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Pad rows with 0 on the right; also returns a boolean mask of the values that are not padding."""
    padded = pad_sequence([torch.tensor(row, dtype=dtype) for row in rows], batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])
    return padded, torch.arange(padded.shape[1]) < lengths.unsqueeze(1)
