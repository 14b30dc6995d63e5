"""Token batches for training: documents as token trees of similar size, padded on the right.

    prompt ── step 1 ── step 2 ── The answer is: 12        the document
      │         └─ The answer is: 12                       an early answer
      └─ step 2 ── The answer is: 12                       an early answer after one step alone

A node attends only to its ancestors, so that one pass trains all early answers of a document.
"""

import random
from collections.abc import Iterator, Mapping
from itertools import islice, zip_longest
from typing import NamedTuple

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from cpmi_dagster.trajectories.templates import ANSWER_PREFIX
from scripts.miniature_models.corpus import Document, documents
from scripts.miniature_models.tokenizer import EOS_ID, PAD_ID

BUCKETED_DOCUMENTS = 1_500
ROOT = -1
MARK_WEIGHT = 10.0
"""A solution has a few marks and a hundred other tokens."""


class TokenTree:
    """Token ids of a document and its early answers, each distinct prefix once.

    Attributes:
        ids: token id of each node.
        parents: index of the node before it on its branch, `ROOT` for the first.
        weights: weight of its prediction in the loss; 0 for the prompt.
    """

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.parents: list[int] = []
        self.weights: list[float] = []
        self._children: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        """The number of nodes."""
        return len(self.ids)

    def extend(self, node: int, ids: list[int], weight: float = 0) -> int:
        """Follow a path from a node, adding missing nodes; returns the last node."""
        for token in ids:
            child = self._children.setdefault((node, token), len(self.ids))
            if child == len(self.ids):
                self.ids.append(token)
                self.parents.append(node)
                self.weights.append(weight)
            node = child
        return node


class Batch(NamedTuple):
    """Padded trees; tensors are [documents, length], except for `sees`.

    Attributes:
        input_ids: token ids.
        positions: tokens before each on its branch.
        parents: index of the token before it on its branch.
        weights: weight of the prediction of a token.
        sees: whether a token attends to another, [documents, length, length].
    """

    input_ids: torch.Tensor
    positions: torch.Tensor
    parents: torch.Tensor
    weights: torch.Tensor
    sees: torch.Tensor


def _answer_line(answer: str) -> str:
    return f" {answer}\n"


def _pieces(document: Document) -> set[str]:
    """The texts that are tokenised one by one; no token spans two of them."""
    lines = document.continuation.splitlines(keepends=True)
    answers = [_answer_line(early.answer) for early in document.early]
    return {document.prompt, ANSWER_PREFIX, *lines, *answers, *document.marks}


def _grow(document: Document, ids: Mapping[str, list[int]]) -> TokenTree:
    tree = TokenTree()
    root = end = tree.extend(ROOT, ids[document.prompt])
    lines = document.continuation.splitlines(keepends=True)
    for line, mark in zip_longest(lines, document.marks):
        end = tree.extend(end, ids[line], weight=not document.marks)
        if mark:
            tree.extend(end, ids[mark], weight=MARK_WEIGHT)
    if not document.marks:
        tree.extend(end, [EOS_ID], weight=1)
    for steps, answer in document.early:
        node = root
        for step in steps:
            node = tree.extend(node, ids[step])
        tree.extend(tree.extend(node, ids[ANSWER_PREFIX]), ids[_answer_line(answer)], weight=1)
    return tree


def encode(tokenizer: PreTrainedTokenizerFast, chunk: list[Document]) -> list[TokenTree]:
    """Token trees of documents, which end in the end-of-text token."""
    texts = sorted(set().union(*map(_pieces, chunk)))
    ids = dict(zip(texts, tokenizer(texts)["input_ids"], strict=True))
    return [_grow(document, ids) for document in chunk]


def pad(group: list[TokenTree]) -> Batch:
    """One batch of the given trees."""
    shape = (len(group), max(map(len, group)))
    input_ids, weights = np.full(shape, PAD_ID), np.zeros(shape, np.float32)
    positions, parents = np.zeros(shape, int), np.zeros(shape, int)
    sees = np.tile(np.eye(shape[1], dtype=bool), (shape[0], 1, 1))
    for row, tree in enumerate(group):
        input_ids[row, : len(tree)] = tree.ids
        weights[row, : len(tree)] = tree.weights
        parents[row, : len(tree)] = tree.parents
        for node, parent in enumerate(tree.parents):
            if parent != ROOT:
                positions[row, node] = positions[row, parent] + 1
                sees[row, node] |= sees[row, parent]
    return Batch(*map(torch.from_numpy, (input_ids, positions, parents, weights, sees)))


def group_by_length(encoded: list[TokenTree], batch_tokens: int) -> list[list[TokenTree]]:
    """Trees sorted by size and cut into groups of at most `batch_tokens` padded tokens."""
    groups: list[list[TokenTree]] = []
    group: list[TokenTree] = []
    for tree in sorted(encoded, key=len):
        if group and (len(group) + 1) * len(tree) > batch_tokens:
            groups.append(group)
            group = []
        group.append(tree)
    return [*groups, group]


def training_batches(
    tokenizer: PreTrainedTokenizerFast, batch_tokens: int, seed: int, marked: float = 0
) -> Iterator[Batch]:
    """An endless stream of batches.

    Args:
        tokenizer: The world's tokenizer.
        batch_tokens: Tokens of one batch, padding included.
        seed: Decides documents and their order.
        marked: Share of marked solutions.
    """
    stream, rng = documents(seed, marked), random.Random(seed)
    while True:
        groups = group_by_length(encode(tokenizer, list(islice(stream, BUCKETED_DOCUMENTS))), batch_tokens)
        rng.shuffle(groups)
        for group in groups:
            yield pad(group)
