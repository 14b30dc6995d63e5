"""Token batches for training: documents of similar length together, padded on the right.

input_ids  [documents, length]   prompt, continuation, end-of-text, padding
is_target  [documents, length]   True where the token is predicted: the continuation and the end-of-text
"""

import random
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import torch
from transformers import PreTrainedTokenizerFast

from scripts.miniature_models.corpus import Document, documents
from scripts.miniature_models.tokenizer import EOS_ID, PAD_ID

BUCKETED_DOCUMENTS = 1_500


class EncodedDocument(NamedTuple):
    """Token ids of a document; the first `prompt_length` of them are given, not predicted."""

    ids: list[int]
    prompt_length: int


class Batch(NamedTuple):
    """Token ids and which of them are predicted, both [documents, length]."""

    input_ids: torch.Tensor
    is_target: torch.Tensor


def encode(tokenizer: PreTrainedTokenizerFast, chunk: list[Document]) -> list[EncodedDocument]:
    """Token ids of documents, each closed by the end-of-text token."""
    prompts = tokenizer([document.prompt for document in chunk])["input_ids"]
    continuations = tokenizer([document.continuation for document in chunk])["input_ids"]
    return [
        EncodedDocument([*prompt, *continuation, EOS_ID], len(prompt))
        for prompt, continuation in zip(prompts, continuations, strict=True)
    ]


def pad(group: list[EncodedDocument]) -> Batch:
    """One batch of the given documents."""
    length = max(len(document.ids) for document in group)
    input_ids = torch.full((len(group), length), PAD_ID)
    is_target = torch.zeros((len(group), length), dtype=torch.bool)
    for row, document in enumerate(group):
        input_ids[row, : len(document.ids)] = torch.tensor(document.ids)
        is_target[row, document.prompt_length : len(document.ids)] = True
    return Batch(input_ids, is_target)


def group_by_length(encoded: list[EncodedDocument], batch_tokens: int) -> list[list[EncodedDocument]]:
    """Documents sorted by length and cut into groups of at most `batch_tokens` padded tokens."""
    groups: list[list[EncodedDocument]] = []
    group: list[EncodedDocument] = []
    for document in sorted(encoded, key=lambda one: len(one.ids)):
        if group and (len(group) + 1) * len(document.ids) > batch_tokens:
            groups.append(group)
            group = []
        group.append(document)
    return [*groups, group]


def training_batches(tokenizer: PreTrainedTokenizerFast, batch_tokens: int, seed: int) -> Iterator[Batch]:
    """An endless stream of batches.

    Args:
        tokenizer: The world's tokenizer.
        batch_tokens: Tokens of one batch, padding included.
        seed: Decides documents and their order.
    """
    stream, rng = documents(seed), random.Random(seed)
    while True:
        groups = group_by_length(encode(tokenizer, list(islice(stream, BUCKETED_DOCUMENTS))), batch_tokens)
        rng.shuffle(groups)
        for group in groups:
            yield pad(group)
