"""The input of a reward model: template 0 with the question, then the steps, tokenised piece by piece.

    piece       BOS   <template 0 with the question>\n   She earned 0.2 a minute.\n   That is 0.2 * 50 = 10.\n
    token ids   [1]   [313, 22, ..., 198]                [88, 402, ..., 198]          [51, 7, ..., 198]
    positions                                                               74                       90

Each piece is tokenised alone, so no token spans a boundary and the ends of steps follow from token counts. What the
tokenizer puts before every text, such as BOS, stands once at the start.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from cpmi_dagster.models.tokens import piece_ids, start_ids
from cpmi_dagster.trajectories.templates import render_question, render_step

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase


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


Encoder = Callable[
    ["PreTrainedTokenizerBase", Sequence[str], Sequence[Sequence[str]]],
    list[EncodedSolution],
]
"""Tokenizer, questions, steps of each solution -> one encoding per solution, in order."""


def encode_solutions(
    tokenizer: "PreTrainedTokenizerBase",
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


def pad_batch(encoded: Sequence[EncodedSolution]) -> "tuple[dict[str, Tensor], Tensor]":
    """Pad solutions on the right with token id 0.

    Returns:
        The model's inputs (`input_ids` and `attention_mask`, (solutions, tokens); `step_positions`, (solutions,
        steps)), and a boolean mask of real steps, (solutions, steps).
    """
    import torch

    token_ids, attention_mask = pad_rows([solution.token_ids for solution in encoded], torch.long)
    positions, step_mask = pad_rows([solution.step_positions for solution in encoded], torch.long)
    inputs = {"input_ids": token_ids, "attention_mask": attention_mask.long(), "step_positions": positions}
    return inputs, step_mask


def pad_rows(rows: Sequence[Sequence[float]], dtype: "torch.dtype") -> "tuple[Tensor, Tensor]":
    """Pad rows with 0 on the right; also returns a boolean mask of the values that are not padding."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    padded = pad_sequence([torch.tensor(row, dtype=dtype) for row in rows], batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])
    return padded, torch.arange(padded.shape[1]) < lengths.unsqueeze(1)
