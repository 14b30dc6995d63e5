"""Which solutions share a batch: those of similar length, since padding costs as much as text.

lengths              210  87  143  90  205  140
batches of two       (210, 205)  (143, 140)  (87, 90)     in training, in random order
"""

from collections.abc import Iterator, Sequence

import torch
from torch.utils.data import Sampler

SORTED_TOGETHER = 50


class SimilarLengthSampler(Sampler[int]):
    """Indices of training examples: random, but each run of `batch_size` indices has similar lengths.

    Random chunks of 50 batches are sorted by length and cut into batches, whose order is random again. It draws from
    torch's default generator.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int) -> None:
        """Tokens of each example, and examples of one batch."""
        self.lengths = lengths
        self.batch_size = batch_size

    def __len__(self) -> int:
        """Number of examples."""
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        """One epoch."""
        order = torch.randperm(len(self.lengths)).tolist()
        chunk = SORTED_TOGETHER * self.batch_size
        by_length = [
            index
            for start in range(0, len(order), chunk)
            for index in sorted(order[start : start + chunk], key=lambda index: self.lengths[index])
        ]
        batches = [by_length[start : start + self.batch_size] for start in range(0, len(order), self.batch_size)]
        whole = [batch for batch in batches if len(batch) == self.batch_size]
        shuffled = [whole[index] for index in torch.randperm(len(whole)).tolist()]
        return (index for batch in [*shuffled, *batches[len(whole) :]] for index in batch)


def token_batches(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Indices in batches of similar length, longest first; rows x longest row stays within `batch_tokens`."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if batch and lengths[batch[0]] * (len(batch) + 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
