"""Training and validation examples, split by question: validation questions are never trained on.

question_id   3f9a  3f9a  77c1  b20e  b20e
split         train train valid train train
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from cpmi_dagster.benchmarks.fields import first_row
from cpmi_dagster.errors import TrainingError
from cpmi_dagster.prm.inputs import encode_solutions
from cpmi_dagster.prm.settings import Training

COLUMNS = ("trajectory_id", "question_id", "question", "steps", "labels")


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
    if first := first_row(examples.filter(labels.is_null() | ~fits)):
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
