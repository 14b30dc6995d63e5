"""Which solutions share a batch: those of similar length, since padding costs as much as text.

lengths              210  87  143  90  205  140
batches of two       (210, 205)  (143, 140)  (87, 90)     in training, in random order
"""

from collections.abc import Iterator, Sequence

import numpy as np
from torch.utils.data import Sampler

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
