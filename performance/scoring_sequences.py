"""What the contestants are given: token ids of every (context, answer), made without the scorer, and their arithmetic.

question "q0 q1" (one template), step "s0", answers "a0 b0" and "a0 c0", contexts question and step/0:

    requests         q0 q1 | a0 b0     q0 q1 | a0 c0     q0 q1 s0 | a0 b0     q0 q1 s0 | a0 c0
    distinct tokens  q0 q1 a0   s0 a0                  5: nothing is read behind a target's last token
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, product
from statistics import mean
from typing import NamedTuple

import polars as pl
from transformers import PreTrainedTokenizerBase

from cpmi_dagster.contracts.contexts import Conditioning, Context, contexts_of
from cpmi_dagster.trajectories.templates import render_question, render_step, render_target

TokenIds = tuple[int, ...]
Key = tuple[str, int, str, int, int]


class Request(NamedTuple):
    """A target to score behind a context; the key is that of `labels.answer_logprobs`."""

    key: Key
    context: TokenIds
    target: TokenIds


@dataclass(frozen=True)
class Pieces:
    """A trajectory's token ids: prompts by template, steps, targets by answer rank (0 = gold), and its contexts."""

    trajectory_id: str
    question: str
    prompts: tuple[TokenIds, ...]
    steps: tuple[TokenIds, ...]
    targets: tuple[TokenIds, ...]
    contexts: tuple[Context, ...]

    def context_ids(self, context: Context) -> TokenIds:
        """Ids of the steps that stand before an answer."""
        return tuple(chain.from_iterable(self.steps[step] for step in context.steps(len(self.steps))))


def pieces_of(
    trajectories: pl.DataFrame,
    negatives: pl.DataFrame,
    tokenizer: PreTrainedTokenizerBase,
    templates: int,
    conditionings: Sequence[Conditioning],
) -> list[Pieces]:
    """Token ids of every trajectory, each piece tokenised on its own.

    Args:
        trajectories: columns trajectory_id, question, steps, gold_answer.
        negatives: columns of `labels.hard_negatives`.
        tokenizer: of the model; one that adds no BOS.
        templates: K.
        conditionings: decide the contexts.
    """

    def ids(text: str) -> TokenIds:
        return tuple(tokenizer.encode(text, add_special_tokens=False))

    wrong = negatives.sort("rank").group_by("trajectory_id").agg("answer")
    answers: dict[str, list[str]] = dict(wrong.iter_rows())
    return [
        Pieces(
            trajectory_id=row["trajectory_id"],
            question=row["question"],
            prompts=tuple(ids(render_question(row["question"], template)) for template in range(templates)),
            steps=tuple(ids(render_step(step)) for step in row["steps"]),
            targets=tuple(
                ids(render_target(answer)) for answer in (row["gold_answer"], *answers[row["trajectory_id"]])
            ),
            contexts=contexts_of(conditionings, len(row["steps"])),
        )
        for row in trajectories.iter_rows(named=True)
    ]


def requests_of(pieces: Iterable[Pieces]) -> list[Request]:
    """One request per (trajectory, template, context, answer), in this order."""
    return [
        Request(
            (one.trajectory_id, template, context.kind, context.step_index, rank),
            one.prompts[template] + one.context_ids(context),
            target,
        )
        for one in pieces
        for template, context in product(range(len(one.prompts)), one.contexts)
        for rank, target in enumerate(one.targets)
    ]


def distinct_tokens(requests: Iterable[Request]) -> int:
    """Distinct non-empty prefixes of all contexts and answers: the nodes of the forest, counted from sorted texts."""
    texts = sorted({request.context + request.target[:-1] for request in requests})
    shared = (_common_length(one, other) for one, other in pairwise(texts))
    return sum(map(len, texts)) - sum(shared)


def _common_length(one: TokenIds, other: TokenIds) -> int:
    same = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        same += 1
    return same


def padded_tokens(lengths: Sequence[int], batch: int) -> int:
    """Tokens of sequences padded to the longest of their batch, batches in the order they come."""
    return sum(max(part) * len(part) for part in (lengths[at : at + batch] for at in range(0, len(lengths), batch)))


@dataclass(frozen=True)
class Averages:
    """Tokens of template and question, steps a trajectory, tokens a step, tokens a target; trajectories."""

    prompt: float
    steps: float
    step: float
    target: float
    trajectories: int


def averages_of(pieces: Sequence[Pieces]) -> Averages:
    """What a trajectory is like on average."""
    return Averages(
        prompt=mean(len(prompt) for one in pieces for prompt in one.prompts),
        steps=mean(len(one.steps) for one in pieces),
        step=mean(len(step) for one in pieces for step in one.steps),
        target=mean(len(target) for one in pieces for target in one.targets),
        trajectories=len(pieces),
    )
